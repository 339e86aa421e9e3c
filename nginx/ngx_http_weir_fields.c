
/*
 * ngx_http_weir_fields.c - what the policy wants to know of a request: header
 * fields, and the values of "weir_key".
 *
 * One walk over the headers, as nginx has them hashed already.  Several lines
 * of a list are joined by ", " in their order, in a second walk that only such
 * requests take.  What is no list tells one caller: who sends it twice may be
 * one to us and another to the upstream, and is refused.
 */


#include "ngx_http_weir_module.h"


static ngx_int_t ngx_http_weir_give_keys(ngx_http_request_t *r,
    ngx_http_weir_loc_conf_t *wlcf, struct weir_slice *fields);
static ngx_http_weir_field_t *ngx_http_weir_find_field(
    ngx_http_weir_main_conf_t *wmcf, ngx_table_elt_t *header);
static ngx_int_t ngx_http_weir_join(ngx_http_request_t *r,
    ngx_http_weir_field_t *field, struct weir_slice *value);


ngx_int_t
ngx_http_weir_collect(ngx_http_request_t *r, ngx_http_weir_main_conf_t *wmcf,
    ngx_http_weir_loc_conf_t *wlcf, struct weir_slice *fields)
{
    uint64_t                repeated;
    ngx_uint_t              i, n;
    ngx_list_part_t        *part;
    ngx_table_elt_t        *header;
    ngx_http_weir_field_t  *field;

    ngx_memzero(fields, wmcf->nfields * sizeof(struct weir_slice));

    repeated = 0;
    part = wmcf->mask ? &r->headers_in.headers.part : NULL;

    for ( /* void */ ; part; part = part->next) {
        header = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (!(wmcf->mask & ngx_http_weir_bit(header[i].hash))) {
                continue;
            }

            field = ngx_http_weir_find_field(wmcf, &header[i]);
            if (field == NULL) {
                continue;
            }

            n = field - wmcf->fields;

            if (fields[n].ptr && !field->list) {
                ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                              "weir: client sent more than one \"%V\" header",
                              &field->name);
                return NGX_HTTP_BAD_REQUEST;
            }

            if (fields[n].ptr) {
                repeated |= (uint64_t) 1 << n;
                continue;
            }

            fields[n].ptr = (char *) header[i].value.data;
            fields[n].len = header[i].value.len;
        }
    }

    for (n = 0; repeated >> n; n++) {
        if (repeated >> n & 1
            && ngx_http_weir_join(r, &wmcf->fields[n], &fields[n]) != NGX_OK)
        {
            return NGX_ERROR;
        }

        if (n == NGX_HTTP_WEIR_FIELDS_MAX - 1) {
            break;
        }
    }

    return wlcf->keys ? ngx_http_weir_give_keys(r, wlcf, fields) : NGX_OK;
}


static ngx_int_t
ngx_http_weir_give_keys(ngx_http_request_t *r, ngx_http_weir_loc_conf_t *wlcf,
    struct weir_slice *fields)
{
    ngx_str_t             value;
    ngx_uint_t            i;
    ngx_http_weir_key_t  *key;

    key = wlcf->keys->elts;

    for (i = 0; i < wlcf->keys->nelts; i++) {

        if (ngx_http_complex_value(r, &key[i].value, &value) != NGX_OK) {
            return NGX_ERROR;
        }

        /* given and empty is missing, whatever a header of the caller says */

        fields[key[i].field].ptr = value.len ? (char *) value.data : "";
        fields[key[i].field].len = value.len;
    }

    return NGX_OK;
}


static ngx_http_weir_field_t *
ngx_http_weir_find_field(ngx_http_weir_main_conf_t *wmcf,
    ngx_table_elt_t *header)
{
    ngx_uint_t              i;
    ngx_http_weir_field_t  *field;

    for (i = 0; i < wmcf->nfields; i++) {
        field = &wmcf->fields[i];

        if (field->hash == header->hash
            && field->name.len == header->key.len
            && !field->key
            && ngx_strncmp(field->name.data, header->lowcase_key,
                           field->name.len)
               == 0)
        {
            return field;
        }
    }

    return NULL;
}


static ngx_int_t
ngx_http_weir_join(ngx_http_request_t *r, ngx_http_weir_field_t *field,
    struct weir_slice *value)
{
    size_t            len;
    u_char           *p, *buf;
    ngx_uint_t        i, pass;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    len = 0;
    buf = NULL;
    p = NULL;

    for (pass = 0; pass < 2; pass++) {

        for (part = &r->headers_in.headers.part; part; part = part->next) {
            header = part->elts;

            for (i = 0; i < part->nelts; i++) {

                if (header[i].hash != field->hash
                    || header[i].key.len != field->name.len
                    || ngx_strncmp(header[i].lowcase_key, field->name.data,
                                   field->name.len)
                       != 0)
                {
                    continue;
                }

                if (buf == NULL) {
                    len += header[i].value.len + sizeof(", ") - 1;
                    continue;
                }

                if (p != buf) {
                    *p++ = ',';
                    *p++ = ' ';
                }

                p = ngx_cpymem(p, header[i].value.data, header[i].value.len);
            }
        }

        if (buf == NULL) {
            buf = ngx_pnalloc(r->pool, len);
            if (buf == NULL) {
                return NGX_ERROR;
            }

            p = buf;
        }
    }

    value->ptr = (char *) buf;
    value->len = p - buf;

    return NGX_OK;
}
