
/*
 * ngx_http_weir_policy.c - the policy behind the configuration: opened, asked
 * what it wants to know of requests, and what is unwise about its use.
 *
 * Its errors come from the library as lines "file:line:column: error: text";
 * each becomes a line of nginx's log, so that "nginx -t" shows all of them.
 */


#include "ngx_http_weir_module.h"


#define NGX_HTTP_WEIR_ERRORS_SIZE  16384
#define NGX_HTTP_WEIR_TEST_ARENA   (2 * 1024 * 1024)


static void ngx_http_weir_log_errors(ngx_conf_t *cf, u_char *errors);
static char *ngx_http_weir_read_fields(ngx_conf_t *cf,
    ngx_http_weir_main_conf_t *wmcf);
static void ngx_http_weir_close(void *data);
static ngx_uint_t ngx_http_weir_needs(ngx_http_weir_main_conf_t *wmcf,
    ngx_str_t *name);
static ngx_uint_t ngx_http_weir_always_returns(ngx_array_t *codes);


/*
 * Read the policy and open its arena.  A mere test of the configuration, or a
 * process that only sends a signal, touches no arena file.
 */

char *
ngx_http_weir_open(ngx_conf_t *cf, ngx_http_weir_main_conf_t *wmcf)
{
    int                  rc;
    char                *errors;
    ngx_pool_cleanup_t  *cln;
    struct weir_options  options;

    ngx_memzero(&options, sizeof(struct weir_options));

    if (ngx_test_config || ngx_process == NGX_PROCESS_SIGNALLER) {
        options.arena_path = "";
        options.arena_bytes = NGX_HTTP_WEIR_TEST_ARENA;

    } else {
        options.arena_default = ngx_http_weir_default_arena(cf);
        if (options.arena_default == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    errors = ngx_palloc(cf->temp_pool, NGX_HTTP_WEIR_ERRORS_SIZE);
    if (errors == NULL) {
        return NGX_CONF_ERROR;
    }

    cln = ngx_pool_cleanup_add(cf->pool, 0);
    if (cln == NULL) {
        return NGX_CONF_ERROR;
    }

    rc = weir_open(&wmcf->weir, (char *) wmcf->policy.data, &options, errors,
                   NGX_HTTP_WEIR_ERRORS_SIZE);

    ngx_http_weir_log_errors(cf, (u_char *) errors);

    if (rc != 0) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"weir_policy\" \"%V\" cannot be used: %s in %s:%ui",
                      &wmcf->policy, weir_strerror(rc), wmcf->conf_file,
                      wmcf->conf_line);
        return NGX_CONF_ERROR;
    }

    cln->handler = ngx_http_weir_close;
    cln->data = wmcf->weir;

    if (options.arena_default
        && ngx_http_weir_check_owner(cf, options.arena_default) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    weir_answer_defaults(wmcf->weir, &wmcf->defaults);

    return ngx_http_weir_read_fields(cf, wmcf);
}


static void
ngx_http_weir_log_errors(ngx_conf_t *cf, u_char *errors)
{
    u_char      *p, *end;
    ngx_uint_t   level;

    for (p = errors; *p; p = end) {

        end = (u_char *) ngx_strchr(p, '\n');
        if (end == NULL) {
            end = p + ngx_strlen(p);
        }

        level = ngx_strnstr(p, ": warning: ", end - p) ? NGX_LOG_WARN
                                                       : NGX_LOG_EMERG;

        ngx_log_error(level, cf->log, 0, "%*s", (size_t) (end - p), p);

        if (*end) {
            end++;
        }
    }
}


static char *
ngx_http_weir_read_fields(ngx_conf_t *cf, ngx_http_weir_main_conf_t *wmcf)
{
    u_char                 *name;
    ngx_uint_t              i;
    ngx_http_weir_field_t  *field;

    wmcf->nfields = weir_field_count(wmcf->weir);

    if (wmcf->nfields > NGX_HTTP_WEIR_FIELDS_MAX) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"weir_policy\" \"%V\" looks at %ui fields of a request,"
                      " more than %d", &wmcf->policy, wmcf->nfields,
                      NGX_HTTP_WEIR_FIELDS_MAX);
        return NGX_CONF_ERROR;
    }

    wmcf->fields = ngx_pcalloc(cf->pool, (wmcf->nfields + 1)
                                         * sizeof(ngx_http_weir_field_t));
    if (wmcf->fields == NULL) {
        return NGX_CONF_ERROR;
    }

    for (i = 0; i < wmcf->nfields; i++) {
        field = &wmcf->fields[i];

        name = (u_char *) weir_field_name(wmcf->weir, i);
        field->name.len = ngx_strlen(name);
        field->name.data = ngx_pnalloc(cf->pool, field->name.len + 1);
        if (field->name.data == NULL) {
            return NGX_CONF_ERROR;
        }

        if (weir_field_kind(wmcf->weir, i) == WEIR_FIELD_KEY) {
            ngx_memcpy(field->name.data, name, field->name.len);
            field->key = 1;
            field->needed = weir_field_only_given(wmcf->weir, i);
            continue;
        }

        field->list = weir_field_is_list(wmcf->weir, i);
        field->hash = ngx_hash_strlow(field->name.data, name,
                                      field->name.len);
        wmcf->mask |= ngx_http_weir_bit(field->hash);
    }

    return NGX_CONF_OK;
}


