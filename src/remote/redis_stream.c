/* redis_stream.c - TCP without delay and with keep-alive, or a unix socket. */
#include "remote/redis_stream.h"

#include <stdlib.h>

#define KEEPALIVE_S 15

struct wr_redis_stream *wr_redis_stream_new(uv_loop_t *loop, const char *path, void *owner,
                                            void (*closed)(void *owner))
{
    struct wr_redis_stream *stream = calloc(1, sizeof *stream);
    int result;

    if (stream == NULL)
        return NULL;
    result =
        path != NULL ? uv_pipe_init(loop, &stream->uv.pipe, 0) : uv_tcp_init(loop, &stream->uv.tcp);
    if (result != 0) {
        free(stream);
        return NULL;
    }
    stream->uv.handle.data = stream->connect.data = stream;
    stream->owner = owner;
    stream->closed = closed;
    return stream;
}

int wr_redis_stream_connect(struct wr_redis_stream *stream, const struct sockaddr *address,
                            const char *path, uv_connect_cb done)
{
    if (address == NULL) {
        uv_pipe_connect(&stream->connect, &stream->uv.pipe, path, done);
        return 0;
    }
    (void)uv_tcp_nodelay(&stream->uv.tcp, 1);
    (void)uv_tcp_keepalive(&stream->uv.tcp, 1, KEEPALIVE_S);
    return uv_tcp_connect(&stream->connect, &stream->uv.tcp, address, done);
}

static void on_closed(uv_handle_t *handle)
{
    struct wr_redis_stream *stream = handle->data;
    void (*closed)(void *owner) = stream->closed;
    void *owner = stream->owner;

    free(stream);
    closed(owner);
}

void wr_redis_stream_close(struct wr_redis_stream *stream)
{
    uv_close(&stream->uv.handle, on_closed);
}
