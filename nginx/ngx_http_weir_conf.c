
/*
 * ngx_http_weir_conf.c - directives that nginx has no ready handler for.
 */


#include "ngx_http_weir_module.h"


typedef struct {
    ngx_str_t   name;
    unsigned    family;
} ngx_http_weir_preset_t;


static ngx_http_weir_preset_t  ngx_http_weir_presets[] = {
    { ngx_string("x-ratelimit"), WEIR_HEADERS_X },
    { ngx_string("x-ratelimit-delta"), WEIR_HEADERS_X_DELTA },
    { ngx_string("draft-03"), WEIR_HEADERS_DRAFT_03 },
    { ngx_string("draft-06"), WEIR_HEADERS_DRAFT_06 },
    { ngx_string("draft-07"), WEIR_HEADERS_DRAFT_07 },
    { ngx_string("draft-11"), WEIR_HEADERS_DRAFT_11 },
    { ngx_null_string, 0 }
};

#define NGX_HTTP_WEIR_DRAFTS                                                  \
    (WEIR_HEADERS_DRAFT_03|WEIR_HEADERS_DRAFT_06|WEIR_HEADERS_DRAFT_07        \
     |WEIR_HEADERS_DRAFT_11)

#define NGX_HTTP_WEIR_XS  (WEIR_HEADERS_X|WEIR_HEADERS_X_DELTA)


char *
ngx_http_weir_policy(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weir_main_conf_t *wmcf = conf;

    ngx_str_t  *value;

    if (wmcf->policy.data) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len == 0) {
        return "has an empty file name";
    }

    wmcf->policy = value[1];

    if (ngx_conf_full_name(cf->cycle, &wmcf->policy, 1) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    wmcf->conf_file = cf->conf_file->file.name.data;
    wmcf->conf_line = cf->conf_file->line;

    return NGX_CONF_OK;
}


char *
ngx_http_weir_cost(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weir_loc_conf_t *wlcf = conf;

    ngx_str_t                         *value;
    ngx_http_compile_complex_value_t   ccv;

    if (wlcf->cost != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    wlcf->cost = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
    if (wlcf->cost == NULL) {
        return NGX_CONF_ERROR;
    }

    value = cf->args->elts;

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = &value[1];
    ccv.complex_value = wlcf->cost;

    if (ngx_http_compile_complex_value(&ccv) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (wlcf->cost->lengths) {
        return NGX_CONF_OK;
    }

    wlcf->fixed_cost = ngx_atoi(value[1].data, value[1].len);

    if (wlcf->fixed_cost == NGX_ERROR || wlcf->fixed_cost > WEIR_COST_MAX) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid cost \"%V\", expected a whole number "
                           "from 0 to %L, or variables",
                           &value[1], (int64_t) WEIR_COST_MAX);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


char *
ngx_http_weir_key(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weir_loc_conf_t *wlcf = conf;

    ngx_str_t                         *value;
    ngx_uint_t                         i;
    ngx_http_weir_key_t               *key;
    ngx_http_compile_complex_value_t   ccv;

    value = cf->args->elts;

    if (wlcf->keys == NGX_CONF_UNSET_PTR) {
        wlcf->keys = ngx_array_create(cf->pool, 2,
                                      sizeof(ngx_http_weir_key_t));
        if (wlcf->keys == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    key = wlcf->keys->elts;

    for (i = 0; i < wlcf->keys->nelts; i++) {
        if (key[i].name.len == value[1].len
            && ngx_strncmp(key[i].name.data, value[1].data, value[1].len) == 0)
        {
            return "is duplicate";
        }
    }

    key = ngx_array_push(wlcf->keys);
    if (key == NULL) {
        return NGX_CONF_ERROR;
    }

    key->name = value[1];
    key->field = 0;

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = &value[2];
    ccv.complex_value = &key->value;

    if (ngx_http_compile_complex_value(&ccv) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


char *
ngx_http_weir_headers(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weir_loc_conf_t *wlcf = conf;

    ngx_int_t                families;
    ngx_str_t               *value;
    ngx_uint_t               i;
    ngx_http_weir_preset_t  *preset;

    if (wlcf->families != NGX_CONF_UNSET) {
        return "is duplicate";
    }

    value = cf->args->elts;
    families = 0;

    if (cf->args->nelts == 2 && ngx_strcmp(value[1].data, "off") == 0) {
        wlcf->families = 0;
        return NGX_CONF_OK;
    }

    for (i = 1; i < cf->args->nelts; i++) {

        for (preset = ngx_http_weir_presets; preset->name.len; preset++) {
            if (value[i].len == preset->name.len
                && ngx_strncmp(value[i].data, preset->name.data,
                               preset->name.len)
                   == 0)
            {
                break;
            }
        }

        if (preset->name.len == 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid header preset \"%V\", expected \"off\""
                               " or some of \"x-ratelimit\", "
                               "\"x-ratelimit-delta\", \"draft-03\", "
                               "\"draft-06\", \"draft-07\", \"draft-11\"",
                               &value[i]);
            return NGX_CONF_ERROR;
        }

        if ((preset->family & NGX_HTTP_WEIR_DRAFTS
             && families & NGX_HTTP_WEIR_DRAFTS)
            || (preset->family & NGX_HTTP_WEIR_XS
                && families & NGX_HTTP_WEIR_XS))
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "header preset \"%V\" contradicts one before: "
                               "at most one \"draft\" and one \"x-ratelimit\"",
                               &value[i]);
            return NGX_CONF_ERROR;
        }

        families |= preset->family;
    }

    wlcf->families = families;

    return NGX_CONF_OK;
}
