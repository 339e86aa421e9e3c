/* grpc_session.c - gRPC over nghttp2's sessions.
 *
 * Problem. A peer can ask for much work with little: reset what it has just begun, ping, change
 * settings, open streams and leave them, hold its window shut, send headers without end. Each must
 * cost it the connection, or nothing.
 *
 * Idea. Answers are made in the turn in which a call is complete and wait, if the peer's window is
 * shut, as at most a few hundred bytes in the stream's own block. Frames that ask for work and
 * bring none draw on a budget that time and answered calls refill; who empties it is told to calm
 * down.
 *
 * Invariants:
 *   1. Memory of a connection: WR_GRPC_STREAMS_MAX streams of a fixed block, WR_GRPC_BUFFER_MAX
 *      bytes beyond, and what nghttp2 itself bounds (header block, continuations, acks).
 *   2. Every call gets exactly one status, or its stream is reset.
 *   3. So what one read can make us write is bounded as well; whoever does not read it is read no
 *      further (conn.h).
 *
 * Source: grpc, PROTOCOL-HTTP2. */
#include "doors/grpc_stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/units.h"

#define BUDGET_MAX INT64_C(2000)            /* frames without work at once */
#define BUDGET_REFILL_NS (5 * WR_NS_PER_MS) /* one more: 200 a second */
#define BUDGET_ANSWER 2                     /* a call earns a ping and a window update */
#define RESETS_MAX UINT64_C(20000)          /* of nghttp2's own count: never reached */
#define DISCARD_MAX ((size_t)256 << 10) /* sent after it was refused: then the stream is reset */
#define CONNECTION_WINDOW (1 << 20)

/* ---- calls ------------------------------------------------------------------------------- */

/* The header fields are there: is it a call of a method that there is? */
static void on_headers(struct wr_grpc *g, int32_t id, struct wr_grpc_stream *s)
{
    if (s->timeout_ns > 0)
        s->due_ns = s->started_ns + wr_min_i64(s->timeout_ns, g->question_ns);
    if (!s->post || !s->grpc)
        wr_grpc_answer_http(g, id, s);
    else if (s->method == NULL)
        wr_grpc_refuse(g, id, s, WR_GRPC_UNIMPLEMENTED, "no such method");
    else if (s->encoded)
        wr_grpc_refuse(g, id, s, WR_GRPC_UNIMPLEMENTED, "messages cannot be compressed here");
}

/* Answer it, or hold it until the door can. */
static void call(struct wr_grpc *g, int32_t id, struct wr_grpc_stream *s)
{
    struct wr_grpc_reply reply = {.code = WR_GRPC_INTERNAL, .message = ""};
    const struct wr_grpc_call what = {.method = s->method,
                                      .bytes = s->bytes + WR_GRPC_FRAME,
                                      .len = s->len - WR_GRPC_FRAME,
                                      .stream = s,
                                      .kept = &s->kept};

    if (!s->held)
        g->budget = wr_min_i64(BUDGET_MAX, g->budget + BUDGET_ANSWER);
    s->held = !g->events->call(g->context, &what, &reply);
    if (!s->held)
        wr_grpc_answer(g, id, s, &reply);
}