static void
ngx_http_weir_close(void *data)
{
    ngx_http_weir_agent_close(data);
    weir_close(data);
}


/* Find the field of the policy that each "weir_key" is meant for. */

char *
ngx_http_weir_resolve_keys(ngx_conf_t *cf, ngx_http_weir_main_conf_t *wmcf,
    ngx_http_weir_loc_conf_t *wlcf)
{
    ngx_uint_t              i, f;
    ngx_http_weir_key_t    *key;
    ngx_http_weir_field_t  *field;

    wmcf->used = 1;

    if (wlcf->keys == NULL) {
        return NGX_CONF_OK;
    }

    key = wlcf->keys->elts;

    for (i = 0; i < wlcf->keys->nelts; i++) {

        for (f = 0; f < wmcf->nfields; f++) {
            field = &wmcf->fields[f];

            if (field->key && field->name.len == key[i].name.len
                && ngx_strncmp(field->name.data, key[i].name.data,
                               field->name.len)
                   == 0)
            {
                break;
            }
        }

        if (f == wmcf->nfields) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "\"weir_key\" \"%V\": the policy \"%V\" has no "
                          "identity of that name",
                          &key[i].name, &wmcf->policy);
            return NGX_CONF_ERROR;
        }

        key[i].field = f;
        wmcf->fields[f].given = 1;
    }

    return NGX_CONF_OK;
}


/*
 * An identity without a header that no "weir_key" gives is missing from every
 * request.  Asked of the whole configuration: a limit is often meant for some
 * locations only, and these are the policy's to know.
 */

void
ngx_http_weir_warn_keys(ngx_conf_t *cf, ngx_http_weir_main_conf_t *wmcf)
{
    ngx_uint_t  i;

    for (i = 0; wmcf->used && i < wmcf->nfields; i++) {

        if (wmcf->fields[i].needed && !wmcf->fields[i].given) {
            ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                          "no \"weir_key\" gives the identity \"%V\" where "
                          "\"weir on\" is: it is missing from every request",
                          &wmcf->fields[i].name);
        }
    }
}


/*
 * A location with a "weir_key" of its own inherits none: one that is needed
 * and is not said again is missing from its requests.
 */

