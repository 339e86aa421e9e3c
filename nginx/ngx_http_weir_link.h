
/*
 * ngx_http_weir_link.h - a worker's connection to the daemon's unix socket:
 * bytes out, gathered over a turn of the event loop, and bytes in.
 *
 * Whoever has a link reads |in| in its read(), and is told by lost() that the
 * connection has ended; after that it is closed.  Nothing here blocks, and the
 * buffers do not grow.
 */


#ifndef _NGX_HTTP_WEIR_LINK_H_INCLUDED_
#define _NGX_HTTP_WEIR_LINK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>


#define NGX_HTTP_WEIR_LINK_OUT  (256 * 1024)    /* at least one ask */
#define NGX_HTTP_WEIR_LINK_IN   (32 * 1024)     /* at least one answer */


typedef struct ngx_http_weir_link_s  ngx_http_weir_link_t;

struct ngx_http_weir_link_s {
    ngx_connection_t           *connection;     /* NULL: none */
    void                       *data;           /* its owner's */

    /*
     * Takes what is whole out of |in|, and moves the rest to its begin.  Not
     * NGX_OK: it makes no sense.  May close the link.
     */

    ngx_int_t                 (*read)(ngx_http_weir_link_t *link);
    void                      (*lost)(ngx_http_weir_link_t *link);

    size_t                      out_pos;
    size_t                      out_last;
    size_t                      in_last;
    u_char                      out[NGX_HTTP_WEIR_LINK_OUT];
    u_char                      in[NGX_HTTP_WEIR_LINK_IN];
};


/* Not NGX_OK: ngx_socket_errno says why */
ngx_int_t ngx_http_weir_link_open(ngx_http_weir_link_t *link, const char *path);

/* Where to write at most |room| bytes, which are sent once they are posted */
u_char *ngx_http_weir_link_room(ngx_http_weir_link_t *link, size_t *room);
void ngx_http_weir_link_post(ngx_http_weir_link_t *link, size_t n);

/* With |flush|, what is posted is sent first, as far as it can be at once */
void ngx_http_weir_link_close(ngx_http_weir_link_t *link, ngx_uint_t flush);


#endif /* _NGX_HTTP_WEIR_LINK_H_INCLUDED_ */
