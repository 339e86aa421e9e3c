/* grpc_pair.h - a session of the gRPC door and nghttp2's own client on the other side. */
#ifndef WR_TESTS_GRPC_PAIR_H
#define WR_TESTS_GRPC_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <nghttp2/nghttp2.h>

#include "base/units.h"
#include "doors/grpc_session.h"

#define MS WR_NS_PER_MS

/* Both ends. Bytes to the client are given to it at once. */
struct pair {
    struct wr_grpc *server;
    struct wr_grpc_spare spare;
    nghttp2_session *client;
    int64_t now;
    unsigned calls, bad, dropped;
    bool busy;                   /* questions that begin with ? are held as long */
    struct wr_grpc_stream *held; /* the last that was */
    /* What the client saw last. */
    char grpc_status[8], http_status[8], message[128], encoding[32];
    uint8_t body[256];
    size_t body_len;
    unsigned closed;
    uint32_t stream_error, goaway_error;
    int32_t goaway_last;
    bool goaway;
};

static bool on_call(void *context, const struct wr_grpc_call *call, struct wr_grpc_reply *reply)
{
    struct pair *p = context;

    assert_ptr_equal(call->method, p);
    p->calls++;
    if (call->len > 0 && call->bytes[0] == '!') {
        reply->code = WR_GRPC_UNKNOWN;
        reply->message = "100% wrong";
        return true;
    }
    if (call->len > 0 && call->bytes[0] == '?' && p->busy) {
        *call->kept = p;
        p->held = call->stream;
        return false;
    }
    reply->code = WR_GRPC_OK; /* an echo */
    reply->bytes = call->bytes;
    reply->len = call->len < 200 ? call->len : 200;
    return true;
}

static void on_dropped(void *context, void *kept)
{
    struct pair *p = context;

    assert_ptr_equal(kept, p);
    p->dropped++;
}

static const void *on_find(void *context, struct weir_slice path)
{
    return path.len == 5 && memcmp(path.ptr, "/s/Ok", 5) == 0 ? context : NULL;
}

static void on_bad(void *context)
{
    ((struct pair *)context)->bad++;
}

static int on_write(void *context, const void *bytes, size_t len)
{
    struct pair *p = context;

    return nghttp2_session_mem_recv(p->client, bytes, len) == (ssize_t)len ? 0 : -1;
}

static const struct wr_grpc_events events = {on_call, on_dropped, on_find, on_bad, on_write};

static int saw_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                      size_t name_len, const uint8_t *value, size_t len, uint8_t flags, void *user)
{
    struct pair *p = user;
    static const char *const names[] = {"grpc-status", ":status", "grpc-message",
                                        "grpc-accept-encoding"};
    char *into[] = {p->grpc_status, p->http_status, p->message, p->encoding};
    size_t room[] = {sizeof p->grpc_status, sizeof p->http_status, sizeof p->message,
                     sizeof p->encoding};

    (void)session;
    (void)frame;
    (void)flags;
    for (size_t i = 0; i < 4; i++) {
        if (name_len == strlen(names[i]) && memcmp(name, names[i], name_len) == 0) {
            assert_in_range(len, 0, room[i] - 1);
            memcpy(into[i], value, len);
            into[i][len] = '\0';
        }
    }
    return 0;
}

static int saw_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                    size_t len, void *user)
{
    struct pair *p = user;

    (void)session;
    (void)flags;
    (void)id;
    assert_in_range(p->body_len + len, 0, sizeof p->body);
    memcpy(p->body + p->body_len, bytes, len);
    p->body_len += len;
    return 0;
}

static int saw_close(nghttp2_session *session, int32_t id, uint32_t error, void *user)
{
    struct pair *p = user;

    (void)session;
    (void)id;
    p->closed++;
    p->stream_error = error;
    return 0;
}

static int saw_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct pair *p = user;

    (void)session;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        p->goaway = true;
        p->goaway_error = frame->goaway.error_code;
        p->goaway_last = frame->goaway.last_stream_id;
    }
    return 0;
}

static void open_pair(struct pair *p)
{
    nghttp2_session_callbacks *callbacks;

    *p = (struct pair){.now = WR_NS_PER_HOUR};
    assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, saw_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, saw_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, saw_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, saw_frame);
    assert_int_equal(nghttp2_session_client_new(&p->client, callbacks, p), 0);
    nghttp2_session_callbacks_del(callbacks);
    assert_int_equal(nghttp2_submit_settings(p->client, 0, NULL, 0), 0);
    p->server = wr_grpc_new(&events, p, &p->spare, p->now);
    assert_non_null(p->server);
}

static void close_pair(struct pair *p)
{
    wr_grpc_free(p->server);
    wr_grpc_spare_free(&p->spare);
    nghttp2_session_del(p->client);
}

/* Give what the client has to say to the server, |piece| bytes at a time. The last result. */
static int exchange(struct pair *p, size_t piece)
{
    const uint8_t *bytes;
    ssize_t len;
    int result = 0;

    while ((len = nghttp2_session_mem_send(p->client, &bytes)) > 0) {
        for (size_t at = 0; at < (size_t)len && result == 0; at += piece) {
            size_t n = (size_t)len - at < piece ? (size_t)len - at : piece;
            uint8_t *copy = malloc(n); /* a sanitizer sees a read past the end */
            assert_non_null(copy);
            memcpy(copy, bytes + at, n);
            result = wr_grpc_read(p->server, copy, n, p->now);
            free(copy);
        }
        if (result != 0)
            break;
    }
    return result;
}

struct body {
    const uint8_t *bytes;
    size_t len, at;
    bool unfinished;
};

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *to, size_t room,
                         uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct body *b = source->ptr;
    size_t n = b->len - b->at < room ? b->len - b->at : room;

    (void)session;
    (void)id;
    (void)user;
    if (n > 0)
        memcpy(to, b->bytes + b->at, n);
    b->at += n;
    if (b->at == b->len) {
        if (b->unfinished && n == 0)
            return NGHTTP2_ERR_DEFERRED;
        if (!b->unfinished)
            *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)n;
}

#define NV(name, value)                                                                           \
    {                                                                                             \
        (uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), strlen(name), strlen(value), \
            0                                                                                     \
    }

/* Submit a call; |extra| is "name=value" or NULL. */
static int32_t submit(struct pair *p, const char *path, const char *extra, struct body *body)
{
    nghttp2_nv headers[8] = {NV(":method", "POST"),
                             NV(":scheme", "http"),
                             NV(":authority", "x"),
                             NV(":path", path),
                             NV("content-type", "application/grpc"),
                             NV("te", "trailers")};
    nghttp2_data_provider provider = {{.ptr = body}, read_body};
    static char copy[512];
    size_t count = 6;

    if (extra != NULL) {
        char *value;
        (void)strncpy(copy, extra, sizeof copy - 1);
        value = strchr(copy, '=');
        *value++ = '\0';
        if (strcmp(copy, "content-type") == 0)
            headers[4] = (nghttp2_nv)NV(copy, value);
        else
            headers[count++] = (nghttp2_nv)NV(copy, value);
    }
    p->grpc_status[0] = p->http_status[0] = p->message[0] = p->encoding[0] = '\0';
    p->body_len = 0;
    return nghttp2_submit_request(p->client, NULL, headers, count, body != NULL ? &provider : NULL,
                                  p);
}

#define FRAMED(text)                                        \
    {                                                       \
        (const uint8_t *)(text), sizeof(text) - 1, 0, false \
    }

#endif
