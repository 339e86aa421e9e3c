
/*
 * ngx_http_weir_variables.c - the decision as variables, for logs and for
 * error pages.  Empty where the request was not decided, or where there is
 * nothing to say.
 */


#include "ngx_http_weir_module.h"


typedef const char *(*ngx_http_weir_text_pt)(ngx_http_weir_ctx_t *ctx);

#define NGX_HTTP_WEIR_REMAINING    0
#define NGX_HTTP_WEIR_RETRY_AFTER  1
#define NGX_HTTP_WEIR_DELAY        2


static const char *ngx_http_weir_verdict_text(ngx_http_weir_ctx_t *ctx);
static const char *ngx_http_weir_reason_text(ngx_http_weir_ctx_t *ctx);
static const char *ngx_http_weir_limit_text(ngx_http_weir_ctx_t *ctx);
static const char *ngx_http_weir_plan_text(ngx_http_weir_ctx_t *ctx);
static const char *ngx_http_weir_agent_text(ngx_http_weir_ctx_t *ctx);
static ngx_int_t ngx_http_weir_text_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_weir_number_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);


static ngx_http_variable_t  ngx_http_weir_vars[] = {

    { ngx_string("weir_verdict"), NULL, ngx_http_weir_text_variable,
      (uintptr_t) ngx_http_weir_verdict_text, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("weir_reason"), NULL, ngx_http_weir_text_variable,
      (uintptr_t) ngx_http_weir_reason_text, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("weir_limit"), NULL, ngx_http_weir_text_variable,
      (uintptr_t) ngx_http_weir_limit_text, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("weir_plan"), NULL, ngx_http_weir_text_variable,
      (uintptr_t) ngx_http_weir_plan_text, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("weir_agent"), NULL, ngx_http_weir_text_variable,
      (uintptr_t) ngx_http_weir_agent_text, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("weir_remaining"), NULL, ngx_http_weir_number_variable,
      NGX_HTTP_WEIR_REMAINING, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("weir_retry_after"), NULL, ngx_http_weir_number_variable,
      NGX_HTTP_WEIR_RETRY_AFTER, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("weir_delay"), NULL, ngx_http_weir_number_variable,
      NGX_HTTP_WEIR_DELAY, NGX_HTTP_VAR_NOCACHEABLE, 0 },

      ngx_http_null_variable
};


ngx_int_t
ngx_http_weir_add_variables(ngx_conf_t *cf)
{
    ngx_http_variable_t  *var, *v;

    for (v = ngx_http_weir_vars; v->name.len; v++) {
        var = ngx_http_add_variable(cf, &v->name, v->flags);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = v->get_handler;
        var->data = v->data;
    }

    return NGX_OK;
}


static const char *
ngx_http_weir_verdict_text(ngx_http_weir_ctx_t *ctx)
{
    switch (ctx->outcome) {

    case WEIR_ALLOW:
        return "allow";

    case WEIR_DELAY:
        return "delay";

    case WEIR_DENY:
        return "deny";

    case WEIR_SHADOW:
        return "shadow";
    }

    return NULL;
}


static const char *
ngx_http_weir_reason_text(ngx_http_weir_ctx_t *ctx)
{
    switch (ctx->reason) {

    case WEIR_REASON_LIMIT:
        return "limit";

    case WEIR_REASON_CAPACITY:
        return "capacity";

    case WEIR_REASON_ZERO:
        return "zero";

    case WEIR_REASON_BANNED:
        return "banned";

    case WEIR_REASON_MISSING:
        return "missing";

    case WEIR_REASON_BUSY:
        return "busy";

    case WEIR_REASON_STORE:
        return "store";

    case WEIR_REASON_PLAN:
        return "plan";
    }

    return NULL;
}


static const char *
ngx_http_weir_limit_text(ngx_http_weir_ctx_t *ctx)
{
    return ctx->limit;
}


static const char *
ngx_http_weir_plan_text(ngx_http_weir_ctx_t *ctx)
{
    return ctx->plan;
}


static const char *
ngx_http_weir_agent_text(ngx_http_weir_ctx_t *ctx)
{
    return ctx->agent;
}


static ngx_int_t
ngx_http_weir_text_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_http_weir_text_pt handler = (ngx_http_weir_text_pt) data;

    const char           *text;
    ngx_http_weir_ctx_t  *ctx;

    ctx = ngx_http_weir_get_ctx(r->main);
    text = ctx && ctx->ask == NULL ? handler(ctx) : NULL;

    if (text == NULL) {
        v->not_found = 1;
        return NGX_OK;
    }

    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;
    v->data = (u_char *) text;
    v->len = ngx_strlen(text);

    return NGX_OK;
}


static ngx_int_t
ngx_http_weir_number_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    u_char               *p;
    int64_t               ms;
    ngx_http_weir_ctx_t  *ctx;

    ctx = ngx_http_weir_get_ctx(r->main);

    if (ctx == NULL || ctx->ask
        || (data == NGX_HTTP_WEIR_REMAINING && ctx->limit == NULL)
        || (data == NGX_HTTP_WEIR_RETRY_AFTER && ctx->retry_after_ns <= 0))
    {
        v->not_found = 1;
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, NGX_INT64_LEN + sizeof(".000") - 1);
    if (p == NULL) {
        return NGX_ERROR;
    }

    v->data = p;

    switch (data) {

    case NGX_HTTP_WEIR_REMAINING:
        p = ngx_sprintf(p, "%L", ctx->remaining);
        break;

    case NGX_HTTP_WEIR_RETRY_AFTER:
        p = ngx_sprintf(p, "%L", (ctx->retry_after_ns - 1) / 1000000000 + 1);
        break;

    default: /* NGX_HTTP_WEIR_DELAY */
        ms = (ctx->delay_ns + 999999) / 1000000;
        p = ngx_sprintf(p, "%L.%03L", ms / 1000, ms % 1000);
        break;
    }

    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;
    v->len = p - v->data;

    return NGX_OK;
}
