/* grpc_session.h - one connection that speaks gRPC: bytes in, calls out, bytes out. No I/O, no
 * clock; what calls mean is the door's.
 *
 * Bounds: WR_GRPC_MESSAGE_MAX of a message, WR_GRPC_STREAMS_MAX calls at once, WR_GRPC_BUFFER_MAX
 * bytes of unfinished ones, a budget of frames that ask for work and bring none. */
#ifndef WR_SERVE_GRPC_SESSION_H
#define WR_SERVE_GRPC_SESSION_H

#include "wire/grpc.h"

#define WR_GRPC_MESSAGE_MAX ((size_t)64 << 10)
#define WR_GRPC_STREAMS_MAX 1000
#define WR_GRPC_BUFFER_MAX ((size_t)1 << 20)
#define WR_GRPC_HEADERS_MAX ((size_t)16 << 10) /* names and values of one request */

struct wr_grpc;

/* What a call is answered with. |message| and |bytes| need live only until call() is called again.
 */
struct wr_grpc_reply {
    enum wr_grpc_code code;
    const char *message; /* of an error */
    const uint8_t *bytes;
    size_t len;
};

struct wr_grpc_events {
    /* |path| was called with the |len| bytes of one message. */
    void (*call)(void *context, struct weir_slice path, const uint8_t *bytes, size_t len,
                 struct wr_grpc_reply *reply);
    /* Is there such a method? Asked before the message is there. */
    bool (*knows)(void *context, struct weir_slice path);
    /* Something that is no call, or one that was refused before it was whole. */
    void (*bad)(void *context);
    /* Append to what is sent; returns less than 0 when that is over. */
    int (*write)(void *context, const void *bytes, size_t len);
};

/* NULL: out of memory. Writes the server's preface. |events| is borrowed. */
struct wr_grpc *wr_grpc_new(const struct wr_grpc_events *events, void *context, int64_t now_ns);
void wr_grpc_free(struct wr_grpc *grpc);

/* Take |len| bytes in and answer. Returns 0, or less: send what is written, then close. */
int wr_grpc_read(struct wr_grpc *grpc, const uint8_t *bytes, size_t len, int64_t now_ns);

/* Take no new calls, answer those that are there: GOAWAY, at once with the highest number, and with
 * the true one when the other side has heard of it. Returns as wr_grpc_read. */
int wr_grpc_drain(struct wr_grpc *grpc);

#endif
