
/*
 * ngx_http_weir_module.c - limits of a weir policy in front of nginx's
 * locations.
 *
 * Every worker maps the same arena and decides by itself: no lock, no network,
 * but for limits that are shared with other hosts (agent).
 * The handle is made in the master while the configuration is read, so that
 * all workers inherit one mapping:
 *
 *   "weir_policy"      remembers the file
 *   init_main_conf     opens policy and arena; "nginx -t" and "nginx -s" open
 *                      an anonymous arena instead and leave the real one alone
 *   init_process       a worker makes its own claim on the arena
 *   exit_process       gives back the places that its requests still hold, and
 *                      closes the connection to the daemon
 *   cleanup of the     closes the handle; the arena file stays, so that reloads
 *   cycle's pool       and restarts forget nothing
 *
 * Not in init_module: nginx exits where that fails, and a reload with a policy
 * or an arena that cannot be used must leave the running cycle alone.
 *
 * Invariants:
 *   1. A request is charged at most once: in its main request, by the first
 *      location with "weir on" whose stage it reaches (handler).
 *   2. What a request holds is released when its pool dies, however it ends.
 *   3. A request that was decided has the fields of that decision in its
 *      response, whichever location answers (answer).
 */


#include "ngx_http_weir_module.h"


static ngx_int_t ngx_http_weir_postconfiguration(ngx_conf_t *cf);
static void *ngx_http_weir_create_main_conf(ngx_conf_t *cf);
static char *ngx_http_weir_init_main_conf(ngx_conf_t *cf, void *conf);
static void *ngx_http_weir_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_weir_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child);
static ngx_int_t ngx_http_weir_init_process(ngx_cycle_t *cycle);
static void ngx_http_weir_exit_process(ngx_cycle_t *cycle);


static ngx_conf_num_bounds_t  ngx_http_weir_status_bounds = {
    ngx_conf_check_num_bounds, 400, 599
};


static ngx_conf_enum_t  ngx_http_weir_stages[] = {
    { ngx_string("preaccess"), NGX_HTTP_WEIR_PREACCESS },
    { ngx_string("precontent"), NGX_HTTP_WEIR_PRECONTENT },
    { ngx_null_string, 0 }
};


