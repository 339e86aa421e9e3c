/* conn.c - one connection: bytes in, its pauses, its end; bytes out are conn_send.c's.
 *
 * Problem. A daemon with many idle connections must not pay memory for each, and one with busy ones
 * must not pay a copy or a system call for each message.
 *
 * Idea. Input is read into the acceptor's one buffer and handed to the door from there; only what
 * the door does not use up is kept. So an idle connection holds no buffer. TLS stands between by
 * OpenSSL's memory BIOs.
 *
 * Invariants:
 *   1. The door is never called from within its own call: read() is not entered twice, and closed()
 *      comes from the loop, or from wr_acceptor_close.
 *   2. After closed() nothing of the door is touched. */
#include "serve/conn.h"

#include <sys/socket.h>

#include <openssl/err.h>

#include "serve/connection.h"

/* ---- what the door asks for ---------------------------------------------------------------- */

void wr_conn_flush(struct wr_conn *conn)
{
    if (!conn->in_read && !conn->doomed)
        wr_conn_progress(conn);
}

void wr_conn_close(struct wr_conn *conn)
{
    if (conn->closing)
        return;
    conn->closing = true;
    if (!conn->in_read)
        wr_conn_progress(conn);
}

/* ---- input ------------------------------------------------------------------------------- */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct wr_conn *conn = handle->data;

    (void)suggested;
    *buf = uv_buf_init((char *)conn->acceptor->scratch, sizeof conn->acceptor->scratch);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf);
static void read_on(struct wr_conn *conn);

/* Keep the |len| bytes at |rest|, which may lie in conn->in. */
static bool keep(struct wr_conn *conn, const uint8_t *rest, size_t len)
{
    if (len == 0) {
        wr_bytes_free(&conn->in);
        return true;
    }
    if (conn->in.bytes != NULL) {
        conn->in.start = (size_t)(rest - conn->in.bytes);
        return true;
    }
    return wr_bytes_append(&conn->in, rest, len);
}

static void pause_reading(struct wr_conn *conn)
{
    /* Who waits for the door's own is read on: it may be the one that others wait for. */
    if (conn->paused || conn->stalled || !wr_conn_is_full(conn))
        return;
    conn->paused = true;
    (void)uv_read_stop(&conn->uv.stream);
}

/* Read no more until the door goes on. */
static void fill_up(struct wr_conn *conn)
{
    if (!conn->full && !conn->paused)
        (void)uv_read_stop(&conn->uv.stream);
    conn->full = true;
}

/* What the door has not used up is kept: how much of it may there be, and for how long? */
static void watch_input(struct wr_conn *conn, bool moved)
{
    struct wr_acceptor *acceptor = conn->acceptor;
    bool too_much = wr_bytes_held(&conn->in) > acceptor->options.limits.input_max;

    if (too_much && conn->stalled) {
        fill_up(conn);
    } else if (too_much && !conn->paused) {
        wr_conn_refused(conn, "input without an end");
        conn->closing = true;
    } else if (wr_bytes_held(&conn->in) == 0 || conn->stalled) {
        wr_conn_wait(conn, WR_WAIT_IDLE);
    } else if (moved || conn->queued.queue != WR_WAIT_MESSAGE) {
        wr_conn_wait(conn, WR_WAIT_MESSAGE);
    }
}

/* Give the door what is unread, with the |len| bytes at |bytes| behind it. */
static void deliver(struct wr_conn *conn, const uint8_t *bytes, size_t len)
{
    struct wr_acceptor *acceptor = conn->acceptor;
    int64_t used;

    if (conn->in.bytes != NULL) {
        wr_bytes_settle(&conn->in);
        if (len > 0 && !wr_bytes_append(&conn->in, bytes, len)) {
            wr_conn_destroy(conn);
            return;
        }
        bytes = conn->in.bytes;
        len = conn->in.end;
    }
    conn->in_read = true;
    used = acceptor->options.events->read(conn->context, bytes, len);
    conn->in_read = false;
    if (conn->doomed)
        return;
    if (used < 0 || conn->closing) {
        conn->closing = true;
        wr_bytes_free(&conn->in);
        return;
    }
    pause_reading(conn);
    if (keep(conn, bytes + used, len - (size_t)used))
        watch_input(conn, used > 0);
    else
        wr_conn_destroy(conn);
}

void wr_conn_stall(struct wr_conn *conn)
{
    conn->stalled = true;
}

void wr_conn_again(struct wr_conn *conn)
{
    conn->stalled = false;
    if (conn->in_read || conn->doomed || conn->closing)
        return;
    if (!conn->paused && wr_bytes_held(&conn->in) > 0)
        deliver(conn, NULL, 0);
    if (!conn->stalled && conn->ended)
        conn->closing = true;
    if (!conn->stalled && conn->full)
        read_on(conn);
    wr_conn_progress(conn);
}

/* The door takes it over, or not. */
static bool establish(struct wr_conn *conn)
{
    struct wr_acceptor *acceptor = conn->acceptor;

    if (conn->ssl != NULL)
        conn->subject = wr_tls_subject(conn->ssl);
    conn->context = acceptor->options.accept(acceptor->options.door, conn);
    if (conn->context == NULL) {
        wr_conn_destroy(conn);
        return false;
    }
    if (!conn->doomed)
        wr_conn_wait(conn, WR_WAIT_IDLE);
    return !conn->doomed;
}

