
/*
 * ngx_http_weir_handler.c - a request on its way: charge it once, then let it
 * through, delay it, or refuse it.
 * Whether it was charged is known by its context.
 */


#include "ngx_http_weir_module.h"


static ngx_int_t ngx_http_weir_handler(ngx_http_request_t *r,
    ngx_uint_t stage);
static ngx_int_t ngx_http_weir_obey(ngx_http_request_t *r,
    ngx_http_weir_main_conf_t *wmcf, ngx_http_weir_loc_conf_t *wlcf,
    ngx_http_weir_ctx_t *ctx, const struct weir_answer *answer);
static ngx_int_t ngx_http_weir_decide(ngx_http_request_t *r,
    ngx_http_weir_main_conf_t *wmcf, ngx_http_weir_loc_conf_t *wlcf,
    ngx_http_weir_ctx_t *ctx, struct weir_answer *answer);
static ngx_int_t ngx_http_weir_decide_alone(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, const struct weir_request *request,
    struct weir_answer *answer);
static ngx_int_t ngx_http_weir_get_cost(ngx_http_request_t *r,
    ngx_http_weir_loc_conf_t *wlcf, int64_t *cost);
static ngx_int_t ngx_http_weir_get_plan(ngx_http_request_t *r,
    ngx_http_weir_main_conf_t *wmcf, ngx_http_weir_loc_conf_t *wlcf,
    int *plan);
static ngx_int_t ngx_http_weir_delay(ngx_http_request_t *r, int64_t delay_ns);
static void ngx_http_weir_delay_handler(ngx_http_request_t *r);


ngx_int_t
ngx_http_weir_preaccess_handler(ngx_http_request_t *r)
{
    return ngx_http_weir_handler(r, NGX_HTTP_WEIR_PREACCESS);
}


ngx_int_t
ngx_http_weir_precontent_handler(ngx_http_request_t *r)
{
    return ngx_http_weir_handler(r, NGX_HTTP_WEIR_PRECONTENT);
}


