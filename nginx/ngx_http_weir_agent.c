
/*
 * ngx_http_weir_agent.c - what only a store can decide, asked of the host's
 * "weir serve".
 *
 * A worker has one connection to the daemon's unix socket, and sends all
 * requests of a turn of its event loop by one write.  The request waits in its
 * phase; an answer, the deadline or the end of the connection goes on with it,
 * whichever is first.  What is not answered is decided alone, by the library.
 *
 * Invariants:
 *   1. Nothing here blocks.  What does not fit into the link's buffer is
 *      decided alone.
 *   2. No request waits longer than the deadline.  A daemon that was silent
 *      for that long is asked by one request in NGX_HTTP_WEIR_AGENT_PROBE ms
 *      until it answers; the others do not wait for it.
 *   3. An ask lies in the pool of its request, and is forgotten when that
 *      dies.  An answer to nobody gives back the places it holds.
 *   4. A trouble is logged when it begins and when it is over, not by request.
 *   5. The connection is closed by exit_process and when its policy is closed.
 */


#include "ngx_http_weir_module.h"
#include "ngx_http_weir_link.h"


#define NGX_HTTP_WEIR_AGENT_SLOTS  4096            /* asks of a worker */
#define NGX_HTTP_WEIR_AGENT_PROBE  100             /* ms */
#define NGX_HTTP_WEIR_AGENT_RETRY  100             /* ms, doubled up to: */
#define NGX_HTTP_WEIR_AGENT_LATEST 1000


/* a request under way, then its answer; in the pool of the request */

struct ngx_http_weir_ask_s {
    ngx_http_request_t         *request;
    ngx_http_weir_ctx_t        *ctx;
    ngx_event_t                 timer;
    ngx_msec_t                  asked;
    ngx_uint_t                  slot;
    unsigned                    waiting:1;
    unsigned                    answered:1;
    struct weir_answer          answer;
};


typedef struct {
    struct weir                *weir;       /* whose policy is asked by */

    const char                 *trouble;    /* logged; NULL: it is well */
    ngx_msec_t                  heard;
    ngx_msec_t                  next;       /* to connect, or to probe */
    ngx_msec_t                  backoff;    /* 0: connecting did not fail */
    unsigned                    silent:1;

    ngx_uint_t                  nfree;
    ngx_uint_t                  free[NGX_HTTP_WEIR_AGENT_SLOTS];
    ngx_http_weir_ask_t        *asks[NGX_HTTP_WEIR_AGENT_SLOTS];
    uint32_t                    serial[NGX_HTTP_WEIR_AGENT_SLOTS];

    ngx_http_weir_link_t        link;
} ngx_http_weir_agent_t;


static ngx_http_weir_agent_t *ngx_http_weir_agent_get(struct weir *w);
static ngx_int_t ngx_http_weir_agent_connect(ngx_http_weir_agent_t *agent);
static ngx_int_t ngx_http_weir_agent_put(ngx_http_weir_agent_t *agent,
    ngx_http_request_t *r, ngx_http_weir_ask_t *ask,
    const struct weir_request *request);
static void ngx_http_weir_agent_wait_handler(ngx_http_request_t *r);
static ngx_int_t ngx_http_weir_agent_read_handler(ngx_http_weir_link_t *link);
static void ngx_http_weir_agent_answered(ngx_http_weir_agent_t *agent,
    struct weir_asked *asked);
static void ngx_http_weir_agent_timeout_handler(ngx_event_t *ev);
static void ngx_http_weir_agent_lost_handler(ngx_http_weir_link_t *link);
static void ngx_http_weir_agent_detach(ngx_http_weir_ask_t *ask);
static void ngx_http_weir_agent_resume(ngx_http_weir_ask_t *ask,
    const char *how);
static void ngx_http_weir_agent_trouble(ngx_http_weir_agent_t *agent,
    const char *trouble, ngx_err_t err);


static ngx_http_weir_agent_t  *ngx_http_weir_agent;     /* of this worker */


/*
 * NGX_AGAIN: asked, the request is to wait; ngx_http_weir_agent_answer() has
 * the answer when its phase is run again.  NGX_DECLINED: to be decided alone.
 */

