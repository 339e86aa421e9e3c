/* grpc_session.h - one connection that speaks gRPC: bytes in, calls out, bytes out. No I/O, no
 * clock; what calls mean is the door's.
 *
 * Bounds: WR_GRPC_MESSAGE_MAX of a message, WR_GRPC_STREAMS_MAX calls at once, WR_GRPC_BUFFER_MAX
 * bytes of unfinished ones, a budget of frames that ask for work and bring none. */
#ifndef WR_DOORS_GRPC_SESSION_H
#define WR_DOORS_GRPC_SESSION_H

#include "base/units.h"
#include "wire/grpc.h"

#define WR_GRPC_MESSAGE_MAX ((size_t)64 << 10)
#define WR_GRPC_STREAMS_MAX 1000
#define WR_GRPC_BUFFER_MAX ((size_t)1 << 20)
#define WR_GRPC_HEADERS_MAX ((size_t)16 << 10) /* names and values of one request */
#define WR_GRPC_GREETING_NS (10 * WR_NS_PER_S) /* for the client's preface */
#define WR_GRPC_QUESTION_NS (30 * WR_NS_PER_S) /* from a call's begin to its end */
#define WR_GRPC_ANSWER_NS (10 * WR_NS_PER_S)   /* until the answer has been let through */

struct wr_grpc;

/* What a call is answered with. |message| and |bytes| need live only until call() is called again.
 */
struct wr_grpc_reply {
    enum wr_grpc_code code;
    const char *message; /* of an error */
    const uint8_t *bytes;
    size_t len;
};

/* A call: a method, as find() returned it, and the |len| bytes of one message. */
struct wr_grpc_stream;
struct wr_grpc_call {
    const void *method;
    const uint8_t *bytes;
    size_t len;
    struct wr_grpc_stream *stream; /* for wr_grpc_resume */
    void **kept;                   /* the door's own, of this call; NULL at first */
};

struct wr_grpc_events {
    /* Answer |call|. False: not yet; it is called again for it by wr_grpc_resume. */
    bool (*call)(void *context, const struct wr_grpc_call *call, struct wr_grpc_reply *reply);
    /* A call is over, answered or not, that the door has kept something of. */
    void (*dropped)(void *context, void *kept);
    /* The method of that path, or NULL. Asked before the message is there. */
    const void *(*find)(void *context, struct weir_slice path);
    /* Something that is no call, or one that was refused before it was whole. */
    void (*bad)(void *context);
    /* Append to what is sent; returns less than 0 when that is over. */
    int (*write)(void *context, const void *bytes, size_t len);
};

/* Blocks that calls are held in, of calls that are over: one for all connections of a thread. So
 * few are used again and again, which lie in its cache, and idle connections keep none. All zero:
 * empty.
 */
struct wr_grpc_spare {
    struct wr_grpc_stream *first;
    unsigned count;
};
void wr_grpc_spare_free(struct wr_grpc_spare *spare);

/* NULL: out of memory. Writes the server's preface. |events| and |spare| are borrowed. */
struct wr_grpc *wr_grpc_new(const struct wr_grpc_events *events, void *context,
                            struct wr_grpc_spare *spare, int64_t now_ns);
void wr_grpc_free(struct wr_grpc *grpc);

/* Wait |stall_ns| for anything instead of the three times above; before anything is read. */
void wr_grpc_set_patience(struct wr_grpc *grpc, int64_t stall_ns);

/* Take |len| bytes in and answer. Returns 0, or less: send what is written, then close. */
int wr_grpc_read(struct wr_grpc *grpc, const uint8_t *bytes, size_t len, int64_t now_ns);

/* What |stream|'s call waited for is there; it has not been dropped. Returns as wr_grpc_read. */
int wr_grpc_resume(struct wr_grpc *grpc, struct wr_grpc_stream *stream, int64_t now_ns);

/* Does it wait for the other side: for its preface, for the rest of a question, for room for an
 * answer? Then wr_grpc_tick is wanted, about once a second. */
bool wr_grpc_waits(const struct wr_grpc *grpc);

/* What is overdue at |now_ns| ends: a question that was begun and not ended is reset; who takes no
 * answers, or does not greet, is told to go. Returns as wr_grpc_read; |*late|: it ends for this. */
int wr_grpc_tick(struct wr_grpc *grpc, int64_t now_ns, bool *late);

/* Take no new calls, answer those that are there: GOAWAY, at once with the highest number, and with
 * the true one when the other side has heard of it. Returns as wr_grpc_read. */
int wr_grpc_drain(struct wr_grpc *grpc);

/* Some time after wr_grpc_drain: whoever has not answered until now is told the true number without
 * that. Ends at once where no call is open. Returns as wr_grpc_read. */
int wr_grpc_drain_end(struct wr_grpc *grpc);

#endif