/* The question is whole, or ought to be. */
static void on_end(struct wr_grpc *g, int32_t id, struct wr_grpc_stream *s)
{
    struct wr_grpc_frame frame;

    if (s->answered)
        return;
    if (s->timeout_ns > 0 && g->now_ns - s->started_ns >= s->timeout_ns) {
        s->answered = true;
        (void)nghttp2_submit_rst_stream(g->session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
        return;
    }
    if (s->len < WR_GRPC_FRAME || !wr_grpc_frame_read(s->bytes, &frame)) {
        wr_grpc_refuse(g, id, s, WR_GRPC_INTERNAL, "the call has no message");
    } else if (frame.compressed) {
        wr_grpc_refuse(g, id, s, s->has_encoding ? WR_GRPC_UNIMPLEMENTED : WR_GRPC_INTERNAL,
                       "the message is compressed, by no encoding that is known here");
    } else if (frame.len != s->len - WR_GRPC_FRAME) {
        wr_grpc_refuse(g, id, s, WR_GRPC_INTERNAL, "the call has not exactly one whole message");
    } else {
        call(g, id, s);
    }
}

int wr_grpc_resume(struct wr_grpc *g, struct wr_grpc_stream *s, int64_t now_ns)
{
    g->now_ns = now_ns;
    on_end(g, s->id, s);
    return wr_grpc_pump(g);
}

static void on_bytes(struct wr_grpc *g, int32_t id, struct wr_grpc_stream *s, const uint8_t *bytes,
                     size_t len)
{
    if (s->answered) {
        s->discarded += len;
        if (s->discarded > DISCARD_MAX)
            (void)nghttp2_submit_rst_stream(g->session, NGHTTP2_FLAG_NONE, id,
                                            NGHTTP2_ENHANCE_YOUR_CALM);
    } else if (s->len + len > WR_GRPC_FRAME + WR_GRPC_MESSAGE_MAX) {
        wr_grpc_refuse(g, id, s, WR_GRPC_RESOURCE_EXHAUSTED, "the message is larger than 64 KiB");
    } else if (!wr_grpc_stream_reserve(g, s, s->len + len)) {
        wr_grpc_refuse(g, id, s, WR_GRPC_RESOURCE_EXHAUSTED, "too many large messages at once");
    } else {
        memcpy(s->bytes + s->len, bytes, len);
        s->len += len;
    }
}

/* ---- nghttp2's callbacks ------------------------------------------------------------------- */

/* Who sends more of this than of calls is told to calm down. */
static int spend(struct wr_grpc *g)
{
    int64_t refill = (g->now_ns - g->refilled_ns) / BUDGET_REFILL_NS;

    if (refill > 0) {
        g->budget = wr_min_i64(BUDGET_MAX, g->budget + refill);
        g->refilled_ns = g->now_ns;
    }
    if (--g->budget > 0 || g->closing)
        return 0;
    g->closing = true;
    g->events->bad(g->context);
    return nghttp2_session_terminate_session(g->session, NGHTTP2_ENHANCE_YOUR_CALM) == 0
               ? 0
               : NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* HEADERS of a stream below the last: trailers, late ones for a stream that we reset, or against
 * the rules: of a stream that was passed over, or forgotten a thousand streams ago. nghttp2 says
 * nothing of the latter two. */
static int late_headers(struct wr_grpc *g, int32_t id)
{
    if (nghttp2_session_find_stream(g->session, id) != NULL || g->closing)
        return spend(g);
    g->closing = true;
    g->events->bad(g->context);
    return nghttp2_session_terminate_session(g->session, NGHTTP2_PROTOCOL_ERROR);
}

/* Frames of streams that are over, of which nothing else is told; empty ones, and padded ones,
 * which may be: no client pads requests; and those of types that are not known here. */
static int cb_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *user)
{
    if (hd->type == NGHTTP2_HEADERS)
        return hd->stream_id <= nghttp2_session_get_last_proc_stream_id(session)
                   ? late_headers(user, hd->stream_id)
                   : 0;
    if (hd->type == NGHTTP2_DATA)
        return (hd->length == 0 && (hd->flags & NGHTTP2_FLAG_END_STREAM) == 0) ||
                       (hd->flags & NGHTTP2_FLAG_PADDED) != 0
                   ? spend(user)
                   : 0;
    return hd->type > NGHTTP2_CONTINUATION ? spend(user) : 0;
}

/* Of types beyond HTTP/2's own nghttp2 tells only those that somebody takes in. Nothing of them is
 * wanted but that they are counted. */
static int cb_unknown(nghttp2_session *session, void **payload, const nghttp2_frame_hd *hd,
                      void *user)
{
    (void)session;
    (void)hd;
    (void)user;
    *payload = NULL;
    return NGHTTP2_ERR_CANCEL;
}

static int cb_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct wr_grpc *g = user;
    struct wr_grpc_stream *s;

    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
        g->heading = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
        return 0;
    }
    s = wr_grpc_stream_take(g, frame->hd.stream_id);
    g->heading = s;
    if (s == NULL)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    (void)nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, s);
    return 0;
}

