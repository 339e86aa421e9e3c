/* redis_stream.h - a stream of libuv to one address. It outlives the connection it belongs to,
 * until libuv has closed it. */
#ifndef WR_REMOTE_REDIS_STREAM_H
#define WR_REMOTE_REDIS_STREAM_H

#include <uv.h>

struct wr_redis_stream {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } uv;                 /* its data is this struct */
    uv_connect_t connect; /* its data, too */
    void *owner;
    void (*closed)(void *owner);
};

/* NULL: out of memory. |path|: of a unix socket; NULL: TCP. */
struct wr_redis_stream *wr_redis_stream_new(uv_loop_t *loop, const char *path, void *owner,
                                            void (*closed)(void *owner));

/* To |address|, or |path| where it is NULL. Returns 0 or an error of libuv. */
int wr_redis_stream_connect(struct wr_redis_stream *stream, const struct sockaddr *address,
                            const char *path, uv_connect_cb done);

/* Frees it, then calls |closed|, in a later turn. */
void wr_redis_stream_close(struct wr_redis_stream *stream);

#endif
