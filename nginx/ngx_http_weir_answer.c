
/*
 * ngx_http_weir_answer.c - what the caller is told: fields in every response,
 * and a problem body in refusals.
 *
 * The values are rendered once, when the request is decided, and added by a
 * header filter to whatever response comes: from a file, an upstream, an error
 * page.  Fields that an upstream sent under the same names are not sent twice:
 *
 *   RateLimit, RateLimit-Policy    ours are appended to an upstream's list; an
 *                                  older shape, which is no list, is replaced
 *   Access-Control-Expose-Headers  ours is appended
 *   all others                     replaced
 */


#include "ngx_http_weir_module.h"


static ngx_int_t ngx_http_weir_header_filter(ngx_http_request_t *r);
static ngx_int_t ngx_http_weir_merge(ngx_http_request_t *r,
    ngx_keyval_t *ours, ngx_table_elt_t *theirs,
    ngx_str_t *before);
static ngx_int_t ngx_http_weir_push(ngx_http_request_t *r,
    ngx_keyval_t *ours, ngx_str_t *before);
static ngx_uint_t ngx_http_weir_is_list(ngx_keyval_t *ours,
    ngx_str_t *theirs);
static ngx_uint_t ngx_http_weir_has_error_page(ngx_http_request_t *r,
    ngx_uint_t status);


static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;


void
ngx_http_weir_filter_init(void)
{
    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_weir_header_filter;
}


ngx_int_t
ngx_http_weir_render(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    const struct weir_answer *answer, ngx_uint_t families)
{
    int                 n, i;
    char                buf[WEIR_HEADERS_BYTES];
    size_t              len;
    u_char             *p;
    ngx_keyval_t       *header;
    struct weir_header  headers[WEIR_HEADERS_MAX];

    if (families == 0 && answer->outcome != WEIR_DENY) {
        return NGX_OK;
    }

    n = weir_answer_headers(ctx->weir, answer, families, headers, buf,
                            WEIR_HEADERS_BYTES);

    if (n < 0) {
        ngx_log_error(NGX_LOG_ALERT, r->connection->log, 0,
                      "weir_answer_headers() failed: %s", weir_strerror(n));
        return NGX_OK;
    }

    len = n * sizeof(ngx_keyval_t);

    for (i = 0; i < n; i++) {
        len += headers[i].value.len;
    }

    header = ngx_palloc(r->pool, len);
    if (header == NULL) {
        return NGX_ERROR;
    }

    ctx->headers = header;
    ctx->nheaders = n;

    p = (u_char *) &header[n];

    for (i = 0; i < n; i++) {
        header[i].key.data = (u_char *) headers[i].name;
        header[i].key.len = ngx_strlen(headers[i].name);
        header[i].value.data = p;
        header[i].value.len = headers[i].value.len;

        p = ngx_cpymem(p, headers[i].value.ptr, headers[i].value.len);
    }

    return NGX_OK;
}


/*
 * Answer a refusal: by the problem body, or by the location's "error_page",
 * which nginx goes to when it is handed the status.
 */

ngx_int_t
ngx_http_weir_refuse(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    const struct weir_answer *answer, ngx_uint_t status)
{
    int                        len;
    char                       buf[WEIR_PROBLEM_BYTES];
    ngx_http_complex_value_t   body;

    static ngx_str_t  type = ngx_string("application/problem+json");

    if (ctx->limit) {
        ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                      "weir: refused by limit \"%s\"", ctx->limit);

    } else {
        ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                      "weir: refused, banned");
    }

    /* 444: close the connection without a word */

    if (status == NGX_HTTP_CLOSE || ngx_http_weir_has_error_page(r, status)) {
        return status;
    }

    len = weir_answer_problem(ctx->weir, answer, status, buf,
                              WEIR_PROBLEM_BYTES);

    if (len < 0) {
        ngx_log_error(NGX_LOG_ALERT, r->connection->log, 0,
                      "weir_answer_problem() failed: %s", weir_strerror(len));
        return status;
    }

    ngx_memzero(&body, sizeof(ngx_http_complex_value_t));

    body.value.len = len;
    body.value.data = ngx_pnalloc(r->pool, len);
    if (body.value.data == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_memcpy(body.value.data, buf, len);

    ngx_http_finalize_request(r, ngx_http_send_response(r, status, &type,
                                                        &body));

    return NGX_DONE;
}


