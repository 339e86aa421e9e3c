/* connection.h - what conn*.c and acceptor.c share of a connection. Internal. */
#ifndef WR_SERVE_CONNECTION_H
#define WR_SERVE_CONNECTION_H

#include <openssl/ssl.h>

#include "base/ipaddr.h"
#include "serve/bytes.h"
#include "serve/conn.h"
#include "serve/queue.h"
#include "serve/tls.h"

#define WR_CONN_SCRATCH 65536U /* bytes read at once, shared by all connections of an acceptor */

/* A write that the kernel did not take at once. */
struct wr_sending {
    uv_write_t request;
    struct wr_conn *conn;
    struct wr_bytes bytes;
};

struct wr_conn {
    union {
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } uv;
    struct wr_acceptor *acceptor;
    void *context;           /* of the door; NULL before it is established and after closed() */
    SSL *ssl;                /* NULL: in clear */
    struct wr_queued queued; /* its one deadline */
    struct wr_conn *previous, *next; /* all of the acceptor */
    struct wr_conn *next_dirty;      /* written to outside of read() */
    struct wr_bytes in;              /* unread */
    struct wr_bytes out;             /* unsent, of |context| */
    struct wr_sending *sending;      /* out of our hands; NULL: nothing */
    size_t counted_bytes;            /* of the loop's unsent_bytes */
    char *subject;                   /* of the client certificate; NULL: none */
    bool in_read;                    /* the door is being called */
    bool dirty;
    bool paused;    /* not reading: too much is unsent */
    bool stalled;   /* the door waits for something of its own */
    bool full;      /* not reading: too much has come meanwhile */
    bool closing;   /* what is written goes out, nothing more is read */
    bool lingering; /* all is sent, the other side is to close */
    bool ended;     /* the other side has sent its last byte */
    bool doomed;    /* uv_close was called */
    bool counted;   /* among the server's */
    char peer[WR_IP_TEXT_MAX];
};

struct wr_acceptor {
    union {
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } uv;
    struct wr_loop *loop;
    struct wr_acceptor_options options;
    struct wr_tls *tls;
    struct wr_tls_alpn alpn;
    bool is_unix;
    bool stopped; /* the listening socket is closed, or closing */
    bool closed;
    unsigned handles; /* of libuv, not closed yet; the last one frees */
    unsigned connections;
    struct wr_conn *conns, *dirty;
    struct wr_queues queues;
    uv_timer_t timer;
    uv_timer_t grace;                                 /* of a drain */
    void (*end)(void *context, struct wr_conn *conn); /* when it is over */
    uv_prepare_t prepare;
    struct wr_bytes spare; /* an empty buffer for the next output */
    uint8_t scratch[WR_CONN_SCRATCH];
    uint8_t plain[WR_CONN_SCRATCH / 4]; /* a record of TLS */
};

/* A connection's deadlines, one at a time. */
enum { WR_WAIT_HANDSHAKE, WR_WAIT_IDLE, WR_WAIT_MESSAGE, WR_WAIT_WRITE, WR_WAIT_LINGER };

/* conn.c: a connection that is accepted: its input is read from here on. */
void wr_conn_begin(struct wr_conn *conn);
/* After anything has happened: send, pause or resume reading, end. */
void wr_conn_progress(struct wr_conn *conn);
/* conn_send.c: send what there is, unless the kernel still has its hands full. */
void wr_conn_send(struct wr_conn *conn);
/* Close it now; closed() comes when libuv is done with it. */
void wr_conn_destroy(struct wr_conn *conn);
void wr_conn_wait(struct wr_conn *conn, unsigned queue);
/* Take in |n| bytes as they came, at acceptor->scratch, or UV_EOF, or an error of libuv. */
void wr_conn_arrive(struct wr_conn *conn, ssize_t n, const char *bytes);

/* conn_end.c: count, and tell of, input that was refused because of |reason|. */
void wr_conn_refused(struct wr_conn *conn, const char *reason);
/* conn_end.c: count the memory of its output. */
void wr_conn_weigh(struct wr_conn *conn);

/* acceptor.c: a handle of libuv is gone. */
void wr_acceptor_handle_closed(struct wr_acceptor *acceptor);

/* Only this thread writes, any may read. */
static inline void wr_conn_count(uint64_t *counter)
{
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}

static inline struct wr_door_metrics *wr_conn_metrics(const struct wr_acceptor *acceptor)
{
    return &acceptor->loop->metrics.door[acceptor->options.metrics];
}

#endif
