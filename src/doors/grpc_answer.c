/* grpc_answer.c - what goes back: an answer, an error, or that this is no gRPC. */
#include <string.h>

#include "doors/grpc_stream.h"

#define NO_COPY (NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE)

static nghttp2_nv header(const char *name, size_t name_len, const char *value, size_t value_len)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, name_len,
                        value_len, NO_COPY};
}
#define HEADER(name, value) header(name, sizeof(name) - 1, value, sizeof(value) - 1)

/* grpc-status, as text that lasts. */
static nghttp2_nv status_header(enum wr_grpc_code code)
{
    static const char *const texts[] = {"0", "1", "2",  "3",  "4",  "5",  "6",  "7",
                                        "8", "9", "10", "11", "12", "13", "14", "15"};
    const char *text = texts[code & 15];

    return header("grpc-status", 11, text, strlen(text));
}

/* A body as far as there is room for it. */
static ssize_t read_text(nghttp2_session *session, int32_t id, uint8_t *to, size_t room,
                         uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct wr_grpc_stream *s = source->ptr;
    size_t n = s->len - s->sent < room ? s->len - s->sent : room;

    (void)session;
    (void)id;
    (void)user;
    memcpy(to, s->bytes + s->sent, n);
    s->sent += n;
    if (s->sent == s->len)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

/* And then the trailer. */
static ssize_t read_answer(nghttp2_session *session, int32_t id, uint8_t *to, size_t room,
                           uint32_t *flags, nghttp2_data_source *source, void *user)
{
    ssize_t n = read_text(session, id, to, room, flags, source, user);
    nghttp2_nv trailer = status_header(WR_GRPC_OK);

    if ((*flags & NGHTTP2_DATA_FLAG_EOF) == 0)
        return n;
    *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    return nghttp2_submit_trailer(session, id, &trailer, 1) == 0 ? n : NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* An error is told in the headers alone. */
static void answer_error(struct wr_grpc *g, int32_t id, struct wr_grpc_stream *s,
                         enum wr_grpc_code code, const char *message)
{
    char encoded[256];
    size_t len = wr_grpc_message(message, encoded, sizeof encoded);
    nghttp2_nv headers[5] = {HEADER(":status", "200"), HEADER("content-type", "application/grpc")};
    size_t count = 2;

    headers[count++] = status_header(code);
    headers[count] = header("grpc-message", 12, encoded, len);
    headers[count++].flags = NGHTTP2_NV_FLAG_NO_COPY_NAME; /* it is on the stack */
    if (code == WR_GRPC_UNIMPLEMENTED)
        headers[count++] = HEADER("grpc-accept-encoding", "identity");
    s->answered = true;
    wr_grpc_stream_forget(g, s);
    (void)nghttp2_submit_response(g->session, id, headers, count, NULL);
}

void wr_grpc_answer_http(struct wr_grpc *g, int32_t id, struct wr_grpc_stream *s)
{
    static const char text[] = "This is gRPC: POST application/grpc.\n";
    const nghttp2_nv headers[] = {HEADER(":status", "415"), HEADER("content-type", "text/plain")};
    nghttp2_data_provider provider = {{.ptr = s}, read_text};

    s->answered = true;
    wr_grpc_stream_forget(g, s);
    memcpy(s->bytes, text, sizeof text - 1); /* far below WR_GRPC_INLINE */
    s->len = sizeof text - 1;
    s->due_ns = g->now_ns + g->answer_ns;
    g->events->bad(g->context);
    (void)nghttp2_submit_response(g->session, id, headers, 2, &provider);
}

void wr_grpc_refuse(struct wr_grpc *g, int32_t id, struct wr_grpc_stream *s, enum wr_grpc_code code,
                    const char *message)
{
    g->events->bad(g->context);
    answer_error(g, id, s, code, message);
}

void wr_grpc_answer(struct wr_grpc *g, int32_t id, struct wr_grpc_stream *s,
                    const struct wr_grpc_reply *reply)
{
    static const char type[] = "application/grpc";
    const nghttp2_nv headers[] = {HEADER(":status", "200"), header("content-type", 12, type, 16)};
    nghttp2_data_provider provider = {{.ptr = s}, read_answer};

    if (reply->code != WR_GRPC_OK) {
        answer_error(g, id, s, reply->code, reply->message);
        return;
    }
    s->len = 0;
    s->sent = 0;
    if (!wr_grpc_stream_reserve(g, s, WR_GRPC_FRAME + reply->len)) {
        answer_error(g, id, s, WR_GRPC_RESOURCE_EXHAUSTED, "no memory for the answer");
        return;
    }
    wr_grpc_frame_write(s->bytes, (uint32_t)reply->len);
    memcpy(s->bytes + WR_GRPC_FRAME, reply->bytes, reply->len);
    s->len = WR_GRPC_FRAME + reply->len;
    s->answered = true;
    s->due_ns = g->now_ns + g->answer_ns;
    (void)nghttp2_submit_response(g->session, id, headers, 2, &provider);
}