ngx_int_t
ngx_http_weir_agent_ask(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    const struct weir_request *request)
{
    ngx_http_weir_ask_t    *ask;
    ngx_http_weir_agent_t  *agent;

    agent = ngx_http_weir_agent_get(ctx->weir);

    if (agent == NULL || ngx_http_weir_agent_connect(agent) != NGX_OK) {
        ctx->agent = "unreachable";
        return NGX_DECLINED;
    }

    if (agent->silent) {

        if ((ngx_msec_int_t) (ngx_current_msec - agent->next) < 0) {
            ctx->agent = "silent";
            return NGX_DECLINED;
        }

        agent->next = ngx_current_msec + NGX_HTTP_WEIR_AGENT_PROBE;
    }

    ask = ngx_pcalloc(r->pool, sizeof(ngx_http_weir_ask_t));

    if (ask == NULL
        || ngx_http_weir_agent_put(agent, r, ask, request) != NGX_OK)
    {
        ctx->agent = "busy";
        return NGX_DECLINED;
    }

    ask->ctx = ctx;
    ctx->ask = ask;

    if (ngx_handle_read_event(r->connection->read, 0) != NGX_OK) {
        ngx_http_weir_agent_forget(ctx);
        return NGX_ERROR;
    }

    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_weir_agent_wait_handler;

    return NGX_AGAIN;
}


/* NGX_OK: *answer; NGX_AGAIN: not yet; NGX_DECLINED: none, decide alone */

ngx_int_t
ngx_http_weir_agent_answer(ngx_http_weir_ctx_t *ctx,
    struct weir_answer *answer)
{
    ngx_http_weir_ask_t  *ask;

    ask = ctx->ask;

    if (ask->waiting) {
        return NGX_AGAIN;
    }

    ctx->ask = NULL;

    if (!ask->answered) {
        return NGX_DECLINED;
    }

    *answer = ask->answer;

    return NGX_OK;
}


/* The request is gone: so is its answer, whether it has come or not */

void
ngx_http_weir_agent_forget(ngx_http_weir_ctx_t *ctx)
{
    ngx_http_weir_ask_t  *ask;

    ask = ctx->ask;
    ctx->ask = NULL;

    if (ask->waiting) {
        ngx_http_weir_agent_detach(ask);

    } else if (ask->answered) {
        (void) ngx_http_weir_agent_release(ctx->weir, &ask->answer);
    }
}


/* NGX_DECLINED: it holds nothing that the daemon has taken */

ngx_int_t
ngx_http_weir_agent_release(struct weir *w, struct weir_answer *answer)
{
    int                     n;
    size_t                  room;
    u_char                 *p, frame[WEIR_ANSWER_BYTES];
    ngx_http_weir_agent_t  *agent;

    n = weir_ask_release(w, answer, frame, sizeof(frame));

    if (n <= 0) {
        return NGX_DECLINED;
    }

    agent = ngx_http_weir_agent;

    if (agent == NULL || agent->link.connection == NULL) {
        return NGX_OK; /* the place expires by itself */
    }

    p = ngx_http_weir_link_room(&agent->link, &room);

    if (room >= (size_t) n) {
        ngx_memcpy(p, frame, n);
        ngx_http_weir_link_post(&agent->link, n);
    }

    return NGX_OK;
}


/* |w| is about to be closed; NULL: the worker ends */

void
ngx_http_weir_agent_close(struct weir *w)
{
    ngx_http_weir_agent_t  *agent;

    agent = ngx_http_weir_agent;

    if (agent == NULL || (w && agent->weir != w)) {
        return;
    }

    ngx_http_weir_link_close(&agent->link, 1);  /* releases are sent */

    agent->weir = NULL;
}


static ngx_http_weir_agent_t *
ngx_http_weir_agent_get(struct weir *w)
{
    ngx_uint_t              i;
    ngx_http_weir_agent_t  *agent;

    agent = ngx_http_weir_agent;

    if (agent == NULL) {
        agent = ngx_alloc(sizeof(ngx_http_weir_agent_t), ngx_cycle->log);
        if (agent == NULL) {
            return NULL;
        }

        ngx_memzero(agent, offsetof(ngx_http_weir_agent_t, link.out));

        agent->link.data = agent;
        agent->link.read = ngx_http_weir_agent_read_handler;
        agent->link.lost = ngx_http_weir_agent_lost_handler;

        for (i = 0; i < NGX_HTTP_WEIR_AGENT_SLOTS; i++) {
            agent->free[i] = i;
        }

        agent->nfree = NGX_HTTP_WEIR_AGENT_SLOTS;
        ngx_http_weir_agent = agent;
    }

    if (agent->weir != w) {

        /* without a master a process goes on with another policy */

        if (agent->link.connection) {
            ngx_http_weir_agent_lost_handler(&agent->link);
        }

        agent->weir = w;
        agent->backoff = 0;
        agent->silent = 0;
    }

    return agent;
}


