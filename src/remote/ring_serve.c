/* ring_serve.c - the ring's own listener: nodes of the ring, and nobody else.
 *
 * Idea. A door of its own, with a password of its own, for the few commands that nodes say to each
 * other; clients are served elsewhere. Commands that came in one turn are answered in one write.
 *
 *   AUTH [user] password   PING   CLIENT ...   HELLO, TAKE, PUT, SYNCED of wire/ring.h
 *
 * Invariants.
 *   1. Before the password, nothing is run but AUTH and what Redis allows then; a silent stranger
 *      goes after STRANGER_NS.
 *   2. A connection holds at most one command that is not whole (WR_RESP_COMMAND_MAX) and the
 *      answers of what was read; while those are not written nothing more is read.
 *   3. What cannot be read as RESP ends the connection; a message that makes no sense is answered
 *      by an error, and nothing of it was done.
 *
 * Rejected: the RESP door of clients (its password, its limits and its doors' life are another
 * trust); a listener for all loops (a queue between threads for each decision): each loop has one,
 * under SO_REUSEPORT. */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arith.h"
#include "remote/ring_store.h"

#define BACKLOG 256
#define IN_FIRST 16384
#define OUT_BYTES 65536
#define STRANGER_NS (10 * WR_NS_PER_S)

struct wr_ring_conn {
    struct wr_ring_conn *previous, *next;
    struct wr_ring *ring;
    uv_tcp_t tcp;
    uv_write_t write;
    struct wr_ring_caller caller;
    bool writing;         /* |out| is with libuv */
    bool closing, ending; /* ending: once |out| is written */
    int64_t since_ns;
    char *in;
    size_t in_len, in_size;
    char bytes[OUT_BYTES];
};

/* ---- connections ----------------------------------------------------------------------------- */

static void on_conn_closed(uv_handle_t *handle)
{
    struct wr_ring_conn *conn = handle->data;
    struct wr_ring *ring = conn->ring;

    if (conn->previous != NULL)
        conn->previous->next = conn->next;
    else
        ring->conns = conn->next;
    if (conn->next != NULL)
        conn->next->previous = conn->previous;
    ring->conn_count--;
    free(conn->in);
    free(conn);
    wr_redis_store_release(ring->store);
}

static void close_conn(struct wr_ring_conn *conn)
{
    if (conn->closing)
        return;
    conn->closing = true;
    uv_close((uv_handle_t *)&conn->tcp, on_conn_closed);
}

static struct wr_ring_conn *new_conn(struct wr_ring *ring)
{
    struct wr_ring_conn *conn = calloc(1, sizeof *conn);

    if (conn == NULL)
        return NULL;
    conn->in = malloc(IN_FIRST);
    if (conn->in == NULL || uv_tcp_init(ring->store->loop, &conn->tcp) != 0) {
        free(conn->in);
        free(conn);
        return NULL;
    }
    conn->in_size = IN_FIRST;
    conn->caller.out = (struct wr_resp_out){.bytes = conn->bytes, .size = sizeof conn->bytes};
    conn->ring = conn->caller.ring = ring;
    conn->tcp.data = conn->write.data = conn;
    conn->since_ns = wr_redis_now_ns();
    conn->caller.known = ring->store->password == NULL && ring->store->password_file == NULL;
    conn->next = ring->conns;
    if (conn->next != NULL)
        conn->next->previous = conn;
    ring->conns = conn;
    ring->conn_count++;
    ring->store->handles++;
    return conn;
}

/* ---- bytes in and out ------------------------------------------------------------------------ */

static void serve(struct wr_ring_conn *conn);

static void on_written(uv_write_t *write, int status)
{
    struct wr_ring_conn *conn = write->data;

    conn->writing = false;
    conn->caller.out.len = 0;
    if (status != 0 || conn->ending)
        close_conn(conn);
    else
        serve(conn);
}

static void flush(struct wr_ring_conn *conn)
{
    uv_buf_t buf = uv_buf_init(conn->bytes, (unsigned)conn->caller.out.len);
    int written;

    if (conn->caller.out.len == 0 || conn->writing)
        return;
    written = uv_try_write((uv_stream_t *)&conn->tcp, &buf, 1);
    if (written == (int)conn->caller.out.len) {
        conn->caller.out.len = 0;
        return;
    }
    written = written < 0 ? 0 : written;
    buf = uv_buf_init(conn->bytes + written, (unsigned)(conn->caller.out.len - (size_t)written));
    conn->writing = true;
    (void)uv_read_stop((uv_stream_t *)&conn->tcp);
    if (uv_write(&conn->write, (uv_stream_t *)&conn->tcp, &buf, 1, on_written) != 0)
        close_conn(conn);
}

static void end_conn(struct wr_ring_conn *conn, const char *error)
{
    wr_resp_error_begin(&conn->caller.out, "ERR ");
    wr_resp_error_end(&conn->caller.out, error);
    conn->ending = true;
}

/* Run the first command of what is there at |at|. False: it is not whole, or the last. */
static bool run_next(struct wr_ring_conn *conn, size_t *at)
{
    struct weir_slice args[WR_RESP_ARGS_MAX];
    struct wr_resp_limits limits = {conn->caller.known ? WR_RESP_ARGS_MAX : WR_RESP_ARGS_UNKNOWN,
                                    conn->caller.known ? WR_RESP_BULK_MAX : WR_RESP_BULK_UNKNOWN};
    struct wr_resp_command command;

    switch (wr_resp_parse(conn->in + *at, conn->in_len - *at, &limits, conn->ring->scratch, args,
                          &command)) {
    case WR_RESP_MORE:
        return false;
    case WR_RESP_BAD:
        end_conn(conn, command.error);
        return false;
    case WR_RESP_NOTHING:
        break;
    case WR_RESP_COMMAND:
        wr_ring_run(&conn->caller, args, command.argc);
        break;
    }
    *at += command.consumed;
    return true;
}

