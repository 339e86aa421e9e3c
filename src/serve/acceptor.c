/* acceptor.c - a listening socket of a loop: accepting, deadlines, closing all.
 *
 * Invariants:
 *   1. It is freed when the last of its handles is closed, and not before.
 *   2. One timer is armed for the earliest deadline of all connections, or an earlier one. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/units.h"
#include "serve/connection.h"

#define BACKLOG 4096
#define LINGER_MS 1000
#define KEEPALIVE_S 60

/* ---- its life ---------------------------------------------------------------------------- */

void wr_acceptor_handle_closed(struct wr_acceptor *acceptor)
{
    if (--acceptor->handles > 0)
        return;
    wr_bytes_free(&acceptor->spare);
    free(acceptor);
}

static void on_own_closed(uv_handle_t *handle)
{
    wr_acceptor_handle_closed(handle->data);
}

static uint64_t to_ms(int64_t ns)
{
    return ns > 0 ? (uint64_t)((ns + WR_NS_PER_MS - 1) / WR_NS_PER_MS) : 0;
}

/* ---- deadlines --------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer);

static void arm(struct wr_acceptor *acceptor)
{
    uint64_t next = wr_queue_next(&acceptor->queues), now = uv_now(&acceptor->loop->uv);

    if (next == WR_NO_DEADLINE || acceptor->closed)
        return;
    if (uv_is_active((uv_handle_t *)&acceptor->timer) &&
        uv_timer_get_due_in(&acceptor->timer) <= (next > now ? next - now : 0))
        return;
    (void)uv_timer_start(&acceptor->timer, on_timer, next > now ? next - now : 0, 0);
}

static void expire(struct wr_conn *conn, unsigned queue)
{
    if (queue == WR_WAIT_IDLE) {
        wr_conn_close(conn);
        return;
    }
    if (queue != WR_WAIT_LINGER)
        wr_conn_count(&wr_conn_metrics(conn->acceptor)->deadline_closed);
    wr_conn_destroy(conn);
}

static void on_timer(uv_timer_t *timer)
{
    struct wr_acceptor *acceptor = timer->data;
    struct wr_queued *item;
    unsigned queue;

    while ((item = wr_queue_due(&acceptor->queues, uv_now(&acceptor->loop->uv), &queue)) != NULL)
        expire((struct wr_conn *)(void *)((char *)item - offsetof(struct wr_conn, queued)), queue);
    arm(acceptor);
}

/* Before the loop sleeps: what was written outside of reads leaves, the timer is right. */
static void on_prepare(uv_prepare_t *prepare)
{
    struct wr_acceptor *acceptor = prepare->data;
    struct wr_conn *conn;

    while ((conn = acceptor->dirty) != NULL) {
        acceptor->dirty = conn->next_dirty;
        conn->dirty = false;
        wr_conn_flush(conn);
    }
    arm(acceptor);
}

/* ---- accepting --------------------------------------------------------------------------- */

static void on_refused_closed(uv_handle_t *handle)
{
    struct wr_conn *conn = handle->data;
    struct wr_acceptor *acceptor = conn->acceptor;

    if (conn->counted)
        wr_server_leave_connection(acceptor->loop->server);
    SSL_free(conn->ssl);
    free(conn);
    wr_acceptor_handle_closed(acceptor);
}

static void name_peer(struct wr_conn *conn)
{
    struct sockaddr_storage address;
    int len = sizeof address;
    struct wr_ip ip = {{[10] = 0xff, [11] = 0xff}};

    if (conn->acceptor->is_unix ||
        uv_tcp_getpeername(&conn->uv.tcp, (struct sockaddr *)&address, &len) != 0)
        return;
    if (address.ss_family == AF_INET)
        memcpy(ip.bytes + 12, &((struct sockaddr_in *)&address)->sin_addr, 4);
    else if (address.ss_family == AF_INET6)
        memcpy(ip.bytes, &((struct sockaddr_in6 *)&address)->sin6_addr, 16);
    else
        return;
    (void)wr_ip_format(&ip, conn->peer);
}

static void add(struct wr_conn *conn)
{
    struct wr_acceptor *acceptor = conn->acceptor;

    conn->next = acceptor->conns;
    if (conn->next != NULL)
        conn->next->previous = conn;
    acceptor->conns = conn;
    acceptor->connections++;
    wr_conn_count(&wr_conn_metrics(acceptor)->connections_opened);
}

static int accept_one(struct wr_conn *conn)
{
    struct wr_acceptor *acceptor = conn->acceptor;
    static const struct wr_tls_alpn none = {NULL, 0, false};

    if (uv_accept(&acceptor->uv.stream, &conn->uv.stream) != 0)
        return WEIR_EIO;
    conn->counted = wr_server_take_connection(acceptor->loop->server, acceptor->options.metrics);
    if (!conn->counted)
        return WEIR_EFULL;
    if (!acceptor->is_unix) {
        (void)uv_tcp_nodelay(&conn->uv.tcp, 1);
        (void)uv_tcp_keepalive(&conn->uv.tcp, 1, KEEPALIVE_S); /* who has vanished says no end */
    }
    if (acceptor->tls != NULL) {
        conn->ssl = wr_tls_begin(acceptor->tls, acceptor->alpn.len > 0 ? &acceptor->alpn : &none);
        if (conn->ssl == NULL)
            return WEIR_ENOMEM;
    }
    return 0;
}

