/* grpc_echo.c - the peer of bench/grpc.py: as little around nghttp2 as can be. One thread, epoll,
 * each request answered with its own bytes, the headers of gRPC and its trailer. No checks, no
 * bounds, no decision: what it takes is what HTTP/2 takes.
 *
 *   bench_grpc_echo PORT */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define BYTES 512

struct stream {
    struct stream *next;
    size_t len, sent;
    uint8_t bytes[BYTES];
};

struct connection {
    int fd;
    nghttp2_session *session;
};

static struct stream *spare;
static uint8_t out[1 << 20];

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *to, size_t room,
                         uint32_t *flags, nghttp2_data_source *source, void *user)
{
    static nghttp2_nv trailer = {(uint8_t *)"grpc-status", (uint8_t *)"0", 11, 1,
                                 NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
    struct stream *s = source->ptr;
    size_t n = s->len - s->sent < room ? s->len - s->sent : room;

    (void)user;
    memcpy(to, s->bytes + s->sent, n);
    s->sent += n;
    if (s->sent == s->len) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        (void)nghttp2_submit_trailer(session, id, &trailer, 1);
    }
    return (ssize_t)n;
}

static int on_begin(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct stream *s = spare != NULL ? spare : malloc(sizeof *s);

    (void)user;
    if (s == NULL)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (s == spare)
        spare = s->next;
    s->len = s->sent = 0;
    return nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, s);
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t len, void *user)
{
    struct stream *s = nghttp2_session_get_stream_user_data(session, id);

    (void)flags;
    (void)user;
    if (s == NULL || s->len + len > BYTES)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    memcpy(s->bytes + s->len, bytes, len);
    s->len += len;
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    static const nghttp2_nv headers[] = {
        {(uint8_t *)":status", (uint8_t *)"200", 7, 3,
         NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE},
        {(uint8_t *)"content-type", (uint8_t *)"application/grpc", 12, 16,
         NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE}};
    nghttp2_data_provider provider = {.read_callback = read_body};

    (void)user;
    if (frame->hd.type != NGHTTP2_DATA || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0)
        return 0;
    provider.source.ptr = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    return nghttp2_submit_response(session, frame->hd.stream_id, headers, 2, &provider);
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error, void *user)
{
    struct stream *s = nghttp2_session_get_stream_user_data(session, id);

    (void)error;
    (void)user;
    if (s != NULL) {
        s->next = spare;
        spare = s;
    }
    return 0;
}

static struct connection *accept_one(int listener, int epoll, nghttp2_session_callbacks *callbacks)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1000}};
    struct connection *c = calloc(1, sizeof *c);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    int one = 1;

    if (c == NULL)
        exit(1);
    c->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (c->fd < 0 || nghttp2_session_server_new(&c->session, callbacks, c) != 0)
        exit(1);
    (void)nghttp2_submit_settings(c->session, 0, settings, 1);
    (void)nghttp2_session_set_local_window_size(c->session, 0, 0, 1 << 20);
    (void)epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
    return c;
}

/* Read once, write once. False: it has gone. */
static int serve(struct connection *c)
{
    static uint8_t in[64 << 10];
    ssize_t n = read(c->fd, in, sizeof in);
    const uint8_t *bytes;
    size_t held = 0;

    if (n <= 0 || nghttp2_session_mem_recv(c->session, in, (size_t)n) < 0)
        return 0;
    while ((n = nghttp2_session_mem_send(c->session, &bytes)) > 0 &&
           held + (size_t)n <= sizeof out) {
        memcpy(out + held, bytes, (size_t)n);
        held += (size_t)n;
    }
    for (size_t at = 0; at < held; at += (size_t)n) {
        n = write(c->fd, out + at, held - at);
        if (n <= 0)
            return 0;
    }
    return 1;
}

static void run(int listener, nghttp2_session_callbacks *callbacks)
{
    struct epoll_event events[64];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event first = {.events = EPOLLIN, .data.ptr = NULL};

    (void)epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &first);
    for (;;) {
        int n = epoll_wait(epoll, events, 64, -1);
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            if (c == NULL) {
                (void)accept_one(listener, epoll, callbacks);
            } else if (!serve(c)) {
                (void)close(c->fd);
                nghttp2_session_del(c->session);
                free(c);
            }
        }
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    nghttp2_session_callbacks *callbacks;

    if (argc != 2 || nghttp2_session_callbacks_new(&callbacks) != 0)
        return 2;
    address.sin_port = htons((uint16_t)strtoul(argv[1], NULL, 10));
    (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, 128) != 0) {
        perror("bench_grpc_echo");
        return 1;
    }
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    run(listener, callbacks);
    return 0;
}