static ngx_int_t
ngx_http_weir_handler(ngx_http_request_t *r, ngx_uint_t stage)
{
    ngx_int_t                   rc;
    ngx_flag_t                  skip_options;
    struct weir_answer          answer;
    ngx_http_weir_ctx_t        *ctx;
    ngx_http_weir_loc_conf_t   *wlcf;
    ngx_http_weir_main_conf_t  *wmcf;

    wlcf = ngx_http_get_module_loc_conf(r, ngx_http_weir_module);

    if (!wlcf->enable || wlcf->stage != stage || r != r->main) {
        return NGX_DECLINED;
    }

    ctx = ngx_http_weir_get_ctx(r);

    if (ctx && ctx->ask == NULL) {
        return NGX_DECLINED;
    }

    wmcf = ngx_http_get_module_main_conf(r, ngx_http_weir_module);

    if (ctx == NULL && r->method == NGX_HTTP_OPTIONS) {
        skip_options = wlcf->options == NGX_CONF_UNSET
                       ? wmcf->defaults.skip_options : !wlcf->options;
        if (skip_options) {
            return NGX_DECLINED;
        }
    }

    if (ctx == NULL) {
        ctx = ngx_http_weir_create_ctx(r, wmcf->weir);
        if (ctx == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }

    rc = ngx_http_weir_decide(r, wmcf, wlcf, ctx, &answer);

    if (rc == NGX_AGAIN) {
        return NGX_AGAIN;
    }

    if (rc != NGX_OK) {
        return rc == NGX_HTTP_BAD_REQUEST ? rc : NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_weir_obey(r, wmcf, wlcf, ctx, &answer);
}


static ngx_int_t
ngx_http_weir_obey(ngx_http_request_t *r, ngx_http_weir_main_conf_t *wmcf,
    ngx_http_weir_loc_conf_t *wlcf, ngx_http_weir_ctx_t *ctx,
    const struct weir_answer *answer)
{
    ngx_uint_t  status, families;

    families = wlcf->families == NGX_CONF_UNSET ? wmcf->defaults.families
                                                : (ngx_uint_t) wlcf->families;

    if (ngx_http_weir_remember(r, ctx, answer) != NGX_OK
        || ngx_http_weir_render(r, ctx, answer, families) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_log_debug4(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "weir: outcome:%d reason:%d limit:\"%s\" delay:%L ns",
                   (int) answer->outcome, (int) answer->reason,
                   ctx->limit ? ctx->limit : "", answer->delay_ns);

    if (answer->outcome == WEIR_DENY) {
        status = wlcf->status;

        /* weir_status is for excess: a store that is gone, or a plan that
           excludes the route, is none */

        if (status == 0 || answer->reason == WEIR_REASON_STORE
            || answer->reason == WEIR_REASON_PLAN)
        {
            status = weir_answer_status(&wmcf->defaults, answer);
        }

        return ngx_http_weir_refuse(r, ctx, answer, status);
    }

    /* a request that a shadow limit would have refused may be delayed too */

    if (answer->delay_ns > 0) {
        return ngx_http_weir_delay(r, answer->delay_ns);
    }

    return NGX_DECLINED;
}


/* NGX_AGAIN: the daemon is asked, and runs the phase again */

static ngx_int_t
ngx_http_weir_decide(ngx_http_request_t *r, ngx_http_weir_main_conf_t *wmcf,
    ngx_http_weir_loc_conf_t *wlcf, ngx_http_weir_ctx_t *ctx,
    struct weir_answer *answer)
{
    int                  rc;
    ngx_int_t            asked, collected;
    struct weir_slice    fields[NGX_HTTP_WEIR_FIELDS_MAX];
    struct weir_request  request;

    asked = NGX_OK;

    if (ctx->ask) {
        asked = ngx_http_weir_agent_answer(ctx, answer);

        if (asked != NGX_DECLINED) {
            return asked;
        }
    }

    collected = ngx_http_weir_collect(r, wmcf, wlcf, fields);
    if (collected != NGX_OK) {
        return collected;
    }

    if (ngx_http_weir_get_cost(r, wlcf, &request.cost_units) != NGX_OK
        || ngx_http_weir_get_plan(r, wmcf, wlcf, &request.plan) != NGX_OK)
    {
        return NGX_ERROR;
    }

    request.method.ptr = (char *) r->method_name.data;
    request.method.len = r->method_name.len;
    request.peer.ptr = (char *) r->connection->addr_text.data;
    request.peer.len = r->connection->addr_text.len;
    request.fields = fields;
    request.field_count = wmcf->nfields;
    request.peek = 0;

    /* not r->uri, which redirects change; the library cuts and normalises */

    request.path.ptr = (char *) r->unparsed_uri.data;
    request.path.len = r->unparsed_uri.len;

    if (asked == NGX_DECLINED) {
        return ngx_http_weir_decide_alone(r, ctx, &request, answer);
    }

    rc = weir_decide(wmcf->weir, &request, weir_now(wmcf->weir), answer);

    if (rc != 0) {
        ngx_log_error(NGX_LOG_ALERT, r->connection->log, 0,
                      "weir_decide() failed: %s", weir_strerror(rc));
        return NGX_ERROR;
    }

    if (answer->outcome != WEIR_ASK) {
        return NGX_OK;
    }

    asked = ngx_http_weir_agent_ask(r, ctx, &request);

    if (asked == NGX_DECLINED) {
        return ngx_http_weir_decide_alone(r, ctx, &request, answer);
    }

    return asked;
}


static ngx_int_t
ngx_http_weir_decide_alone(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    const struct weir_request *request, struct weir_answer *answer)
{
    int  rc;

    rc = weir_decide_alone(ctx->weir, request, weir_now(ctx->weir), answer);

    if (rc != 0) {
        ngx_log_error(NGX_LOG_ALERT, r->connection->log, 0,
                      "weir_decide_alone() failed: %s", weir_strerror(rc));
        return NGX_ERROR;
    }

    return NGX_OK;
}


/*
 * The variables of a cost may come from the caller: digits that overflow cost
 * the most there is; no number at all costs what the policy says.
 */

static ngx_int_t
ngx_http_weir_get_cost(ngx_http_request_t *r, ngx_http_weir_loc_conf_t *wlcf,
    int64_t *cost)
{
    int64_t     sum;
    ngx_str_t   value;
    ngx_uint_t  i;

    *cost = -1;

    if (wlcf->cost == NULL) {
        return NGX_OK;
    }

    if (wlcf->cost->lengths == NULL) {
        *cost = wlcf->fixed_cost;
        return NGX_OK;
    }

    if (ngx_http_complex_value(r, wlcf->cost, &value) != NGX_OK) {
        return NGX_ERROR;
    }

    sum = 0;

    for (i = 0; i < value.len; i++) {

        if (value.data[i] < '0' || value.data[i] > '9') {
            ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                          "weir: cost \"%V\" is not a number", &value);
            return NGX_OK;
        }

        sum = ngx_min(sum * 10 + (value.data[i] - '0'), WEIR_COST_MAX);
    }

    if (value.len) {
        *cost = sum;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_weir_get_plan(ngx_http_request_t *r, ngx_http_weir_main_conf_t *wmcf,
    ngx_http_weir_loc_conf_t *wlcf, int *plan)
{
    ngx_str_t          value;
    struct weir_slice  name;

    *plan = -1;

    if (wlcf->plan == NULL) {
        return NGX_OK;
    }

    if (ngx_http_complex_value(r, wlcf->plan, &value) != NGX_OK) {
        return NGX_ERROR;
    }

    if (value.len == 0) {
        return NGX_OK;
    }

    name.ptr = (char *) value.data;
    name.len = value.len;

    *plan = weir_plan_find(wmcf->weir, name);

    if (*plan < 0) {
        ngx_log_error(NGX_LOG_NOTICE, r->connection->log, 0,
                      "weir: the policy has no plan \"%V\"", &value);
        *plan = -1;
    }

    return NGX_OK;
}


/*
 * As limit_req does it, but for the clock: the decision was made now, timers
 * count from the last turn of the event loop.  The time is updated, and one
 * more millisecond makes up for its fraction: no request leaves too early.
 */

static ngx_int_t
ngx_http_weir_delay(ngx_http_request_t *r, int64_t delay_ns)
{
    ngx_msec_t  delay;

    if (ngx_handle_read_event(r->connection->read, 0) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_time_update();

    delay = (ngx_msec_t) ((delay_ns + 999999) / 1000000) + 1;

    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_weir_delay_handler;

    r->connection->write->delayed = 1;
    ngx_add_timer(r->connection->write, delay);

    return NGX_AGAIN;
}


static void
ngx_http_weir_delay_handler(ngx_http_request_t *r)
{
    ngx_event_t  *wev;

    wev = r->connection->write;

    if (wev->delayed) {

        if (ngx_handle_write_event(wev, 0) != NGX_OK) {
            ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
        }

        return;
    }

    ngx_log_debug0(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "weir: delay is over");

    if (ngx_handle_read_event(r->connection->read, 0) != NGX_OK) {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
        return;
    }

    r->read_event_handler = ngx_http_block_reading;
    r->write_event_handler = ngx_http_core_run_phases;

    ngx_http_core_run_phases(r);
}
