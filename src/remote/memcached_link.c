/* memcached_link.c - a connection: pipelined, batched by the turn of the loop, lost and found
 * again.
 *
 *   waiting --(breaker)--> resolving --> connecting --> greeting (mn) --> up --> waiting
 *
 * Invariants.
 *   1. Replies come in the order of the commands: a ring says whose each is. What is in the ring
 * when the connection is lost is told so, once.
 *   2. Bytes of commands and the ring are of fixed size; who finds them full is told, not queued.
 *   3. A server that connects and does not answer is found out by its callers' deadlines
 *      (wr_mc_link_failed): with the breaker open, the connection is closed.
 *   4. A name's lookup may outlast the patience with it (RESOLVING_NS), and several pauses: it is
 *      waited for again, and what it says meanwhile is for the next attempt.
 *
 * Rejected: a pool of connections (one, batched by the turn, costs less CPU and keeps the order).
 */
#include "remote/memcached_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/units.h"
#include "remote/breaker.h"
#include "remote/resolve.h"

#define RING 16384U          /* commands under way; a power of two */
#define OUT_BYTES (1U << 20) /* of one turn */
#define IN_BYTES (64U << 10)
#define COMMAND_BYTES 768U    /* of the longest command: a key, a word and flags */
#define UNSENT_MAX (4U << 20) /* a server that does not read */

#define RESOLVING_NS WR_NS_PER_S /* by threads; nobody waits for it, as there is no connection */

enum stage { STAGE_WAITING, STAGE_RESOLVING, STAGE_CONNECTING, STAGE_GREETING, STAGE_UP };

struct expected {
    void *job;
    unsigned what;
};

struct wr_mc_link {
    struct wr_mc_link_options options;
    enum stage stage;
    struct wr_breaker breaker;
    struct wr_resolve resolve;
    uv_timer_t timer; /* of the stage, or until the breaker lets us try */
    uv_prepare_t flush;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } socket;
    uv_connect_t connecting;
    bool socket_open, closing;
    unsigned handles; /* that libuv still has */
    struct wr_mc_out out;
    size_t in_len;
    uint32_t head, tail; /* of the ring: next to be answered, next to be sent */
    struct expected ring[RING];
    char detail[128];
    char in[IN_BYTES];
    char bytes[OUT_BYTES];
};

struct write {
    uv_write_t request;
    char bytes[];
};

static int64_t now_ns(void)
{
    return (int64_t)uv_hrtime();
}

static void begin(struct wr_mc_link *link);
static void connect_to(struct wr_mc_link *link, const struct sockaddr *address);

/* ---- ends ---------------------------------------------------------------------------------- */

static void on_handle_closed(struct wr_mc_link *link)
{
    if (--link->handles > 0 || !link->closing || link->resolve.running)
        return;
    link->options.closed(link->options.owner);
    wr_resolve_free(&link->resolve);
    free(link);
}

static void on_closed(uv_handle_t *handle)
{
    on_handle_closed(handle->data);
}

static void on_socket_closed(uv_handle_t *handle)
{
    struct wr_mc_link *link = handle->data;

    link->socket_open = false;
    if (!link->closing && link->stage == STAGE_CONNECTING) /* the address before was of no use */
        connect_to(link, wr_resolve_next(&link->resolve));
    on_handle_closed(link);
}

static void on_pause_over(uv_timer_t *timer)
{
    struct wr_mc_link *link = timer->data;

    if (link->socket_open || !wr_breaker_probe(&link->breaker, now_ns())) {
        (void)uv_timer_start(timer, on_pause_over, 10, 0);
        return;
    }
    begin(link);
}

static void wait_for_breaker(struct wr_mc_link *link)
{
    int64_t wait_ns = wr_breaker_wait_ns(&link->breaker, now_ns());

    link->stage = STAGE_WAITING;
    (void)uv_timer_start(&link->timer, on_pause_over,
                         (uint64_t)((wait_ns + WR_NS_PER_MS - 1) / WR_NS_PER_MS), 0);
}

/* Everyone who waits hears that it is lost. */
static void fail_expected(struct wr_mc_link *link)
{
    while (link->head != link->tail) {
        struct expected *e = &link->ring[link->head++ % RING];
        if (e->job != NULL)
            (void)link->options.reply(e->job, e->what, WR_MC_BAD, NULL);
    }
}

static void close_socket(struct wr_mc_link *link)
{
    if (link->socket_open && !uv_is_closing(&link->socket.handle))
        uv_close(&link->socket.handle, on_socket_closed);
}

static void lose(struct wr_mc_link *link, const char *why)
{
    if (link->closing || link->stage == STAGE_WAITING)
        return;
    (void)snprintf(link->detail, sizeof link->detail, "%s:%u: %s",
                   link->options.address->host != NULL ? link->options.address->host
                                                       : link->options.address->path,
                   link->options.address->port, why);
    link->out.len = 0;
    link->out.full = false;
    link->in_len = 0;
    close_socket(link);
    wr_resolve_free(&link->resolve);
    wr_breaker_trip(&link->breaker, now_ns());
    wait_for_breaker(link);
    fail_expected(link);
    link->options.changed(link->options.owner);
}