static bool same(const uint8_t *bytes, size_t len, const char *text)
{
    return len == strlen(text) && memcmp(bytes, text, len) == 0;
}

static void take_header(const struct wr_grpc *g, struct wr_grpc_stream *s, const uint8_t *name,
                        size_t name_len, const uint8_t *value, size_t len)
{
    struct weir_slice text = {(const char *)value, len};

    if (same(name, name_len, ":method")) {
        s->post = same(value, len, "POST");
    } else if (same(name, name_len, ":path")) {
        s->method = g->events->find(g->context, text);
    } else if (same(name, name_len, "content-type")) {
        s->grpc = wr_grpc_content_type(text);
    } else if (same(name, name_len, "grpc-encoding")) {
        s->has_encoding = true;
        s->encoded = !same(value, len, "identity");
    } else if (same(name, name_len, "grpc-timeout")) {
        if (!wr_grpc_timeout(text, &s->timeout_ns))
            s->timeout_ns = 0;
        else
            s->timeout_ns = wr_max_i64(1, s->timeout_ns);
    }
}

static int cb_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t len, uint8_t flags, void *user)
{
    struct wr_grpc *g = user;
    struct wr_grpc_stream *s = g->heading;

    (void)session;
    (void)flags;
    if (s == NULL || frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    s->header_bytes += name_len + len + 32; /* as HPACK counts */
    if (s->header_bytes > WR_GRPC_HEADERS_MAX) {
        g->events->bad(g->context);
        return spend(g) != 0 ? NGHTTP2_ERR_CALLBACK_FAILURE
                             : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* resets the stream */
    }
    take_header(g, s, name, name_len, value, len);
    return 0;
}

static int cb_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t len, void *user)
{
    struct wr_grpc_stream *s = nghttp2_session_get_stream_user_data(session, id);

    (void)flags;
    if (s != NULL)
        on_bytes(user, id, s, bytes, len);
    return 0;
}

/* The other side has heard that we drain: the last call that counts is now known. */
static int on_ping_answer(struct wr_grpc *g)
{
    if (!g->draining || g->closing)
        return spend(g);
    wr_grpc_say_last(g);
    return 0;
}

static int cb_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct wr_grpc *g = user;
    struct wr_grpc_stream *s;
    bool end = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;

    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
        if (s != NULL && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
            on_headers(g, frame->hd.stream_id, s);
        if (s != NULL && end)
            on_end(g, frame->hd.stream_id, s);
        return 0;
    case NGHTTP2_DATA:
        s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
        if (s != NULL && end)
            on_end(g, frame->hd.stream_id, s);
        return 0;
    case NGHTTP2_SETTINGS:
        g->greeted = true;
        return spend(g);
    case NGHTTP2_PING:
        return (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0 ? on_ping_answer(g) : spend(g);
    default:
        return spend(g);
    }
}

static int cb_close(nghttp2_session *session, int32_t id, uint32_t error, void *user)
{
    struct wr_grpc_stream *s = nghttp2_session_get_stream_user_data(session, id);

    (void)error;
    if (s != NULL)
        wr_grpc_stream_put(user, s);
    return 0;
}

/* A frame that breaks the rules of HTTP/2 or HTTP. */
static int cb_invalid(nghttp2_session *session, const nghttp2_frame *frame, int error, void *user)
{
    struct wr_grpc *g = user;

    (void)session;
    (void)frame;
    (void)error;
    g->events->bad(g->context);
    return spend(g);
}

/* ---- life -------------------------------------------------------------------------------- */

