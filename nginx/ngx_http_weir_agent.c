
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
 *   1. Nothing here blocks: connecting to a unix socket succeeds at once or
 *      not at all, and what the daemon does not read stays in a buffer that
 *      does not grow.  What does not fit is decided alone.
 *   2. No request waits longer than the deadline.  A daemon that was silent
 *      for that long is asked by one request in NGX_HTTP_WEIR_AGENT_PROBE ms
 *      until it answers; the others do not wait for it.
 *   3. An ask lies in the pool of its request, and is forgotten when that
 *      dies.  An answer to nobody gives back the places it holds.
 *   4. A trouble is logged when it begins and when it is over, not by request.
 *   5. The connection is closed by exit_process and when its policy is closed.
 */


#include "ngx_http_weir_module.h"


#define NGX_HTTP_WEIR_AGENT_SLOTS  4096            /* asks of a worker */
#define NGX_HTTP_WEIR_AGENT_OUT    (256 * 1024)    /* at least one ask */
#define NGX_HTTP_WEIR_AGENT_IN     (32 * 1024)     /* at least one answer */
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
    ngx_connection_t           *connection; /* NULL: none */

    const char                 *trouble;    /* logged; NULL: it is well */
    ngx_msec_t                  heard;
    ngx_msec_t                  next;       /* to connect, or to probe */
    ngx_msec_t                  backoff;    /* 0: connecting did not fail */
    unsigned                    silent:1;

    ngx_uint_t                  nfree;
    ngx_uint_t                  free[NGX_HTTP_WEIR_AGENT_SLOTS];
    ngx_http_weir_ask_t        *asks[NGX_HTTP_WEIR_AGENT_SLOTS];
    uint32_t                    serial[NGX_HTTP_WEIR_AGENT_SLOTS];

    size_t                      out_pos;
    size_t                      out_last;
    size_t                      in_last;
    u_char                      out[NGX_HTTP_WEIR_AGENT_OUT];
    u_char                      in[NGX_HTTP_WEIR_AGENT_IN];
} ngx_http_weir_agent_t;


static ngx_http_weir_agent_t *ngx_http_weir_agent_get(struct weir *w);
static ngx_int_t ngx_http_weir_agent_connect(ngx_http_weir_agent_t *agent);
static ngx_int_t ngx_http_weir_agent_open(ngx_http_weir_agent_t *agent);
static ngx_int_t ngx_http_weir_agent_put(ngx_http_weir_agent_t *agent,
    ngx_http_request_t *r, ngx_http_weir_ask_t *ask,
    const struct weir_request *request);
static u_char *ngx_http_weir_agent_room(ngx_http_weir_agent_t *agent,
    size_t *room);
static void ngx_http_weir_agent_post(ngx_http_weir_agent_t *agent, size_t n);
static void ngx_http_weir_agent_wait_handler(ngx_http_request_t *r);
static void ngx_http_weir_agent_write_handler(ngx_event_t *wev);
static ngx_int_t ngx_http_weir_agent_send(ngx_http_weir_agent_t *agent);
static void ngx_http_weir_agent_read_handler(ngx_event_t *rev);
static ngx_int_t ngx_http_weir_agent_read_answers(ngx_http_weir_agent_t *agent);
static void ngx_http_weir_agent_answered(ngx_http_weir_agent_t *agent,
    struct weir_asked *asked);
