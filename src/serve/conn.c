/* conn.c - one connection: bytes in, bytes out, its end.
 *
 * Problem. A daemon with many idle connections must not pay memory for each, and one with busy ones
 * must not pay a copy or a system call for each message.
 *
 * Idea. Input is read into the acceptor's one buffer and handed to the door from there; only what
 * the door does not use up is kept. Output of one turn collects in a spare buffer and leaves by one
 * write; only what the kernel does not take is kept. So an idle connection holds no buffer, and a
 * busy one copies its output once. TLS stands between by OpenSSL's memory BIOs.
 *
 * Invariants:
 *   1. The door is never called from within its own call: read() is not entered twice, and closed()
 *      comes from the loop, or from wr_acceptor_close.
 *   2. After closed() nothing of the door is touched. */
#include "serve/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/err.h>

#include "serve/connection.h"

#define KEEP_BYTES (256U << 10) /* a spare buffer larger than this is freed */

/* ---- buffers ----------------------------------------------------------------------------- */

/* Give an empty buffer to the acceptor, for the next output. */
static void recycle(struct wr_acceptor *acceptor, struct wr_bytes *bytes)
{
    if (acceptor->spare.bytes == NULL && bytes->room <= KEEP_BYTES) {
        acceptor->spare = *bytes;
        acceptor->spare.start = acceptor->spare.end = 0;
        *bytes = (struct wr_bytes){0};
    } else {
        wr_bytes_free(bytes);
    }
}

/* ---- output ------------------------------------------------------------------------------ */

static void progress(struct wr_conn *conn);

static void on_written(uv_write_t *request, int status)
{
    struct wr_sending *sending = request->data;
    struct wr_conn *conn = sending->conn;

    conn->sending = NULL;
    recycle(conn->acceptor, &sending->bytes);
    free(sending);
    wr_conn_weigh(conn);
    if (conn->doomed)
        return;
    if (status < 0) {
        wr_conn_destroy(conn);
        return;
    }
    if (wr_bytes_held(&conn->out) == 0 && !conn->closing &&
        conn->acceptor->options.events->drained != NULL)
        conn->acceptor->options.events->drained(conn->context);
    progress(conn);
}

/* How many of |bytes| the kernel takes at once; less than 0: none ever. Nothing of libuv's is
 * before them. Its uv_try_write calls write(2), which takes a file's locks on the way to the
 * socket. */
static ssize_t send_now(struct wr_conn *conn, const struct wr_bytes *bytes)
{
    uv_os_fd_t fd;
    ssize_t n;

    if (uv_fileno((uv_handle_t *)&conn->uv.stream, &fd) != 0)
        return -1;
    do
        n = send(fd, bytes->bytes + bytes->start, wr_bytes_held(bytes), MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 && (errno == EAGAIN || errno == ENOBUFS) ? 0 : n;
}

/* Hand |bytes| to the kernel; they are gone from it afterwards. */
static bool send_bytes(struct wr_conn *conn, struct wr_bytes *bytes)
{
    ssize_t n = send_now(conn, bytes);
    struct wr_sending *sending;
    uv_buf_t buf;

    if (n < 0)
        return false;
    bytes->start += (size_t)n;
    if (wr_bytes_held(bytes) == 0) {
        recycle(conn->acceptor, bytes);
        return true;
    }
    sending = calloc(1, sizeof *sending);
    if (sending == NULL)
        return false;
    sending->conn = conn;
    sending->bytes = *bytes;
    sending->request.data = sending;
    *bytes = (struct wr_bytes){0};
    buf = uv_buf_init((char *)sending->bytes.bytes + sending->bytes.start,
                      (unsigned)wr_bytes_held(&sending->bytes));
    if (uv_write(&sending->request, &conn->uv.stream, &buf, 1, on_written) != 0) {
        wr_bytes_free(&sending->bytes);
        free(sending);
        return false;
    }
    conn->sending = sending;
    wr_conn_wait(conn, WR_WAIT_WRITE);
    return true;
}

/* Seal what is unsent into records, and send all that TLS has to say. */
static bool send_sealed(struct wr_conn *conn)
{
    struct wr_bytes sealed = conn->acceptor->spare;
    int n;

    conn->acceptor->spare = (struct wr_bytes){0};
    ERR_clear_error();
    if (wr_bytes_held(&conn->out) > 0) {
        n = SSL_write(conn->ssl, conn->out.bytes + conn->out.start, (int)wr_bytes_held(&conn->out));
        wr_bytes_free(&conn->out);
        if (n <= 0) {
            wr_bytes_free(&sealed);
            return false;
        }
    }
    while (BIO_ctrl_pending(SSL_get_wbio(conn->ssl)) > 0) {
        uint8_t piece[4096];
        n = BIO_read(SSL_get_wbio(conn->ssl), piece, sizeof piece);
        if (n <= 0 || !wr_bytes_append(&sealed, piece, (size_t)n)) {
            wr_bytes_free(&sealed);
            return false;
        }
    }
    if (wr_bytes_held(&sealed) > 0)
        return send_bytes(conn, &sealed);
    recycle(conn->acceptor, &sealed);
    return true;
}

/* Send what there is, unless the kernel still has its hands full. */
static void flush(struct wr_conn *conn)
{
    bool good = true;

    if (conn->doomed || conn->sending != NULL)
        return;
    if (conn->ssl != NULL)
        good = send_sealed(conn);
    else if (wr_bytes_held(&conn->out) > 0)
        good = send_bytes(conn, &conn->out);
    wr_conn_weigh(conn);
    if (!good)
        wr_conn_destroy(conn);
}

int wr_conn_write(struct wr_conn *conn, const void *bytes, size_t len)
{
    struct wr_acceptor *acceptor = conn->acceptor;

    if (conn->closing)
        return WEIR_EFULL;
    if (conn->out.bytes == NULL) {
        conn->out = acceptor->spare;
        acceptor->spare = (struct wr_bytes){0};
    }
    if (!wr_bytes_append(&conn->out, bytes, len)) {
        wr_conn_destroy(conn);
        return WEIR_EFULL;
    }
    wr_conn_weigh(conn);
    if (!conn->in_read && !conn->dirty) {
        conn->dirty = true;
        conn->next_dirty = acceptor->dirty;
        acceptor->dirty = conn;
    }
    return 0;
}

void wr_conn_flush(struct wr_conn *conn)
{
    if (!conn->in_read && !conn->doomed)
        progress(conn);
}

void wr_conn_close(struct wr_conn *conn)
{
    if (conn->closing)
        return;
    conn->closing = true;
    if (!conn->in_read)
        progress(conn);
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
    progress(conn);
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
    progress(conn);
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
        flush(conn);
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

/* After anything has happened: send, pause or resume, end. */
static void progress(struct wr_conn *conn)
{
    flush(conn);
    while (conn->paused && !conn->closing && wr_conn_unsent(conn) == 0) {
        resume(conn);
        flush(conn);
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
        progress(conn); /* a greeting */
}