static void on_alloc(uv_handle_t *handle, size_t wanted, uv_buf_t *buf);
static void on_read(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf);

/* All that is whole and whose answers fit; then read on. */
static void serve(struct wr_ring_conn *conn)
{
    size_t at = 0;

    while (!conn->closing && !conn->ending && !conn->writing) {
        bool more = true;
        while (more && !conn->ending &&
               OUT_BYTES - conn->caller.out.len >= 2 * (size_t)WR_RING_ANSWER_BYTES)
            more = run_next(conn, &at);
        flush(conn);
        if (!more)
            break;
    }
    if (conn->closing)
        return;
    conn->in_len -= at;
    memmove(conn->in, conn->in + at, conn->in_len);
    if (conn->writing)
        return;
    if (conn->ending)
        close_conn(conn);
    else
        (void)uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_read);
}

static void on_alloc(uv_handle_t *handle, size_t wanted, uv_buf_t *buf)
{
    struct wr_ring_conn *conn = handle->data;
    (void)wanted;

    if (conn->in_len == conn->in_size && conn->in_size < WR_RESP_COMMAND_MAX) {
        char *bigger = realloc(conn->in, 2 * conn->in_size);
        if (bigger != NULL) {
            conn->in = bigger;
            conn->in_size *= 2;
        }
    }
    *buf = uv_buf_init(conn->in + conn->in_len, (unsigned)(conn->in_size - conn->in_len));
}

static void on_read(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
    struct wr_ring_conn *conn = stream->data;
    (void)buf;

    if (len < 0) {
        close_conn(conn);
        return;
    }
    conn->in_len += (size_t)len;
    serve(conn);
}

/* ---- the listener ---------------------------------------------------------------------------- */

static void on_connection(uv_stream_t *listener, int status)
{
    struct wr_ring *ring = listener->data;
    struct wr_ring_conn *conn = status == 0 ? new_conn(ring) : NULL;

    if (conn == NULL)
        return;
    if (uv_accept(listener, (uv_stream_t *)&conn->tcp) != 0 ||
        ring->conn_count > WR_RING_CONNS_MAX ||
        uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_read) != 0) {
        close_conn(conn);
        return;
    }
    (void)uv_tcp_nodelay(&conn->tcp, 1);
}

static int bind_to(const struct addrinfo *at, bool shared)
{
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;

    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (shared)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

/* A socket bound to our address; -1: |*why|. A name is looked up at once: it is our own. */
static int open_socket(const char *host, uint16_t of, bool shared, const char **why)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *list = NULL;
    char port[8];
    int fd = -1, error;

    (void)snprintf(port, sizeof port, "%u", (unsigned)of);
    error = getaddrinfo(host, port, &hints, &list);
    *why = error != 0 ? gai_strerror(error)
                      : "cannot listen at this address: it is another host's, or in use";
    for (const struct addrinfo *at = list; at != NULL && fd < 0; at = at->ai_next)
        fd = bind_to(at, shared);
    if (list != NULL)
        freeaddrinfo(list);
    return fd;
}

const char *wr_ring_probe(const struct wr_policy_address *self)
{
    const char *why = NULL;
    int fd = open_socket(self->host, self->port, false, &why);

    if (fd < 0)
        return why;
    (void)close(fd);
    return NULL;
}

const char *wr_ring_listen(struct wr_ring *ring)
{
    const char *why = NULL;
    const struct wr_ring_peer *self = wr_ring_self(ring);
    int fd = open_socket(self->host, self->port, true, &why), error;

    if (fd < 0)
        return why;
    if (uv_tcp_init(ring->store->loop, &ring->listener) != 0) {
        (void)close(fd);
        return "out of memory";
    }
    ring->store->handles++;
    ring->listener.data = ring;
    error = uv_tcp_open(&ring->listener, fd);
    if (error != 0)
        (void)close(fd);
    else
        error = uv_listen((uv_stream_t *)&ring->listener, BACKLOG, on_connection);
    ring->listening = error == 0;
    if (error == 0)
        return NULL;
    uv_close((uv_handle_t *)&ring->listener, wr_ring_on_closed);
    return uv_strerror(error);
}

void wr_ring_serve_beat(struct wr_ring *ring, int64_t now_ns)
{
    struct wr_ring_conn *next;

    for (struct wr_ring_conn *conn = ring->conns; conn != NULL; conn = next) {
        next = conn->next;
        if (!conn->caller.known && now_ns - conn->since_ns >= STRANGER_NS)
            close_conn(conn);
    }
    if (!ring->listening) {
        const char *why = wr_ring_listen(ring);
        if (why != NULL)
            wr_redis_say(ring->store, NULL, why);
    }
}

void wr_ring_serve_stop(struct wr_ring *ring)
{
    for (struct wr_ring_conn *conn = ring->conns; conn != NULL; conn = conn->next)
        close_conn(conn);
    if (ring->listening)
        uv_close((uv_handle_t *)&ring->listener, wr_ring_on_closed);
    ring->listening = false;
}
