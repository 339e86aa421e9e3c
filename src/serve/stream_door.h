/* stream_door.h - what doors on connections (conn.h) have in common as a struct wr_door: their
 * state begins with a struct wr_stream_door |stream|, and these are its functions where a door
 * needs nothing of its own. */
#ifndef WR_SERVE_STREAM_DOOR_H
#define WR_SERVE_STREAM_DOOR_H

#include <assert.h>
#include <stddef.h>

#include "serve/conn.h"

struct wr_stream_door {
    struct wr_acceptor *acceptor;
    /* What wr_acceptor_drain calls, if the door is drained by wr_stream_door_drain. */
    void (*end)(void *context, struct wr_conn *conn);
};
#define WR_STREAM_DOOR(type) static_assert(offsetof(type, stream) == 0, "comes first")

/* Accept on |fd|, which is closed on errors. options->door is the door's state, which begins with a
 * struct wr_stream_door: memory of malloc's that is owned from here on, and freed on errors; NULL
 * where there was none (WEIR_ENOMEM). |*out| is it, or NULL. */
int wr_stream_door_open(struct wr_loop *loop, int fd, const struct wr_listener *listener,
                        const struct wr_acceptor_options *options, void **out);

/* As struct wr_door has them. */
void wr_stream_door_drain(void *door);
unsigned wr_stream_door_connections(const void *door);
void wr_stream_door_close(void *door);

#endif