static ngx_int_t
ngx_http_weir_agent_connect(ngx_http_weir_agent_t *agent)
{
    if (agent->link.connection) {
        return NGX_OK;
    }

    if (agent->backoff
        && (ngx_msec_int_t) (ngx_current_msec - agent->next) < 0)
    {
        return NGX_DECLINED;
    }

    if (ngx_http_weir_link_open(&agent->link, weir_ask_socket(agent->weir))
        == NGX_OK)
    {
        agent->silent = 0;
        agent->heard = ngx_current_msec;
        return NGX_OK;
    }

    ngx_http_weir_agent_trouble(agent, "cannot be reached", ngx_socket_errno);

    agent->backoff = agent->backoff
                     ? ngx_min(agent->backoff * 2, NGX_HTTP_WEIR_AGENT_LATEST)
                     : NGX_HTTP_WEIR_AGENT_RETRY;
    agent->next = ngx_current_msec + agent->backoff;

    return NGX_DECLINED;
}


static ngx_int_t
ngx_http_weir_agent_put(ngx_http_weir_agent_t *agent, ngx_http_request_t *r,
    ngx_http_weir_ask_t *ask, const struct weir_request *request)
{
    int          n;
    size_t       room;
    u_char      *p;
    uint64_t     id;
    ngx_uint_t   slot;
    ngx_msec_t   deadline;

    if (agent->nfree == 0) {
        return NGX_DECLINED;
    }

    slot = agent->free[agent->nfree - 1];
    agent->serial[slot]++;
    id = (uint64_t) agent->serial[slot] << 32 | slot;

    p = ngx_http_weir_link_room(&agent->link, &room);

    n = weir_ask_begin(agent->weir, request, id, p, room);
    if (n <= 0) {
        return NGX_DECLINED;
    }

    agent->nfree--;
    agent->asks[slot] = ask;

    ask->request = r;
    ask->slot = slot;
    ask->waiting = 1;
    ask->timer.handler = ngx_http_weir_agent_timeout_handler;
    ask->timer.data = ask;
    ask->timer.log = r->connection->log;

    /* timers count from the last turn of the event loop */

    ngx_time_update();

    ask->asked = ngx_current_msec;
    deadline = (ngx_msec_t) ((weir_ask_deadline(agent->weir) + 999999)
                             / 1000000);

    ngx_add_timer(&ask->timer, deadline);

    ngx_http_weir_link_post(&agent->link, n);

    return NGX_OK;
}


/* As the delay of limit_req: what comes of writing does not concern us */

static void
ngx_http_weir_agent_wait_handler(ngx_http_request_t *r)
{
    if (ngx_handle_write_event(r->connection->write, 0) != NGX_OK) {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
    }
}


static ngx_int_t
ngx_http_weir_agent_read_handler(ngx_http_weir_link_t *link)
{
    int                     n;
    size_t                  pos;
    ngx_connection_t       *c;
    struct weir_asked       asked;
    ngx_http_weir_agent_t  *agent;

    agent = link->data;
    c = link->connection;
    pos = 0;

    for ( ;; ) {
        n = weir_ask_next(agent->weir, link->in + pos, link->in_last - pos,
                          weir_now(agent->weir), &asked);
        if (n <= 0) {
            break;
        }

        pos += n;

        ngx_http_weir_agent_answered(agent, &asked);

        if (link->connection != c) {
            return NGX_OK;
        }
    }

    link->in_last -= pos;
    ngx_memmove(link->in, link->in + pos, link->in_last);

    if (n < 0 || link->in_last == NGX_HTTP_WEIR_LINK_IN) {
        ngx_http_weir_agent_trouble(agent, "does not speak our protocol", 0);
        return NGX_ERROR;
    }

    return NGX_OK;
}


static void
ngx_http_weir_agent_answered(ngx_http_weir_agent_t *agent,
    struct weir_asked *asked)
{
    ngx_uint_t            slot;
    const char           *how;
    ngx_http_weir_ask_t  *ask;

