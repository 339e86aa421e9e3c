
/*
 * ngx_http_weir_ctx.c - what is remembered of a request from its decision on:
 * until its answer is sent, its status is logged, or its client has gone.
 *
 * An internal redirect ("error_page", "try_files", X-Accel-Redirect) zeroes
 * the contexts, so ours lies in a cleanup of the request pool and is found
 * again there.
 */


#include "ngx_http_weir_module.h"


static struct weir_answer *ngx_http_weir_keep(ngx_http_request_t *r,
    const struct weir_answer *answer);
static void ngx_http_weir_give_back(struct weir *w, struct weir_answer *answer);
static void ngx_http_weir_cleanup(void *data);
static void ngx_http_weir_release(ngx_http_weir_ctx_t *ctx);


/* of this worker: contexts whose requests hold places */

static ngx_queue_t  ngx_http_weir_held = {
    &ngx_http_weir_held, &ngx_http_weir_held
};


ngx_http_weir_ctx_t *
ngx_http_weir_create_ctx(ngx_http_request_t *r, struct weir *w)
{
    ngx_pool_cleanup_t   *cln;
    ngx_http_weir_ctx_t  *ctx;

    cln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_weir_ctx_t));
    if (cln == NULL) {
        return NULL;
    }

    ctx = cln->data;

    ngx_memzero(ctx, sizeof(ngx_http_weir_ctx_t));

    ctx->weir = w;
    cln->handler = ngx_http_weir_cleanup;

    ngx_http_set_ctx(r, ctx, ngx_http_weir_module);

    return ctx;
}


/* The context of a main request, NULL if it was not decided */

ngx_http_weir_ctx_t *
ngx_http_weir_get_ctx(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t   *cln;
    ngx_http_weir_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_weir_module);

    if (ctx || (!r->internal && !r->filter_finalize && !r->error_page)) {
        return ctx;
    }

    for (cln = r->pool->cleanup; cln; cln = cln->next) {

        if (cln->handler == ngx_http_weir_cleanup) {
            ctx = cln->data;
            ngx_http_set_ctx(r, ctx, ngx_http_weir_module);
            return ctx;
        }
    }

    return NULL;
}


/* Keep the little of the answer that is needed later; all if it holds places */

ngx_int_t
ngx_http_weir_remember(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    const struct weir_answer *answer)
{
    struct weir_answer          copy;
    const struct weir_verdict  *verdict;

    ctx->outcome = answer->outcome;
    ctx->reason = answer->reason;
    ctx->delay_ns = answer->delay_ns;
    ctx->retry_after_ns = answer->retry_after_ns;
    ctx->plan = weir_plan_name(ctx->weir, answer->plan);

    if (answer->decisive >= 0) {
        verdict = &answer->verdicts[answer->decisive];
        ctx->limit = weir_limit_name(ctx->weir, verdict->limit);
        ctx->remaining = verdict->remaining_units;
    }

    /* for the log phase, where the status is known */

    if (weir_awaits_status(ctx->weir, answer)) {
        ctx->counted = ngx_http_weir_keep(r, answer);
    }

    if (weir_holds(ctx->weir, answer)) {
        ctx->held = ngx_http_weir_keep(r, answer);

        if (ctx->held == NULL) {
            copy = *answer;
            ngx_http_weir_give_back(ctx->weir, &copy);
            return NGX_ERROR;
        }

        ngx_queue_insert_tail(&ngx_http_weir_held, &ctx->queue);
    }

    return weir_awaits_status(ctx->weir, answer) && ctx->counted == NULL
           ? NGX_ERROR : NGX_OK;
}


static struct weir_answer *
ngx_http_weir_keep(ngx_http_request_t *r, const struct weir_answer *answer)
{
    struct weir_answer  *kept;

    kept = ngx_palloc(r->pool, sizeof(struct weir_answer));

    if (kept) {
        *kept = *answer;
    }

    return kept;
}


/*
 * Runs once, for the main request, when the answer is sent or the client has
 * gone; the status that is logged is the one that counts.
 */

ngx_int_t
ngx_http_weir_log_handler(ngx_http_request_t *r)
{
    ngx_uint_t            status;
    struct weir_answer   *answer;
    ngx_http_weir_ctx_t  *ctx;

    ctx = ngx_http_weir_get_ctx(r);

    if (ctx == NULL || ctx->counted == NULL) {
        return NGX_OK;
    }

    answer = ctx->counted;
    ctx->counted = NULL;

    status = r->err_status ? r->err_status : r->headers_out.status;

    if (weir_finish(ctx->weir, answer, (int) status, weir_now(ctx->weir))
        != 0)
    {
        ngx_log_debug1(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                       "weir: no status to count by: %ui", status);
    }

    return NGX_OK;
}


static void
ngx_http_weir_cleanup(void *data)
{
    ngx_http_weir_ctx_t *ctx = data;

    if (ctx->ask) {
        ngx_http_weir_agent_forget(ctx);
    }

    if (ctx->held) {
        ngx_http_weir_release(ctx);
    }
}


/* The places that |answer| holds, to the daemon or to the arena */

static void
ngx_http_weir_give_back(struct weir *w, struct weir_answer *answer)
{
    if (ngx_http_weir_agent_release(w, answer) != NGX_OK) {
        weir_release(w, answer, weir_now(w));
    }
}


static void
ngx_http_weir_release(ngx_http_weir_ctx_t *ctx)
{
    ngx_http_weir_give_back(ctx->weir, ctx->held);

    ngx_queue_remove(&ctx->queue);
    ctx->held = NULL;
}


/* A worker that is told to stop at once does not destroy the request pools */

void
ngx_http_weir_release_all(void)
{
    ngx_queue_t          *q;
    ngx_http_weir_ctx_t  *ctx;

    while (!ngx_queue_empty(&ngx_http_weir_held)) {
        q = ngx_queue_head(&ngx_http_weir_held);
        ctx = ngx_queue_data(q, ngx_http_weir_ctx_t, queue);

        ngx_http_weir_release(ctx);
    }
}