/* ---- reading ------------------------------------------------------------------------------- */

static void on_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct wr_mc_link *link = handle->data;

    (void)suggested;
    *buffer = uv_buf_init(link->in + link->in_len, (unsigned)(IN_BYTES - link->in_len));
}

/* One reply. False: it makes no sense. */
static bool hear(struct wr_mc_link *link, enum wr_mc_step step, const struct wr_mc_reply *reply)
{
    struct expected e;

    if (link->head == link->tail)
        return false;
    e = link->ring[link->head++ % RING];
    if (link->stage == STAGE_GREETING) {
        if (step != WR_MC_NOOP)
            return false;
        link->stage = STAGE_UP;
        link->detail[0] = '\0';
        (void)uv_timer_stop(&link->timer);
        wr_breaker_succeeded(&link->breaker, now_ns());
        link->options.changed(link->options.owner);
        return true;
    }
    wr_breaker_succeeded(&link->breaker, now_ns());
    return e.job == NULL || link->options.reply(e.job, e.what, step, reply);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct wr_mc_link *link = stream->data;
    struct wr_mc_reply reply;
    size_t used = 0;

    (void)buffer;
    if (count < 0) {
        lose(link, count == UV_EOF ? "the server closed the connection" : uv_strerror((int)count));
        return;
    }
    link->in_len += (size_t)count;
    while (used < link->in_len) {
        enum wr_mc_step step = wr_mc_parse(link->in + used, link->in_len - used, &reply);
        if (step == WR_MC_MORE)
            break;
        if (step == WR_MC_BAD || !hear(link, step, &reply)) {
            lose(link, "an answer that makes no sense: is it memcached 1.6 or newer?");
            return;
        }
        used += reply.consumed;
        if (link->stage < STAGE_GREETING)
            return; /* somebody who heard it closed us */
    }
    memmove(link->in, link->in + used, link->in_len - used);
    link->in_len -= used;
}

/* ---- writing ------------------------------------------------------------------------------- */

static void on_written(uv_write_t *request, int status)
{
    struct wr_mc_link *link = request->handle->data;

    free(request->data);
    if (status < 0 && status != UV_ECANCELED)
        lose(link, uv_strerror(status));
}

/* At the end of the turn: what was put together goes out by one system call. */
static void on_flush(uv_prepare_t *handle)
{
    struct wr_mc_link *link = handle->data;
    uv_buf_t buffer = uv_buf_init(link->bytes, (unsigned)link->out.len);
    struct write *rest;
    int sent;

    (void)uv_prepare_stop(handle);
    if (link->stage < STAGE_GREETING || link->out.len == 0)
        return;
    sent = uv_try_write(&link->socket.stream, &buffer, 1);
    if (sent < 0 && sent != UV_EAGAIN) {
        lose(link, uv_strerror(sent));
        return;
    }
    sent = sent < 0 ? 0 : sent;
    if ((size_t)sent < link->out.len) {
        rest = malloc(sizeof *rest + link->out.len - (size_t)sent);
        if (rest == NULL) {
            lose(link, "out of memory");
            return;
        }
        memcpy(rest->bytes, link->bytes + sent, link->out.len - (size_t)sent);
        rest->request.data = rest;
        buffer = uv_buf_init(rest->bytes, (unsigned)(link->out.len - (size_t)sent));
        if (uv_write(&rest->request, &link->socket.stream, &buffer, 1, on_written) != 0) {
            free(rest);
            lose(link, "cannot write");
            return;
        }
    }
    link->out.len = 0;
}

struct wr_mc_out *wr_mc_link_begin(struct wr_mc_link *link, unsigned commands)
{
    if (link->closing || link->stage < STAGE_GREETING ||
        link->tail - link->head + commands > RING ||
        link->out.size - link->out.len < (size_t)commands * COMMAND_BYTES ||
        uv_stream_get_write_queue_size(&link->socket.stream) > UNSENT_MAX)
        return NULL;
    (void)uv_prepare_start(&link->flush, on_flush);
    return &link->out;
}

void wr_mc_link_expect(struct wr_mc_link *link, void *job, unsigned what)
{
    link->ring[link->tail++ % RING] = (struct expected){job, what};
}

/* ---- connecting ---------------------------------------------------------------------------- */

static void on_connected(uv_connect_t *request, int status)
{
    struct wr_mc_link *link = request->data;
    struct wr_mc_out *out;

    if (status == UV_ECANCELED || link->closing || link->stage != STAGE_CONNECTING)
        return;
    if (status < 0 && wr_resolve_more(&link->resolve)) {
        close_socket(link);
        return;
    }
    if (status < 0) {
        lose(link, uv_strerror(status));
        return;
    }
    link->stage = STAGE_GREETING;
    (void)uv_read_start(&link->socket.stream, on_buffer, on_read);
    out = wr_mc_link_begin(link, 1);
    wr_mc_noop(out);
    wr_mc_link_expect(link, NULL, 0);
}

