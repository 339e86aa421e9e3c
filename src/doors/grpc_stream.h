/* grpc_stream.h - what a connection and its calls are, between the files of the session. */
#ifndef WR_DOORS_GRPC_STREAM_H
#define WR_DOORS_GRPC_STREAM_H

#include <nghttp2/nghttp2.h>

#include "doors/grpc_session.h"

#define WR_GRPC_INLINE 512 /* most questions and answers fit */

struct wr_grpc_stream {
    struct wr_grpc_stream *next, *previous; /* of those that are open; next: of the spare ones */
    uint8_t *bytes; /* of the question, then of the answer; inline_bytes or from malloc */
    size_t len, room, sent;
    size_t header_bytes, discarded;
    int64_t started_ns, timeout_ns; /* timeout 0: none */
    int64_t due_ns;                 /* of the question, then of the answer's being taken */
    int32_t id;
    const void *method; /* the door's; NULL: none that there is */
    bool post, grpc, http_refused;
    bool encoded; /* grpc-encoding other than identity */
    bool has_encoding;
    bool answered; /* or to be ignored */
    bool held;     /* the door cannot answer yet */
    void *kept;    /* the door's */
    uint8_t inline_bytes[WR_GRPC_INLINE];
};

struct wr_grpc {
    nghttp2_session *session;
    const struct wr_grpc_events *events;
    void *context;
    struct wr_grpc_spare *spare;
    struct wr_grpc_stream *open;
    struct wr_grpc_stream *heading; /* whose header fields are coming; NULL: nobody's of ours */
    size_t buffered;                /* bytes of streams beyond their own blocks */
    int64_t now_ns, refilled_ns, opened_ns;
    int64_t greeting_ns, question_ns, answer_ns; /* how long each is waited for */
    int64_t budget;
    bool greeted; /* the client's preface is complete: its SETTINGS have come */
    bool draining, closing;
};

/* A stream that is open from now on; NULL: out of memory. */
struct wr_grpc_stream *wr_grpc_stream_take(struct wr_grpc *g, int32_t id);
void wr_grpc_stream_put(struct wr_grpc *g, struct wr_grpc_stream *s);

/* Drop its bytes. */
void wr_grpc_stream_forget(struct wr_grpc *g, struct wr_grpc_stream *s);

/* Room for |len| bytes in all; those it has stay. False: beyond WR_GRPC_BUFFER_MAX, or no memory.
 */
bool wr_grpc_stream_reserve(struct wr_grpc *g, struct wr_grpc_stream *s, size_t len);

/* grpc_answer.c: |s| gets what it is answered with. */
void wr_grpc_answer(struct wr_grpc *g, int32_t id, struct wr_grpc_stream *s,
                    const struct wr_grpc_reply *reply);
void wr_grpc_refuse(struct wr_grpc *g, int32_t id, struct wr_grpc_stream *s, enum wr_grpc_code code,
                    const char *message);
void wr_grpc_answer_http(struct wr_grpc *g, int32_t id, struct wr_grpc_stream *s);

/* grpc_session.c: write what waits. Returns less than 0 when the connection is to be closed. */
int wr_grpc_pump(struct wr_grpc *g);

/* grpc_deadline.c: the last GOAWAY of a drain, with the last call that counts. */
void wr_grpc_say_last(struct wr_grpc *g);

#endif
