
/*
 * ngx_http_weir_module.h - what the files of the module share.
 */


#ifndef _NGX_HTTP_WEIR_MODULE_H_INCLUDED_
#define _NGX_HTTP_WEIR_MODULE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include <weir/weir.h>


#define NGX_HTTP_WEIR_FIELDS_MAX  64    /* of a policy; more are refused */

#define NGX_HTTP_WEIR_PREACCESS   0
#define NGX_HTTP_WEIR_PRECONTENT  1


/* what the policy wants to know of a request, in the policy's order */

typedef struct {
    ngx_uint_t                  hash;       /* of the lower case name */
    ngx_str_t                   name;       /* lower case, if a header */
    unsigned                    list:1;     /* may come in several lines */
    unsigned                    key:1;      /* to be given by "weir_key" */
    unsigned                    needed:1;   /* and by nothing else */
    unsigned                    given:1;    /* some place with "weir on" does */
} ngx_http_weir_field_t;


typedef struct {
    struct weir                *weir;       /* NULL: no "weir_policy" */
    struct weir_answer_options  defaults;

    ngx_http_weir_field_t      *fields;
    ngx_uint_t                  nfields;
    uint64_t                    mask;       /* of the hashes of all headers */
    ngx_uint_t                  used;       /* "weir on" somewhere */

    ngx_str_t                   policy;     /* full name of the file */
    u_char                     *conf_file;  /* where "weir_policy" stands */
    ngx_uint_t                  conf_line;
} ngx_http_weir_main_conf_t;


typedef struct {
    ngx_str_t                   name;
    ngx_http_complex_value_t    value;
    ngx_uint_t                  field;      /* index in the policy's fields */
} ngx_http_weir_key_t;


typedef struct {
    ngx_flag_t                  enable;
    ngx_flag_t                  options;    /* -1: as the policy says */
    ngx_uint_t                  stage;
    ngx_uint_t                  status;     /* 0: as the policy says */
    ngx_int_t                   families;   /* -1: as the policy says */
    ngx_http_complex_value_t   *cost;       /* NULL: as the policy says */
    ngx_int_t                   fixed_cost; /* of a cost without variables */
    ngx_http_complex_value_t   *plan;       /* NULL: as the policy says */
    ngx_array_t                *keys;       /* of ngx_http_weir_key_t */
} ngx_http_weir_loc_conf_t;


typedef struct ngx_http_weir_ask_s  ngx_http_weir_ask_t;


/*
 * What is remembered of a decided request.  Lives in a cleanup of the request
 * pool, as internal redirects zero the module contexts.
 */

typedef struct {
    struct weir                *weir;
    struct weir_answer         *held;       /* NULL: holds no places */
    struct weir_answer         *counted;    /* NULL: nobody asks for the status */
    ngx_queue_t                 queue;      /* in ngx_http_weir_held */

    ngx_keyval_t               *headers;    /* to be added to the response */
    ngx_uint_t                  nheaders;

    ngx_http_weir_ask_t        *ask;        /* NULL: not asking */
    const char                 *agent;      /* how that went; NULL: not asked */

    const char                 *limit;      /* NULL: no limit matched */
    const char                 *plan;
    int64_t                     remaining;  /* units */
    int64_t                     retry_after_ns;
    int64_t                     delay_ns;
    uint8_t                     outcome;    /* enum weir_outcome */
    uint8_t                     reason;     /* enum weir_reason */
} ngx_http_weir_ctx_t;


/* ngx_http_weir_conf.c */

char *ngx_http_weir_policy(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_weir_cost(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_weir_key(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_weir_headers(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* ngx_http_weir_arena.c */

char *ngx_http_weir_default_arena(ngx_conf_t *cf);
ngx_int_t ngx_http_weir_check_owner(ngx_conf_t *cf, const char *path);

/* ngx_http_weir_policy.c */

char *ngx_http_weir_open(ngx_conf_t *cf, ngx_http_weir_main_conf_t *wmcf);
char *ngx_http_weir_resolve_keys(ngx_conf_t *cf,
    ngx_http_weir_main_conf_t *wmcf, ngx_http_weir_loc_conf_t *wlcf);
void ngx_http_weir_warn_keys(ngx_conf_t *cf, ngx_http_weir_main_conf_t *wmcf);
void ngx_http_weir_warn_lost_keys(ngx_conf_t *cf,
    ngx_http_weir_main_conf_t *wmcf, ngx_array_t *prev, ngx_array_t *own);
void ngx_http_weir_warn_return(ngx_conf_t *cf);

/* ngx_http_weir_handler.c */

ngx_int_t ngx_http_weir_preaccess_handler(ngx_http_request_t *r);
ngx_int_t ngx_http_weir_precontent_handler(ngx_http_request_t *r);

/* ngx_http_weir_ctx.c */

ngx_http_weir_ctx_t *ngx_http_weir_create_ctx(ngx_http_request_t *r,
    struct weir *w);
ngx_http_weir_ctx_t *ngx_http_weir_get_ctx(ngx_http_request_t *r);
ngx_int_t ngx_http_weir_remember(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, const struct weir_answer *answer);
ngx_int_t ngx_http_weir_log_handler(ngx_http_request_t *r);
void ngx_http_weir_release_all(void);

/* ngx_http_weir_agent.c */

ngx_int_t ngx_http_weir_agent_ask(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, const struct weir_request *request);
ngx_int_t ngx_http_weir_agent_answer(ngx_http_weir_ctx_t *ctx,
    struct weir_answer *answer);
void ngx_http_weir_agent_forget(ngx_http_weir_ctx_t *ctx);
ngx_int_t ngx_http_weir_agent_release(struct weir *w,
    struct weir_answer *answer);
void ngx_http_weir_agent_close(struct weir *w);

/* ngx_http_weir_fields.c */

ngx_int_t ngx_http_weir_collect(ngx_http_request_t *r,
    ngx_http_weir_main_conf_t *wmcf, ngx_http_weir_loc_conf_t *wlcf,
    struct weir_slice *fields);

/* ngx_http_weir_answer.c */

ngx_int_t ngx_http_weir_render(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    const struct weir_answer *answer, ngx_uint_t families);
ngx_int_t ngx_http_weir_refuse(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    const struct weir_answer *answer, ngx_uint_t status);
void ngx_http_weir_filter_init(void);

/* ngx_http_weir_variables.c */

ngx_int_t ngx_http_weir_add_variables(ngx_conf_t *cf);


extern ngx_module_t  ngx_http_weir_module;


/* one bit of the mask that spares most headers any comparison */

#define ngx_http_weir_bit(hash)  ((uint64_t) 1 << ((hash) & 63))


#endif /* _NGX_HTTP_WEIR_MODULE_H_INCLUDED_ */