static bool shake_hands(struct wr_conn *conn)
{
    int n;

    ERR_clear_error();
    n = SSL_do_handshake(conn->ssl);
    if (n == 1 && wr_tls_agreed(conn->ssl))
        return establish(conn);
    if (SSL_get_error(conn->ssl, n) != SSL_ERROR_WANT_READ) {
        const char *reason = ERR_reason_error_string(ERR_peek_error());
        wr_conn_refused(conn, reason != NULL ? reason : "TLS: no handshake");
        conn->closing = true; /* the alert is sent first */
    }
    return false;
}

/* Open what has come in under TLS, record by record. */
static void unseal(struct wr_conn *conn)
{
    struct wr_acceptor *acceptor = conn->acceptor;

    if (conn->context == NULL && !shake_hands(conn))
        return;
    while (!conn->closing && !conn->paused && !conn->full) {
        int n;

        ERR_clear_error();
        n = SSL_read(conn->ssl, acceptor->plain, sizeof acceptor->plain);
        if (n > 0) {
            deliver(conn, acceptor->plain, (size_t)n);
            continue;
        }
        if (SSL_get_error(conn->ssl, n) != SSL_ERROR_WANT_READ)
            conn->closing = true; /* close_notify, or nonsense */
        return;
    }
}

/* Take in |len| bytes as they came. False: the connection is of no use any more. */
static bool take_in(struct wr_conn *conn, const char *bytes, size_t len)
{
    if (conn->ssl == NULL) {
        deliver(conn, (const uint8_t *)bytes, len);
        return true;
    }
    if (BIO_write(SSL_get_rbio(conn->ssl), bytes, (int)len) != (int)len)
        return false;
    unseal(conn);
    return true;
}

void wr_conn_arrive(struct wr_conn *conn, ssize_t n, const char *bytes)
{
    if (n == UV_EOF) {
        conn->ended = true;
        conn->closing = !conn->stalled; /* it is answered first */
    } else if (n > 0 && conn->closing) {
        return; /* of no interest any more; the queue of deadlines ends it */
    } else if (n < 0 || (n > 0 && !take_in(conn, bytes, (size_t)n))) {
        wr_conn_destroy(conn);
    }
    wr_conn_progress(conn);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    wr_conn_arrive(stream->data, n, buf->base);
}

/* ---- together ---------------------------------------------------------------------------- */

/* All is sent: say so, and give the other side a moment to read it and close. Closing at once would
 * make the kernel answer unread input with a reset, which can overtake what was sent. */
static void linger(struct wr_conn *conn)
{
    uv_os_fd_t fd;

    if (conn->ended) {
        wr_conn_destroy(conn);
        return;
    }
    if (conn->lingering)
        return;
    conn->lingering = true;
    if (conn->ssl != NULL && conn->context != NULL) {
        ERR_clear_error();
        (void)SSL_shutdown(conn->ssl);
        wr_conn_send(conn);
        if (conn->doomed)
            return;
    }
    if (conn->sending == NULL && uv_fileno((uv_handle_t *)&conn->uv.stream, &fd) == 0)
        (void)shutdown(fd, SHUT_WR);
    wr_conn_wait(conn, WR_WAIT_LINGER);
    if (conn->paused || conn->full)
        (void)uv_read_start(&conn->uv.stream, on_alloc, on_read);
    conn->paused = conn->full = false;
}

/* The door has gone on after too much had come. */
static void read_on(struct wr_conn *conn)
{
    conn->full = false;
    if (conn->paused || conn->closing || conn->ended || conn->doomed)
        return;
    if (uv_read_start(&conn->uv.stream, on_alloc, on_read) != 0)
        wr_conn_destroy(conn);
    else if (conn->ssl != NULL)
        unseal(conn);
}

/* Read on after a pause: first what was left unread. */
static void resume(struct wr_conn *conn)
{
    conn->paused = false;
    if (!conn->full && uv_read_start(&conn->uv.stream, on_alloc, on_read) != 0) {
        wr_conn_destroy(conn);
        return;
    }
    if (wr_bytes_held(&conn->in) > 0)
        deliver(conn, NULL, 0);
    if (!conn->closing && conn->ssl != NULL && !conn->full)
        unseal(conn);
}

void wr_conn_progress(struct wr_conn *conn)
{
    wr_conn_send(conn);
    while (conn->paused && !conn->closing && wr_conn_unsent(conn) == 0) {
        resume(conn);
        wr_conn_send(conn);
    }
    if (conn->doomed)
        return;
    if (wr_conn_unsent(conn) == 0 && conn->sending == NULL) {
        if (conn->queued.queue == WR_WAIT_WRITE || conn->queued.queue < 0)
            wr_conn_wait(conn, wr_bytes_held(&conn->in) > 0 ? WR_WAIT_MESSAGE : WR_WAIT_IDLE);
        if (conn->closing)
            linger(conn);
    } else if (!conn->closing) {
        pause_reading(conn);
    }
}

void wr_conn_wait(struct wr_conn *conn, unsigned queue)
{
    struct wr_acceptor *acceptor = conn->acceptor;
    uint64_t now = uv_now(&acceptor->loop->uv);

    /* A write that is not taken outweighs what else is waited for. */
    if (conn->sending != NULL && queue != WR_WAIT_WRITE && queue != WR_WAIT_LINGER)
        return;
    wr_queue_wait(&acceptor->queues, &conn->queued, queue, now);
}

void wr_conn_begin(struct wr_conn *conn)
{
    conn->uv.stream.data = conn;
    if (uv_read_start(&conn->uv.stream, on_alloc, on_read) != 0)
        wr_conn_destroy(conn);
    else if (conn->ssl != NULL)
        wr_conn_wait(conn, WR_WAIT_HANDSHAKE);
    else
        (void)establish(conn);
    if (!conn->doomed)
        wr_conn_progress(conn); /* a greeting */
}