static void ngx_http_weir_agent_timeout_handler(ngx_event_t *ev);
static void ngx_http_weir_agent_lost(ngx_http_weir_agent_t *agent);
static void ngx_http_weir_agent_disconnect(ngx_http_weir_agent_t *agent);
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

    if (agent == NULL || agent->connection == NULL) {
        return NGX_OK; /* the place expires by itself */
    }

    p = ngx_http_weir_agent_room(agent, &room);

    if (room >= (size_t) n) {
        ngx_memcpy(p, frame, n);
        ngx_http_weir_agent_post(agent, n);
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

    if (agent->connection) {
        (void) ngx_http_weir_agent_send(agent); /* releases */
        ngx_http_weir_agent_disconnect(agent);
    }

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

        ngx_memzero(agent, offsetof(ngx_http_weir_agent_t, out));

        for (i = 0; i < NGX_HTTP_WEIR_AGENT_SLOTS; i++) {
            agent->free[i] = i;
        }

        agent->nfree = NGX_HTTP_WEIR_AGENT_SLOTS;
        ngx_http_weir_agent = agent;
    }

    if (agent->weir != w) {

        /* without a master a process goes on with another policy */

        if (agent->connection) {
            ngx_http_weir_agent_lost(agent);
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
    if (agent->connection) {
        return NGX_OK;
    }

    if (agent->backoff
        && (ngx_msec_int_t) (ngx_current_msec - agent->next) < 0)
    {
        return NGX_DECLINED;
    }

    if (ngx_http_weir_agent_open(agent) == NGX_OK) {
        return NGX_OK;
    }

    ngx_http_weir_agent_trouble(agent, "cannot be reached", ngx_socket_errno);

    agent->backoff = agent->backoff
                     ? ngx_min(agent->backoff * 2, NGX_HTTP_WEIR_AGENT_LATEST)
                     : NGX_HTTP_WEIR_AGENT_RETRY;
    agent->next = ngx_current_msec + agent->backoff;

    return NGX_DECLINED;
}


/*
 * Not by ngx_event_connect_peer(), which logs each failure.  A unix socket is
 * connected at once, or not at all: EAGAIN says that its queue is full.
 */

static ngx_int_t
ngx_http_weir_agent_open(ngx_http_weir_agent_t *agent)
{
    size_t               len;
    ngx_err_t            err;
    ngx_int_t            rc;
    const char          *path;
    ngx_socket_t         s;
    struct sockaddr_un   sun;
    ngx_connection_t    *c;

    path = weir_ask_socket(agent->weir);
    len = path ? ngx_strlen(path) : 0;

    if (len == 0 || len >= sizeof(sun.sun_path)) {
        ngx_set_socket_errno(NGX_ENOENT);
        return NGX_ERROR;
    }

    ngx_memzero(&sun, sizeof(struct sockaddr_un));
    sun.sun_family = AF_UNIX;
    ngx_memcpy(sun.sun_path, path, len);

    s = ngx_socket(AF_UNIX, SOCK_STREAM, 0);
    if (s == (ngx_socket_t) -1) {
        return NGX_ERROR;
    }

    c = NULL;

    if (ngx_nonblocking(s) == -1
        || fcntl(s, F_SETFD, FD_CLOEXEC) == -1
        || connect(s, (struct sockaddr *) &sun, sizeof(struct sockaddr_un))
           == -1)
    {
        goto failed;
    }

    c = ngx_get_connection(s, ngx_cycle->log);
    if (c == NULL) {
        goto failed;
    }

    c->data = agent;
    c->recv = ngx_recv;
    c->send = ngx_send;
    c->log_error = NGX_ERROR_INFO;
    c->number = ngx_atomic_fetch_add(ngx_connection_counter, 1);

    c->read->log = c->log;
    c->read->handler = ngx_http_weir_agent_read_handler;
    c->write->log = c->log;
    c->write->handler = ngx_http_weir_agent_write_handler;
    c->write->ready = 1;

    if (ngx_add_conn) {
        rc = ngx_add_conn(c);

    } else {
        rc = ngx_add_event(c->read, NGX_READ_EVENT,
                           (ngx_event_flags & NGX_USE_CLEAR_EVENT)
                           ? NGX_CLEAR_EVENT : NGX_LEVEL_EVENT);
    }

    if (rc != NGX_OK) {
        ngx_close_connection(c);
        ngx_set_socket_errno(NGX_ENOMEM);
        return NGX_ERROR;
    }

    agent->connection = c;
    agent->out_pos = 0;
    agent->out_last = 0;
    agent->in_last = 0;
    agent->silent = 0;
    agent->heard = ngx_current_msec;

    return NGX_OK;

failed:

    err = ngx_socket_errno;

    (void) ngx_close_socket(s);

    ngx_set_socket_errno(err);

    return NGX_ERROR;
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

    p = ngx_http_weir_agent_room(agent, &room);

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

    ngx_http_weir_agent_post(agent, n);

    return NGX_OK;
}


static u_char *
ngx_http_weir_agent_room(ngx_http_weir_agent_t *agent, size_t *room)
{
    if (agent->out_pos
        && NGX_HTTP_WEIR_AGENT_OUT - agent->out_last < WEIR_ASK_BYTES)
    {
        agent->out_last -= agent->out_pos;
        ngx_memmove(agent->out, agent->out + agent->out_pos, agent->out_last);
        agent->out_pos = 0;
    }

    *room = NGX_HTTP_WEIR_AGENT_OUT - agent->out_last;

    return agent->out + agent->out_last;
}


/* All that is put in a turn of the event loop leaves at its end */

static void
ngx_http_weir_agent_post(ngx_http_weir_agent_t *agent, size_t n)
{
    agent->out_last += n;

    ngx_post_event(agent->connection->write, &ngx_posted_events);
}


/* As the delay of limit_req: what comes of writing does not concern us */

static void
ngx_http_weir_agent_wait_handler(ngx_http_request_t *r)
{
    if (ngx_handle_write_event(r->connection->write, 0) != NGX_OK) {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
    }
}


static void
ngx_http_weir_agent_write_handler(ngx_event_t *wev)
{
    ngx_connection_t       *c;
    ngx_http_weir_agent_t  *agent;

    c = wev->data;
    agent = c->data;

    if (ngx_http_weir_agent_send(agent) != NGX_OK
        || ngx_handle_write_event(wev, 0) != NGX_OK)
    {
        ngx_http_weir_agent_lost(agent);
    }
}


static ngx_int_t
ngx_http_weir_agent_send(ngx_http_weir_agent_t *agent)
{
    ssize_t            n;
    ngx_connection_t  *c;

    c = agent->connection;

    while (agent->out_pos < agent->out_last) {

        n = c->send(c, agent->out + agent->out_pos,
                    agent->out_last - agent->out_pos);

        if (n == NGX_AGAIN) {
            return NGX_OK;
        }

        if (n <= 0) {
            return NGX_ERROR;
        }

        agent->out_pos += n;
    }

    agent->out_pos = 0;
    agent->out_last = 0;

    return NGX_OK;
}


static void
ngx_http_weir_agent_read_handler(ngx_event_t *rev)
{
    ssize_t                 n;
    ngx_int_t               rc;
    ngx_connection_t       *c;
    ngx_http_weir_agent_t  *agent;

    c = rev->data;
    agent = c->data;

    for ( ;; ) {

        n = c->recv(c, agent->in + agent->in_last,
                    NGX_HTTP_WEIR_AGENT_IN - agent->in_last);

        if (n == NGX_AGAIN) {
            break;
        }

        if (n <= 0) {
            ngx_http_weir_agent_lost(agent);
            return;
        }

        agent->in_last += n;

        rc = ngx_http_weir_agent_read_answers(agent);

        if (agent->connection != c) {
            return;
        }

        if (rc != NGX_OK) {
            ngx_http_weir_agent_trouble(agent, "does not speak our protocol",
                                        0);
            ngx_http_weir_agent_lost(agent);
            return;
        }
    }

    if (ngx_handle_read_event(rev, 0) != NGX_OK) {
        ngx_http_weir_agent_lost(agent);
    }
}


static ngx_int_t
ngx_http_weir_agent_read_answers(ngx_http_weir_agent_t *agent)
{
    int                n;
    size_t             pos;
    ngx_connection_t  *c;
    struct weir_asked  asked;

    c = agent->connection;
    pos = 0;

    for ( ;; ) {
        n = weir_ask_next(agent->weir, agent->in + pos, agent->in_last - pos,
                          weir_now(agent->weir), &asked);
        if (n <= 0) {
            break;
        }

        pos += n;

        ngx_http_weir_agent_answered(agent, &asked);

        if (agent->connection != c) {
            return NGX_DECLINED;
        }
    }

    agent->in_last -= pos;
    ngx_memmove(agent->in, agent->in + pos, agent->in_last);

    return n == 0 && agent->in_last < NGX_HTTP_WEIR_AGENT_IN ? NGX_OK
                                                             : NGX_ERROR;
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
ngx_http_weir_agent_lost(ngx_http_weir_agent_t *agent)
{
    ngx_uint_t            i;
    ngx_http_weir_ask_t  *ask;

    ngx_http_weir_agent_disconnect(agent);

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
ngx_http_weir_agent_disconnect(ngx_http_weir_agent_t *agent)
{
    ngx_connection_t  *c;

    c = agent->connection;
    agent->connection = NULL;

    ngx_close_connection(c);
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