void
ngx_http_weir_warn_lost_keys(ngx_conf_t *cf, ngx_http_weir_main_conf_t *wmcf,
    ngx_array_t *prev, ngx_array_t *own)
{
    ngx_uint_t                 i, k;
    ngx_http_weir_key_t       *before, *key;
    ngx_http_core_loc_conf_t  *clcf;

    before = prev->elts;
    key = own->elts;

    for (i = 0; i < prev->nelts; i++) {

        for (k = 0; k < own->nelts; k++) {
            if (key[k].name.len == before[i].name.len
                && ngx_strncmp(key[k].name.data, before[i].name.data,
                               key[k].name.len)
                   == 0)
            {
                break;
            }
        }

        if (k < own->nelts || !ngx_http_weir_needs(wmcf, &before[i].name)) {
            continue;
        }

        clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

        ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                      "\"weir_key\" \"%V\" is not inherited in \"%V\", which "
                      "has a \"weir_key\" of its own: the identity is missing "
                      "from its requests; say it there too",
                      &before[i].name, &clcf->name);
    }
}


static ngx_uint_t
ngx_http_weir_needs(ngx_http_weir_main_conf_t *wmcf, ngx_str_t *name)
{
    ngx_uint_t              i;
    ngx_http_weir_field_t  *field;

    for (i = 0; i < wmcf->nfields; i++) {
        field = &wmcf->fields[i];

        if (field->needed && field->name.len == name->len
            && ngx_strncmp(field->name.data, name->data, name->len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


/*
 * "return" answers in the rewrite phase, before any limit.  Called while the
 * configuration of a server or location with "weir on" is merged: cf->ctx is
 * that of the place.  A named or internal location is only reached by requests
 * that were at another one before: to answer there is what it is for.
 */

void
ngx_http_weir_warn_return(ngx_conf_t *cf)
{
    void                     ***loc_conf;
    ngx_uint_t                  i;
    ngx_array_t               **codes;
    ngx_module_t               *module;
    ngx_http_core_loc_conf_t   *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->noname || clcf->named || clcf->internal == 1) {
        return;
    }

    for (i = 0; cf->cycle->modules[i]; i++) {
        module = cf->cycle->modules[i];

        if (ngx_strcmp(module->name, "ngx_http_rewrite_module") != 0) {
            continue;
        }

        /* the first member of rewrite's configuration is its code */

        loc_conf = &((ngx_http_conf_ctx_t *) cf->ctx)->loc_conf;
        codes = (*loc_conf)[module->ctx_index];

        if (codes == NULL || *codes == NULL
            || !ngx_http_weir_always_returns(*codes))
        {
            return;
        }

        if (clcf->name.len) {
            ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                          "\"return\" in location \"%V\" answers before any "
                          "limit: \"weir on\" has no effect there",
                          &clcf->name);

        } else {
            ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                          "\"return\" in a server answers before any limit: "
                          "\"weir on\" has no effect there");
        }

        return;
    }
}


/*
 * The code is a sequence of structures of different sizes, each led by its
 * function.  Scanned by words, with the bodies of "if" left out; no other
 * word of it can be equal to the address of one of these functions.
 */

static ngx_uint_t
ngx_http_weir_always_returns(ngx_array_t *codes)
{
    u_char                     *p, *end;
    uintptr_t                   word;
    ngx_http_script_if_code_t  *code;

    p = codes->elts;
    end = p + codes->nelts * codes->size;

    while (p + sizeof(uintptr_t) <= end) {

        word = *(uintptr_t *) p;

        if (word == (uintptr_t) ngx_http_script_return_code) {
            return 1;
        }

        if (word == (uintptr_t) ngx_http_script_break_code) {
            return 0;
        }

        if (word == (uintptr_t) ngx_http_script_if_code
            && p + sizeof(ngx_http_script_if_code_t) <= end)
        {
            code = (ngx_http_script_if_code_t *) p;

            if (code->next < (uintptr_t) sizeof(ngx_http_script_if_code_t)
                || code->next > (uintptr_t) (end - p))
            {
                return 0;
            }

            p += code->next;
            continue;
        }

        p += sizeof(uintptr_t);
    }

    return 0;
}