    agent->heard = ngx_current_msec;
    agent->silent = 0;
    agent->backoff = 0;

    if (asked->status == WEIR_EPOLICY) {
        ngx_http_weir_agent_trouble(agent, "has a policy with other names", 0);
        how = "other-policy";

    } else {
        ngx_http_weir_agent_trouble(agent, NULL, 0);
        how = asked->status == 0 ? "answered" : "busy";
    }

    slot = (ngx_uint_t) (asked->id & 0xffffffff);
    ask = slot < NGX_HTTP_WEIR_AGENT_SLOTS ? agent->asks[slot] : NULL;

    if (ask == NULL || agent->serial[slot] != (uint32_t) (asked->id >> 32)) {

        /* too late */

        if (asked->status == 0) {
            (void) ngx_http_weir_agent_release(agent->weir, &asked->answer);
        }

        return;
    }

    ask->answered = (asked->status == 0);

    if (ask->answered) {
        ask->answer = asked->answer;
    }

    ngx_http_weir_agent_resume(ask, how);
}


static void
ngx_http_weir_agent_timeout_handler(ngx_event_t *ev)
{
    ngx_http_weir_ask_t    *ask;
    ngx_http_weir_agent_t  *agent;

    ask = ev->data;
    agent = ngx_http_weir_agent;

    if ((ngx_msec_int_t) (agent->heard - ask->asked) <= 0) {
        ngx_http_weir_agent_trouble(agent, "does not answer", 0);

        agent->silent = 1;
        agent->next = ngx_current_msec + NGX_HTTP_WEIR_AGENT_PROBE;
    }

    ngx_http_weir_agent_resume(ask, "timeout");
}


/* The connection has ended.  One that was idle is nobody's trouble. */

static void
ngx_http_weir_agent_lost_handler(ngx_http_weir_link_t *link)
{
    ngx_uint_t              i;
    ngx_http_weir_ask_t    *ask;
    ngx_http_weir_agent_t  *agent;

    agent = link->data;

    ngx_http_weir_link_close(link, 0);

    if (agent->nfree == NGX_HTTP_WEIR_AGENT_SLOTS) {
        return;
    }

    ngx_http_weir_agent_trouble(agent, "has closed the connection", 0);

    agent->backoff = NGX_HTTP_WEIR_AGENT_RETRY;
    agent->next = ngx_current_msec + agent->backoff;

    for (i = 0; i < NGX_HTTP_WEIR_AGENT_SLOTS; i++) {
        ask = agent->asks[i];

        if (ask) {
            ngx_http_weir_agent_resume(ask, "lost");
        }
    }
}


static void
ngx_http_weir_agent_detach(ngx_http_weir_ask_t *ask)
{
    ngx_http_weir_agent_t  *agent;

    agent = ngx_http_weir_agent;

    if (ask->timer.timer_set) {
        ngx_del_timer(&ask->timer);
    }

    agent->asks[ask->slot] = NULL;
    agent->free[agent->nfree++] = ask->slot;

    ask->waiting = 0;
}


/* The request, and |ask| with it, may be gone afterwards */

static void
ngx_http_weir_agent_resume(ngx_http_weir_ask_t *ask, const char *how)
{
    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    ngx_http_weir_agent_detach(ask);

    ask->ctx->agent = how;

    r = ask->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, c->log, 0, "weir: agent: %s", how);

    if (ngx_handle_read_event(c->read, 0) != NGX_OK) {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
        ngx_http_run_posted_requests(c);
        return;
    }

    r->read_event_handler = ngx_http_block_reading;
    r->write_event_handler = ngx_http_core_run_phases;

    ngx_http_core_run_phases(r);

    ngx_http_run_posted_requests(c);
}


static void
ngx_http_weir_agent_trouble(ngx_http_weir_agent_t *agent, const char *trouble,
    ngx_err_t err)
{
    const char  *path;

    if (agent->trouble == trouble || (trouble && agent->trouble)) {
        return;
    }

    agent->trouble = trouble;
    path = weir_ask_socket(agent->weir);

    if (trouble) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, err,
                      "weir: the daemon at %s %s: shared limits are decided "
                      "as \"when_store_gone\" says", path, trouble);

    } else {
        ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                      "weir: the daemon at %s answers again", path);
    }
}