static ngx_command_t  ngx_http_weir_commands[] = {

    { ngx_string("weir_policy"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_weir_policy,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("weir"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_weir_loc_conf_t, enable),
      NULL },

    { ngx_string("weir_stage"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_weir_loc_conf_t, stage),
      &ngx_http_weir_stages },

    { ngx_string("weir_cost"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_weir_cost,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("weir_plan"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_set_complex_value_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_weir_loc_conf_t, plan),
      NULL },

    { ngx_string("weir_key"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE2,
      ngx_http_weir_key,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("weir_status"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_num_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_weir_loc_conf_t, status),
      &ngx_http_weir_status_bounds },

    { ngx_string("weir_headers"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_1MORE,
      ngx_http_weir_headers,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("weir_options"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_weir_loc_conf_t, options),
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_weir_module_ctx = {
    ngx_http_weir_add_variables,           /* preconfiguration */
    ngx_http_weir_postconfiguration,       /* postconfiguration */

    ngx_http_weir_create_main_conf,        /* create main configuration */
    ngx_http_weir_init_main_conf,          /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_weir_create_loc_conf,         /* create location configuration */
    ngx_http_weir_merge_loc_conf           /* merge location configuration */
};


ngx_module_t  ngx_http_weir_module = {
    NGX_MODULE_V1,
    &ngx_http_weir_module_ctx,             /* module context */
    ngx_http_weir_commands,                /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    ngx_http_weir_init_process,            /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    ngx_http_weir_exit_process,            /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


/*
 * Handlers of a phase run in the reverse order of their registration.  In
 * preaccess weir comes last: after realip has set the address where it is
 * configured in a location, and after limit_req and limit_conn, whose refusals
 * are then not charged.  In precontent it comes first, before try_files can
 * leave the location.
 */

static ngx_int_t
ngx_http_weir_postconfiguration(ngx_conf_t *cf)
{
    ngx_array_t                *preaccess;
    ngx_http_handler_pt        *h;
    ngx_http_core_main_conf_t  *cmcf;
    ngx_http_weir_main_conf_t  *wmcf;

    wmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_weir_module);

    if (wmcf->weir == NULL) {
        return NGX_OK;
    }

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    preaccess = &cmcf->phases[NGX_HTTP_PREACCESS_PHASE].handlers;

    if (ngx_array_push(preaccess) == NULL) {
        return NGX_ERROR;
    }

    h = preaccess->elts;
    ngx_memmove(&h[1], &h[0], (preaccess->nelts - 1) * sizeof(h[0]));
    h[0] = ngx_http_weir_preaccess_handler;

    h = ngx_array_push(&cmcf->phases[NGX_HTTP_PRECONTENT_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = ngx_http_weir_precontent_handler;

    h = ngx_array_push(&cmcf->phases[NGX_HTTP_LOG_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = ngx_http_weir_log_handler;

    ngx_http_weir_filter_init();
    ngx_http_weir_warn_keys(cf, wmcf);

    return NGX_OK;
}


static void *
ngx_http_weir_create_main_conf(ngx_conf_t *cf)
{
    return ngx_pcalloc(cf->pool, sizeof(ngx_http_weir_main_conf_t));
}


static char *
ngx_http_weir_init_main_conf(ngx_conf_t *cf, void *conf)
{
    ngx_http_weir_main_conf_t *wmcf = conf;

    if (wmcf->policy.data == NULL) {
        return NGX_CONF_OK;
    }

    return ngx_http_weir_open(cf, wmcf);
}


static void *
ngx_http_weir_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_weir_loc_conf_t  *wlcf;

    wlcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_weir_loc_conf_t));
    if (wlcf == NULL) {
        return NULL;
    }

    wlcf->enable = NGX_CONF_UNSET;
    wlcf->options = NGX_CONF_UNSET;
    wlcf->stage = NGX_CONF_UNSET_UINT;
    wlcf->status = NGX_CONF_UNSET_UINT;
    wlcf->families = NGX_CONF_UNSET;
    wlcf->cost = NGX_CONF_UNSET_PTR;
    wlcf->plan = NGX_CONF_UNSET_PTR;
    wlcf->keys = NGX_CONF_UNSET_PTR;

    return wlcf;
}


static char *
ngx_http_weir_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_weir_loc_conf_t *prev = parent;
    ngx_http_weir_loc_conf_t *conf = child;

    ngx_http_weir_main_conf_t  *wmcf;

    wmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_weir_module);

    ngx_conf_merge_value(conf->enable, prev->enable, 0);
    ngx_conf_merge_uint_value(conf->stage, prev->stage,
                              NGX_HTTP_WEIR_PREACCESS);
    ngx_conf_merge_uint_value(conf->status, prev->status, 0);
    ngx_conf_merge_ptr_value(conf->plan, prev->plan, NULL);
    ngx_conf_merge_ptr_value(conf->keys, prev->keys, NULL);

    /* unset stays unset: as the policy says */

    if (conf->options == NGX_CONF_UNSET) {
        conf->options = prev->options;
    }

    if (conf->families == NGX_CONF_UNSET) {
        conf->families = prev->families;
    }

    if (conf->cost == NGX_CONF_UNSET_PTR) {
        conf->fixed_cost = prev->fixed_cost;
    }

    ngx_conf_merge_ptr_value(conf->cost, prev->cost, NULL);

    if (!conf->enable) {
        return NGX_CONF_OK;
    }

    if (wmcf->weir == NULL) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"weir on\" needs a \"weir_policy\" in \"http\"");
        return NGX_CONF_ERROR;
    }

    ngx_http_weir_warn_return(cf);

    if (conf->keys && prev->keys && prev->keys != NGX_CONF_UNSET_PTR
        && conf->keys != prev->keys)
    {
        ngx_http_weir_warn_lost_keys(cf, wmcf, prev->keys, conf->keys);
    }

    return ngx_http_weir_resolve_keys(cf, wmcf, conf);
}


static ngx_int_t
ngx_http_weir_init_process(ngx_cycle_t *cycle)
{
    ngx_int_t                   rc;
    ngx_http_weir_main_conf_t  *wmcf;

    wmcf = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_weir_module);

    if (wmcf == NULL || wmcf->weir == NULL
        || ngx_process != NGX_PROCESS_WORKER)
    {
        return NGX_OK;
    }

    rc = weir_after_fork(wmcf->weir);

    if (rc != 0) {

        /*
         * The worker decides all the same, under the master's claim: only
         * its own death could go unnoticed while it changes a list.
         */

        ngx_log_error(NGX_LOG_ALERT, cycle->log, 0,
                      "weir: no claim on the arena for this worker: %s",
                      weir_strerror(rc));
    }

    return NGX_OK;
}


static void
ngx_http_weir_exit_process(ngx_cycle_t *cycle)
{
    ngx_http_weir_release_all();
    ngx_http_weir_agent_close(NULL);
}
