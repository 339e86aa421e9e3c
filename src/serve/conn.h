/* conn.h - an accepted connection on a loop, in clear or under TLS, for doors that speak a stream
 * protocol of their own (RESP, gRPC). Bytes in, bytes out, deadlines; no protocol.
 *
 * Bounds, so that nobody holds anybody else up: unread input is at most |input_max|; once unsent
 * output passes |output_max| nothing more is read until it has drained, and when it does not drain
 * for |write_ns| the connection is closed; while all connections of the loop have more unsent than
 * the policy's unsent_max, one with any unsent output is not read; input that is begun and not
 * completed for |message_ns|, and silence for |idle_ns|, close it as well (0: never). A connection
 * that the other side has half closed is sent what is written, then closed. */
#ifndef WR_SERVE_CONN_H
#define WR_SERVE_CONN_H

#include "serve/serve.h"

struct wr_conn;

struct wr_conn_events {
    /* |len| bytes are waiting, from the first unread one. Returns how many were used up (the rest
     * comes again, with more behind it), or negative: send what is written, then close. Everything
     * written during the call leaves in one write after it. */
    int64_t (*read)(void *context, const uint8_t *bytes, size_t len);
    /* Output has drained; NULL: not wanted. */
    void (*drained)(void *context);
    /* Gone, whoever closed it; the last call for |context|. */
    void (*closed)(void *context);
};

struct wr_conn_limits {
    size_t input_max, output_max;
    int64_t idle_ns, write_ns, message_ns, handshake_ns;
};

/* Who is on the other side: address text, "" for a unix socket. */
const char *wr_conn_peer(const struct wr_conn *conn);

/* The subject of the verified client certificate (RFC 2253), or "". */
const char *wr_conn_subject(const struct wr_conn *conn);

/* The door's context for it, as accept() returned it. */
void *wr_conn_context(const struct wr_conn *conn);

/* Append to what is to be sent. Bytes are copied. Returns 0 or WEIR_EFULL (the connection is
 * closing). */
int wr_conn_write(struct wr_conn *conn, const void *bytes, size_t len);

/* Can anything be written? */
bool wr_conn_is_open(const struct wr_conn *conn);

/* Bytes that have come and were not used up. */
size_t wr_conn_unread(const struct wr_conn *conn);

/* Bytes written but not yet sent. */
size_t wr_conn_unsent(const struct wr_conn *conn);

/* Is so much unsent that it is not read before that has gone? Then read() is to return. */
bool wr_conn_is_full(const struct wr_conn *conn);

/* Send what was written outside of read() without waiting for the end of the turn. */
void wr_conn_flush(struct wr_conn *conn);

/* From within read(): the door waits for something of its own and uses nothing up until it says
 * wr_conn_again. What comes meanwhile is kept up to |input_max|, then nothing more is read; no
 * deadline runs but the door's. */
void wr_conn_stall(struct wr_conn *conn);

/* Offer the door its unread input again, which it left because it was not ready for it. Outside of
 * read(). */
void wr_conn_again(struct wr_conn *conn);

/* Send what is written, then close. */
void wr_conn_close(struct wr_conn *conn);

/* A listening socket of a loop and all its connections. |accept| is called for each new connection
 * (under TLS once the handshake is done) and returns its context (NULL: refuse). |alpn|: protocols
 * to offer under TLS, in wire format, or NULL; whoever asks for others is refused, and if
 * |alpn_needed| whoever asks for none. */
struct wr_acceptor;
struct wr_acceptor_options {
    void *(*accept)(void *door, struct wr_conn *conn);
    void *door;
    const struct wr_conn_events *events; /* borrowed */
    struct wr_conn_limits limits;
    enum wr_door_id metrics;
    const unsigned char *alpn;
    unsigned alpn_len;
    bool alpn_needed;
};
/* Owns |fd| from here on, and on errors closes it. Returns 0, WEIR_EIO, WEIR_ENOMEM. */
int wr_acceptor_open(struct wr_acceptor **out, struct wr_loop *loop, int fd,
                     const struct wr_listener *listener, const struct wr_acceptor_options *options);
void wr_acceptor_stop(struct wr_acceptor *acceptor); /* accept no more */
/* The same, and when who asks all the time has had the time to ask once more (which the door
 * answers as the last), call |end| for the context of every connection that is open still. What had
 * come by then was read before. */
void wr_acceptor_drain(struct wr_acceptor *acceptor,
                       void (*end)(void *context, struct wr_conn *conn));
unsigned wr_acceptor_connections(const struct wr_acceptor *acceptor);
/* Call |visit| for the context of every open connection. */
void wr_acceptor_each(struct wr_acceptor *acceptor,
                      void (*visit)(void *context, struct wr_conn *conn));
/* At once: closed() is called for each connection before it returns. */
void wr_acceptor_close(struct wr_acceptor *acceptor);

#endif