static void on_stage_late(uv_timer_t *timer)
{
    struct wr_mc_link *link = timer->data;

    lose(link, link->stage == STAGE_RESOLVING ? "the name server does not answer"
                                              : "no answer within the deadline");
}

/* |timeout_ns| for what comes now. */
static void time_stage(struct wr_mc_link *link, int64_t timeout_ns)
{
    uint64_t timeout_ms = (uint64_t)((timeout_ns + WR_NS_PER_MS - 1) / WR_NS_PER_MS);

    (void)uv_timer_start(&link->timer, on_stage_late, wr_max_u64(timeout_ms, 1), 0);
}

static void connect_to(struct wr_mc_link *link, const struct sockaddr *address)
{
    link->stage = STAGE_CONNECTING;
    link->connecting.data = link;
    if (address == NULL)
        (void)uv_pipe_init(link->options.loop, &link->socket.pipe, 0);
    else
        (void)uv_tcp_init(link->options.loop, &link->socket.tcp);
    link->socket.handle.data = link;
    link->socket_open = true;
    link->handles++;
    if (address == NULL) {
        uv_pipe_connect(&link->connecting, &link->socket.pipe, link->options.address->path,
                        on_connected);
        return;
    }
    (void)uv_tcp_nodelay(&link->socket.tcp, 1);
    if (uv_tcp_connect(&link->connecting, &link->socket.tcp, address, on_connected) != 0)
        lose(link, "cannot connect");
}

static void on_resolved(void *context, const char *error)
{
    struct wr_mc_link *link = context;
    const struct sockaddr *address;

    if (link->closing) {
        link->handles++; /* as if one had been closed: the last one frees */
        on_handle_closed(link);
        return;
    }
    if (link->stage != STAGE_RESOLVING)
        return;
    address = error == NULL ? wr_resolve_next(&link->resolve) : NULL;
    if (address == NULL) {
        lose(link, error != NULL ? error : "no address");
        return;
    }
    time_stage(link, link->options.deadline_ns);
    connect_to(link, address);
}

static void look_up(struct wr_mc_link *link)
{
    const struct wr_policy_address *address = link->options.address;

    time_stage(link, RESOLVING_NS);
    if (!wr_resolve_start(&link->resolve, link->options.loop, address->host, address->port,
                          on_resolved, link))
        lose(link, "out of memory");
}

static void begin(struct wr_mc_link *link)
{
    const struct wr_policy_address *address = link->options.address;

    link->stage = STAGE_RESOLVING;
    time_stage(link, link->options.deadline_ns);
    if (address->path != NULL)
        connect_to(link, NULL);
    else if (wr_resolve_more(&link->resolve) ||
             wr_resolve_literal(&link->resolve, address->host, address->port))
        connect_to(link, wr_resolve_next(&link->resolve));
    else
        look_up(link);
}

/* ---- for the owner ------------------------------------------------------------------------- */

struct wr_mc_link *wr_mc_link_open(const struct wr_mc_link_options *options)
{
    struct wr_mc_link *link = calloc(1, sizeof *link);

    if (link == NULL)
        return NULL;
    link->options = *options;
    link->out = (struct wr_mc_out){.bytes = link->bytes, .size = OUT_BYTES};
    wr_breaker_init(&link->breaker, uv_hrtime() ^ (uint64_t)(uintptr_t)link);
    (void)uv_timer_init(options->loop, &link->timer);
    (void)uv_prepare_init(options->loop, &link->flush);
    link->timer.data = link->flush.data = link;
    link->handles = 2;
    begin(link);
    return link;
}

enum wr_remote_trouble wr_mc_link_trouble(const struct wr_mc_link *link)
{
    if (link->stage == STAGE_UP)
        return WR_TROUBLE_NONE;
    return wr_breaker_closed(&link->breaker) ? WR_TROUBLE_CONNECT : WR_TROUBLE_BREAKER;
}

int64_t wr_mc_link_retry_ns(const struct wr_mc_link *link)
{
    return wr_breaker_wait_ns(&link->breaker, now_ns());
}

const char *wr_mc_link_detail(const struct wr_mc_link *link)
{
    return link->stage == STAGE_UP ? "" : link->detail[0] != '\0' ? link->detail : "connecting";
}

bool wr_mc_link_is_idle(const struct wr_mc_link *link)
{
    return link->stage != STAGE_UP || link->head == link->tail;
}

void wr_mc_link_failed(struct wr_mc_link *link, int64_t now)
{
    if (link->stage != STAGE_UP)
        return;
    wr_breaker_failed(&link->breaker, now);
    if (!wr_breaker_closed(&link->breaker))
        lose(link, "no answers within the deadline");
}

void wr_mc_link_close(struct wr_mc_link *link)
{
    link->closing = true;
    fail_expected(link);
    wr_resolve_cancel(&link->resolve);
    close_socket(link);
    uv_close((uv_handle_t *)&link->timer, on_closed);
    uv_close((uv_handle_t *)&link->flush, on_closed);
}
