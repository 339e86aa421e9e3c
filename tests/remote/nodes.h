/* nodes.h - a ring of nodes in one process, on one loop, each with an arena of its own; for tests.
 * Time for the keys is the test's. */
#ifndef TESTS_REMOTE_NODES_H
#define TESTS_REMOTE_NODES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "remote/remote.h"
#include "remote/ring.h"

#define NODES_MAX 5

struct node {
    uint16_t port;
    struct wr_arena *arena;
    struct wr_engine *engine;
    struct wr_backend backend; /* ops NULL: it is not running */
};

struct nodes {
    uv_loop_t loop;
    struct wr_policy *policy;
    struct node node[NODES_MAX];
    unsigned count;
    int64_t now_ns; /* for all keys; 0: the real time */
    const char *password;
};

/* |count| nodes, running; waits until all are ready. */
void nodes_open(struct nodes *nodes, unsigned count, const char *password);
void nodes_close(struct nodes *nodes);

/* Start node |i|, with the arena that it has. */
void nodes_start(struct nodes *nodes, unsigned i);
/* As if it were killed: its connections break, nothing is handed over. */
void nodes_kill(struct nodes *nodes, unsigned i);
/* It hands over, then ends. */
void nodes_leave(struct nodes *nodes, unsigned i);
/* Until every running node sees |count| of them, and all are ready. */
void nodes_settle(struct nodes *nodes, unsigned count);
/* Let |ms| pass. */
void nodes_pass(struct nodes *nodes, unsigned ms);

/* Ask node |i|; true: it was answered. */
bool nodes_take(struct nodes *nodes, unsigned i, struct wr_remote_call *call);
/* The node that owns |tag|, as node |i| sees it. */
unsigned nodes_owner(struct nodes *nodes, unsigned i, const unsigned char tag[WR_TAG_BYTES]);

#endif