static ngx_uint_t
ngx_http_weir_has_error_page(ngx_http_request_t *r, ngx_uint_t status)
{
    ngx_uint_t                 i;
    ngx_http_err_page_t       *page;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (clcf->error_pages == NULL
        || (r->error_page && !clcf->recursive_error_pages))
    {
        return 0;
    }

    page = clcf->error_pages->elts;

    for (i = 0; i < clcf->error_pages->nelts; i++) {
        if (page[i].status == (ngx_int_t) status) {
            return 1;
        }
    }

    return 0;
}


static ngx_int_t
ngx_http_weir_header_filter(ngx_http_request_t *r)
{
    ngx_str_t             before[WEIR_HEADERS_MAX];
    ngx_uint_t            i, n;
    ngx_keyval_t         *ours;
    ngx_list_part_t      *part;
    ngx_table_elt_t      *header;
    ngx_http_weir_ctx_t  *ctx;

    if (r != r->main) {
        return ngx_http_next_header_filter(r);
    }

    ctx = ngx_http_weir_get_ctx(r);

    if (ctx == NULL || ctx->nheaders == 0) {
        return ngx_http_next_header_filter(r);
    }

    ngx_memzero(before, ctx->nheaders * sizeof(ngx_str_t));

    for (part = &r->headers_out.headers.part; part; part = part->next) {
        header = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (header[i].hash == 0) {
                continue;
            }

            for (n = 0; n < ctx->nheaders; n++) {
                ours = &ctx->headers[n];

                if (header[i].key.len != ours->key.len
                    || ngx_strncasecmp(header[i].key.data, ours->key.data,
                                       ours->key.len)
                       != 0)
                {
                    continue;
                }

                if (ngx_http_weir_merge(r, ours, &header[i], &before[n])
                    != NGX_OK)
                {
                    return NGX_ERROR;
                }

                break;
            }
        }
    }

    for (n = 0; n < ctx->nheaders; n++) {
        if (ngx_http_weir_push(r, &ctx->headers[n], &before[n]) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return ngx_http_next_header_filter(r);
}


/* Take one of their lines out; what must stay of it goes |before| ours */

static ngx_int_t
ngx_http_weir_merge(ngx_http_request_t *r, ngx_keyval_t *ours,
    ngx_table_elt_t *theirs, ngx_str_t *before)
{
    u_char  *p, *buf;

    theirs->hash = 0;

    if (theirs->value.len == 0
        || !ngx_http_weir_is_list(ours, &theirs->value))
    {
        return NGX_OK;
    }

    buf = ngx_pnalloc(r->pool, before->len + theirs->value.len + 2);
    if (buf == NULL) {
        return NGX_ERROR;
    }

    p = ngx_cpymem(buf, before->data, before->len);
    p = ngx_cpymem(p, theirs->value.data, theirs->value.len);
    *p++ = ',';
    *p++ = ' ';

    before->data = buf;
    before->len = p - buf;

    return NGX_OK;
}


/* May ours be appended to theirs? */

static ngx_uint_t
ngx_http_weir_is_list(ngx_keyval_t *ours, ngx_str_t *theirs)
{
    if (ngx_strncmp(ours->key.data, "RateLimit", 9) == 0) {

        /* a list of strings, as all since draft-08 are */

        return ours->value.len && ours->value.data[0] == '"'
               && theirs->data[0] == '"';
    }

    return ngx_strcmp(ours->key.data, "Access-Control-Expose-Headers") == 0;
}


static ngx_int_t
ngx_http_weir_push(ngx_http_request_t *r, ngx_keyval_t *ours,
    ngx_str_t *before)
{
    u_char           *p;
    ngx_table_elt_t  *header;

    header = ngx_list_push(&r->headers_out.headers);
    if (header == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(header, sizeof(ngx_table_elt_t));

    header->hash = 1;
    header->key = ours->key;
    header->value = ours->value;

    if (before->len == 0) {
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, before->len + ours->value.len);
    if (p == NULL) {
        header->hash = 0;
        return NGX_ERROR;
    }

    header->value.data = p;
    header->value.len = before->len + ours->value.len;

    p = ngx_cpymem(p, before->data, before->len);
    ngx_memcpy(p, ours->value.data, ours->value.len);

    return NGX_OK;
}
