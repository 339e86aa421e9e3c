/* store_state.h - how the store of shared limits stands, for the whole process: its loops each have
 * their own connections, but one thing to say. */
#ifndef WR_SERVE_STORE_STATE_H
#define WR_SERVE_STORE_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WR_STORE_DETAIL_BYTES 200U

struct wr_server;

struct wr_store_state {
    pthread_mutex_t mutex;
    unsigned lost; /* loops that have no store */
    uint64_t since_ns;
    char detail[WR_STORE_DETAIL_BYTES];
};

void wr_store_state_init(struct wr_store_state *state);
void wr_store_state_fini(struct wr_store_state *state);

/* A loop has lost its store: the first one is logged. Any thread. */
void wr_store_state_lost(struct wr_store_state *state, const char *name, const char *detail);
/* It has it again, since |at_ns| (uv_hrtime), or, if not |back|, has no interest in it any more:
 * the last one is logged. */
void wr_store_state_back(struct wr_store_state *state, bool back, uint64_t at_ns);

/* Is it gone? |detail| says why, and is empty else. */
bool wr_store_state_gone(struct wr_store_state *state, char *detail, size_t size);

/* The server's. */
struct wr_store_state *wr_server_store_state(struct wr_server *server);

#endif
