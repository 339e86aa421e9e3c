/* conn_send.c - what a connection sends.
 *
 * Problem. Many small answers must not cost a system call each, nor a busy connection a copy more
 * than one, nor an idle one a buffer.
 *
 * Idea. Output of one turn collects in the acceptor's spare buffer and leaves by one write; only
 * what the kernel does not take is kept, and its write is libuv's then. Under TLS it is sealed into
 * records on its way.
 *
 * Invariants:
 *   1. At most one write is out of our hands (conn->sending); what is written meanwhile waits.
 *   2. When the kernel takes no more the connection's deadline is that of a write. */
#include "serve/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <openssl/err.h>

#include "serve/connection.h"

#define KEEP_BYTES (256U << 10) /* a spare buffer larger than this is freed */

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
    wr_conn_progress(conn);
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

void wr_conn_send(struct wr_conn *conn)
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
