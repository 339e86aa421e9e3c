/* stream_door.c - what doors on connections have in common. */
#include "serve/stream_door.h"

#include <stdlib.h>
#include <unistd.h>

int wr_stream_door_open(struct wr_loop *loop, int fd, const struct wr_listener *listener,
                        const struct wr_acceptor_options *options, void **out)
{
    struct wr_stream_door *door = options->door;
    int result;

    *out = NULL;
    if (door == NULL) {
        (void)close(fd);
        return WEIR_ENOMEM;
    }
    result = wr_acceptor_open(&door->acceptor, loop, fd, listener, options);
    if (result != 0)
        free(door);
    else
        *out = door;
    return result;
}

void wr_stream_door_drain(void *state)
{
    const struct wr_stream_door *door = state;

    wr_acceptor_drain(door->acceptor, door->end);
}

unsigned wr_stream_door_connections(const void *state)
{
    const struct wr_stream_door *door = state;

    return wr_acceptor_connections(door->acceptor);
}

void wr_stream_door_close(void *state)
{
    struct wr_stream_door *door = state;

    wr_acceptor_close(door->acceptor);
    free(door);
}