static int make_session(struct wr_grpc *g)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option = NULL;
    int result = nghttp2_session_callbacks_new(&callbacks);

    if (result != 0)
        return result;
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, cb_begin_frame);
    nghttp2_session_callbacks_set_unpack_extension_callback(callbacks, cb_unknown);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, cb_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, cb_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, cb_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, cb_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, cb_close);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, cb_invalid);
    result = nghttp2_option_new(&option);
    if (result == 0) {
        /* Our own budget counts resets, acks and the rest alike, and says goodbye; nghttp2's would
         * be first, and silent. */
        nghttp2_option_set_stream_reset_rate_limit(option, RESETS_MAX, RESETS_MAX);
        nghttp2_option_set_max_outbound_ack(option, BUDGET_MAX + 1);
        nghttp2_option_set_max_send_header_block_length(option, WR_GRPC_HEADERS_MAX);
        for (unsigned type = NGHTTP2_CONTINUATION + 1; type <= UINT8_MAX; type++)
            nghttp2_option_set_user_recv_extension_type(option, (uint8_t)type);
        result = nghttp2_session_server_new2(&g->session, callbacks, g, option);
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return result;
}

static int greet(struct wr_grpc *g)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, WR_GRPC_STREAMS_MAX},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, WR_GRPC_HEADERS_MAX},
    };

    if (nghttp2_submit_settings(g->session, NGHTTP2_FLAG_NONE, settings, 2) != 0)
        return -1;
    return nghttp2_session_set_local_window_size(g->session, NGHTTP2_FLAG_NONE, 0,
                                                 CONNECTION_WINDOW);
}

int wr_grpc_pump(struct wr_grpc *g)
{
    const uint8_t *bytes;
    ssize_t len;

    while ((len = nghttp2_session_mem_send(g->session, &bytes)) > 0)
        if (g->events->write(g->context, bytes, (size_t)len) < 0)
            return -1;
    if (len < 0)
        return -1;
    return nghttp2_session_want_read(g->session) != 0 || nghttp2_session_want_write(g->session) != 0
               ? 0
               : -1;
}

struct wr_grpc *wr_grpc_new(const struct wr_grpc_events *events, void *context,
                            struct wr_grpc_spare *spare, int64_t now_ns)
{
    struct wr_grpc *g = calloc(1, sizeof *g);

    if (g == NULL)
        return NULL;
    g->events = events;
    g->context = context;
    g->spare = spare;
    g->now_ns = g->refilled_ns = g->opened_ns = now_ns;
    g->greeting_ns = WR_GRPC_GREETING_NS;
    g->question_ns = WR_GRPC_QUESTION_NS;
    g->answer_ns = WR_GRPC_ANSWER_NS;
    g->budget = BUDGET_MAX;
    if (make_session(g) != 0 || greet(g) != 0 || wr_grpc_pump(g) != 0) {
        wr_grpc_free(g);
        return NULL;
    }
    return g;
}

void wr_grpc_free(struct wr_grpc *g)
{
    if (g == NULL)
        return;
    nghttp2_session_del(g->session); /* does not say of each open stream that it closes now */
    while (g->open != NULL)
        wr_grpc_stream_put(g, g->open);
    free(g);
}

int wr_grpc_read(struct wr_grpc *g, const uint8_t *bytes, size_t len, int64_t now_ns)
{
    ssize_t used;

    g->now_ns = now_ns;
    used = nghttp2_session_mem_recv(g->session, bytes, len);
    if (used >= 0)
        return wr_grpc_pump(g);
    g->events->bad(g->context);
    if (used != NGHTTP2_ERR_BAD_CLIENT_MAGIC) {
        if (!g->closing) /* too many continuations, or acks, or no memory: nghttp2 is silent */
            (void)nghttp2_session_terminate_session(g->session, NGHTTP2_ENHANCE_YOUR_CALM);
        (void)wr_grpc_pump(g);
    }
    return -1;
}