static void on_connection(uv_stream_t *stream, int status)
{
    struct wr_acceptor *acceptor = stream->data;
    struct wr_conn *conn;

    if (status != 0 || acceptor->stopped)
        return;
    conn = calloc(1, sizeof *conn);
    if (conn == NULL)
        return; /* it stays in the kernel's queue */
    conn->acceptor = acceptor;
    wr_queued_init(&conn->queued);
    if ((acceptor->is_unix ? uv_pipe_init(&acceptor->loop->uv, &conn->uv.pipe, 0)
                           : uv_tcp_init(&acceptor->loop->uv, &conn->uv.tcp)) != 0) {
        free(conn);
        return;
    }
    conn->uv.stream.data = conn;
    acceptor->handles++;
    if (accept_one(conn) != 0) {
        uv_close((uv_handle_t *)&conn->uv.stream, on_refused_closed);
        return;
    }
    name_peer(conn);
    add(conn);
    wr_conn_begin(conn);
}

/* ---- open and close ---------------------------------------------------------------------- */

/* The door's own, or what the policy puts in their place. A door that never gives up half a message
 * has its own way to tell. */
static void set_deadlines(struct wr_acceptor *acceptor)
{
    struct wr_conn_limits *limits = &acceptor->options.limits;
    const struct wr_policy_settings *settings = wr_policy_settings(acceptor->loop->handle->policy);

    if (settings->idle_ns > 0)
        limits->idle_ns = settings->idle_ns;
    if (settings->stall_ns > 0) {
        limits->write_ns = settings->stall_ns;
        limits->handshake_ns = settings->stall_ns;
        limits->message_ns = limits->message_ns > 0 ? settings->stall_ns : 0;
    }
    acceptor->queues.queue[WR_WAIT_HANDSHAKE].after_ms = to_ms(limits->handshake_ns);
    acceptor->queues.queue[WR_WAIT_IDLE].after_ms = to_ms(limits->idle_ns);
    acceptor->queues.queue[WR_WAIT_MESSAGE].after_ms = to_ms(limits->message_ns);
    acceptor->queues.queue[WR_WAIT_WRITE].after_ms = to_ms(limits->write_ns);
    acceptor->queues.queue[WR_WAIT_LINGER].after_ms = LINGER_MS;
}

static void set_up(struct wr_acceptor *acceptor, struct wr_loop *loop,
                   const struct wr_listener *listener, const struct wr_acceptor_options *options)
{
    acceptor->loop = loop;
    acceptor->options = *options;
    acceptor->tls = listener->tls;
    acceptor->alpn = (struct wr_tls_alpn){options->alpn, options->alpn_len, options->alpn_needed};
    set_deadlines(acceptor);
    (void)uv_timer_init(&loop->uv, &acceptor->timer);
    (void)uv_timer_init(&loop->uv, &acceptor->grace);
    (void)uv_prepare_init(&loop->uv, &acceptor->prepare);
    acceptor->timer.data = acceptor;
    acceptor->grace.data = acceptor;
    acceptor->prepare.data = acceptor;
    acceptor->handles = 3;
    (void)uv_prepare_start(&acceptor->prepare, on_prepare);
}

static int start_listening(struct wr_acceptor *acceptor, int fd)
{
    int domain = 0, rc;
    socklen_t len = sizeof domain;

    (void)getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len);
    acceptor->is_unix = domain == AF_UNIX;
    rc = acceptor->is_unix ? uv_pipe_init(&acceptor->loop->uv, &acceptor->uv.pipe, 0)
                           : uv_tcp_init(&acceptor->loop->uv, &acceptor->uv.tcp);
    acceptor->uv.stream.data = acceptor;
    acceptor->handles++;
    if (rc == 0)
        rc = acceptor->is_unix ? uv_pipe_open(&acceptor->uv.pipe, fd)
                               : uv_tcp_open(&acceptor->uv.tcp, fd);
    if (rc != 0) {
        (void)close(fd);
        return WEIR_EIO;
    }
    return uv_listen(&acceptor->uv.stream, BACKLOG, on_connection) == 0 ? 0 : WEIR_EIO;
}

int wr_acceptor_open(struct wr_acceptor **out, struct wr_loop *loop, int fd,
                     const struct wr_listener *listener, const struct wr_acceptor_options *options)
{
    struct wr_acceptor *acceptor = calloc(1, sizeof *acceptor);
    int result;

    *out = NULL;
    if (acceptor == NULL) {
        (void)close(fd);
        return WEIR_ENOMEM;
    }
    set_up(acceptor, loop, listener, options);
    result = start_listening(acceptor, fd);
    if (result == 0)
        *out = acceptor;
    else
        wr_acceptor_close(acceptor);
    return result;
}

void wr_acceptor_stop(struct wr_acceptor *acceptor)
{
    if (acceptor->stopped)
        return;
    acceptor->stopped = true;
    uv_close((uv_handle_t *)&acceptor->uv.stream, on_own_closed);
}

unsigned wr_acceptor_connections(const struct wr_acceptor *acceptor)
{
    return acceptor->connections;
}

void wr_acceptor_each(struct wr_acceptor *acceptor,
                      void (*visit)(void *context, struct wr_conn *conn))
{
    /* Closing takes effect in the loop: the list stands still meanwhile. */
    for (struct wr_conn *conn = acceptor->conns; conn != NULL; conn = conn->next)
        if (conn->context != NULL && !conn->closing)
            visit(conn->context, conn);
}

void wr_acceptor_close(struct wr_acceptor *acceptor)
{
    if (acceptor->closed)
        return;
    acceptor->closed = true;
    wr_acceptor_stop(acceptor);
    for (struct wr_conn *conn = acceptor->conns; conn != NULL; conn = conn->next) {
        void *context = conn->context;
        conn->context = NULL;
        wr_conn_destroy(conn);
        if (context != NULL)
            acceptor->options.events->closed(context);
    }
    uv_close((uv_handle_t *)&acceptor->timer, on_own_closed);
    uv_close((uv_handle_t *)&acceptor->grace, on_own_closed);
    uv_close((uv_handle_t *)&acceptor->prepare, on_own_closed);
}
