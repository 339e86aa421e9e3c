/* conn_end.c - what can be seen of a connection, and its end: once, from the loop, whoever closes
 * it.
 */
#include <stdlib.h>
#include <string.h>

#include <openssl/ssl.h>

#include "serve/bad_input.h"
#include "serve/connection.h"

/* ---- looking ----------------------------------------------------------------------------- */

const char *wr_conn_peer(const struct wr_conn *conn)
{
    return conn->peer;
}

const char *wr_conn_subject(const struct wr_conn *conn)
{
    return conn->subject != NULL ? conn->subject : "";
}

void *wr_conn_context(const struct wr_conn *conn)
{
    return conn->context;
}

bool wr_conn_is_open(const struct wr_conn *conn)
{
    return !conn->closing;
}

size_t wr_conn_unsent(const struct wr_conn *conn)
{
    return wr_bytes_held(&conn->out) +
           (conn->sending != NULL ? wr_bytes_held(&conn->sending->bytes) : 0);
}

size_t wr_conn_unread(const struct wr_conn *conn)
{
    return wr_bytes_held(&conn->in);
}

bool wr_conn_is_full(const struct wr_conn *conn)
{
    size_t unsent = wr_conn_unsent(conn);

    return unsent > conn->acceptor->options.limits.output_max ||
           (unsent > 0 && wr_loop_crowded(conn->acceptor->loop, 0));
}

void wr_conn_refused(struct wr_conn *conn, const char *reason)
{
    wr_conn_count(&wr_conn_metrics(conn->acceptor)->bad_requests);
    wr_bad_input(conn->acceptor->loop, conn->acceptor->options.metrics, conn->peer,
                 (struct weir_slice){reason, strlen(reason)});
}

void wr_conn_weigh(struct wr_conn *conn)
{
    size_t now = conn->out.room + (conn->sending != NULL ? conn->sending->bytes.room : 0);

    conn->acceptor->loop->unsent_bytes += (uint64_t)now - conn->counted_bytes;
    conn->counted_bytes = now;
}

/* ---- the end ----------------------------------------------------------------------------- */

static void forget_dirty(struct wr_conn *conn)
{
    struct wr_conn **at = &conn->acceptor->dirty;

    while (*at != conn)
        at = &(*at)->next_dirty;
    *at = conn->next_dirty;
}

static void on_closed(uv_handle_t *handle)
{
    struct wr_conn *conn = handle->data;
    struct wr_acceptor *acceptor = conn->acceptor;

    if (conn->context != NULL)
        acceptor->options.events->closed(conn->context);
    if (conn->previous != NULL)
        conn->previous->next = conn->next;
    else
        acceptor->conns = conn->next;
    if (conn->next != NULL)
        conn->next->previous = conn->previous;
    if (conn->dirty)
        forget_dirty(conn);
    acceptor->connections--;
    wr_server_leave_connection(acceptor->loop->server);
    wr_conn_count(&wr_conn_metrics(acceptor)->connections_closed);
    SSL_free(conn->ssl);
    wr_bytes_free(&conn->in);
    wr_bytes_free(&conn->out);
    wr_conn_weigh(conn);
    free(conn->subject);
    free(conn);
    wr_acceptor_handle_closed(acceptor);
}

void wr_conn_destroy(struct wr_conn *conn)
{
    if (conn->doomed)
        return;
    conn->doomed = true;
    conn->closing = true;
    wr_queue_leave(&conn->acceptor->queues, &conn->queued);
    uv_close((uv_handle_t *)&conn->uv.stream, on_closed);
}
