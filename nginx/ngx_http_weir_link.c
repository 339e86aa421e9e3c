
/*
 * ngx_http_weir_link.c - a connection to the daemon, on nginx's own events.
 *
 * Invariants:
 *   1. Connecting to a unix socket succeeds at once or not at all.
 *   2. What the daemon does not read stays in a buffer that does not grow;
 *      what does not fit in is not posted.
 */


#include <weir/weir.h>

#include "ngx_http_weir_link.h"


static void ngx_http_weir_link_write_handler(ngx_event_t *wev);
static ngx_int_t ngx_http_weir_link_send(ngx_http_weir_link_t *link);
static void ngx_http_weir_link_read_handler(ngx_event_t *rev);


/*
 * Not by ngx_event_connect_peer(), which logs each failure.  A unix socket is
 * connected at once, or not at all: EAGAIN says that its queue is full.
 */

ngx_int_t
ngx_http_weir_link_open(ngx_http_weir_link_t *link, const char *path)
{
    size_t               len;
    ngx_err_t            err;
    ngx_int_t            rc;
    ngx_socket_t         s;
    struct sockaddr_un   sun;
    ngx_connection_t    *c;

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

    c->data = link;
    c->recv = ngx_recv;
    c->send = ngx_send;
    c->log_error = NGX_ERROR_INFO;
    c->number = ngx_atomic_fetch_add(ngx_connection_counter, 1);

    c->read->log = c->log;
    c->read->handler = ngx_http_weir_link_read_handler;
    c->write->log = c->log;
    c->write->handler = ngx_http_weir_link_write_handler;
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

    link->connection = c;
    link->out_pos = 0;
    link->out_last = 0;
    link->in_last = 0;

    return NGX_OK;

failed:

    err = ngx_socket_errno;

    (void) ngx_close_socket(s);

    ngx_set_socket_errno(err);

    return NGX_ERROR;
}


u_char *
ngx_http_weir_link_room(ngx_http_weir_link_t *link, size_t *room)
{
    if (link->out_pos
        && NGX_HTTP_WEIR_LINK_OUT - link->out_last < WEIR_ASK_BYTES)
    {
        link->out_last -= link->out_pos;
        ngx_memmove(link->out, link->out + link->out_pos, link->out_last);
        link->out_pos = 0;
    }

    *room = NGX_HTTP_WEIR_LINK_OUT - link->out_last;

    return link->out + link->out_last;
}


/* All that is posted in a turn of the event loop leaves at its end */

void
ngx_http_weir_link_post(ngx_http_weir_link_t *link, size_t n)
{
    link->out_last += n;

    ngx_post_event(link->connection->write, &ngx_posted_events);
}


void
ngx_http_weir_link_close(ngx_http_weir_link_t *link, ngx_uint_t flush)
{
    ngx_connection_t  *c;

    c = link->connection;

    if (c == NULL) {
        return;
    }

    if (flush) {
        (void) ngx_http_weir_link_send(link);
    }

    link->connection = NULL;

    ngx_close_connection(c);
}


static void
ngx_http_weir_link_write_handler(ngx_event_t *wev)
{
    ngx_connection_t      *c;
    ngx_http_weir_link_t  *link;

    c = wev->data;
    link = c->data;

    if (ngx_http_weir_link_send(link) != NGX_OK
        || ngx_handle_write_event(wev, 0) != NGX_OK)
    {
        link->lost(link);
    }
}


static ngx_int_t
ngx_http_weir_link_send(ngx_http_weir_link_t *link)
{
    ssize_t            n;
    ngx_connection_t  *c;

    c = link->connection;

    while (link->out_pos < link->out_last) {

        n = c->send(c, link->out + link->out_pos,
                    link->out_last - link->out_pos);

        if (n == NGX_AGAIN) {
            return NGX_OK;
        }

        if (n <= 0) {
            return NGX_ERROR;
        }

        link->out_pos += n;
    }

    link->out_pos = 0;
    link->out_last = 0;

    return NGX_OK;
}


static void
ngx_http_weir_link_read_handler(ngx_event_t *rev)
{
    ssize_t                n;
    ngx_int_t              rc;
    ngx_connection_t      *c;
    ngx_http_weir_link_t  *link;

    c = rev->data;
    link = c->data;

    for ( ;; ) {

        n = c->recv(c, link->in + link->in_last,
                    NGX_HTTP_WEIR_LINK_IN - link->in_last);

        if (n == NGX_AGAIN) {
            break;
        }

        if (n <= 0) {
            link->lost(link);
            return;
        }

        link->in_last += n;

        rc = link->read(link);

        if (link->connection != c) {
            return;
        }

        if (rc != NGX_OK) {
            link->lost(link);
            return;
        }
    }

    if (ngx_handle_read_event(rev, 0) != NGX_OK) {
        link->lost(link);
    }
}
