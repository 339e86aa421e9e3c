/* serve.h - the daemon: what its parts know of each other.
 *
 *   server   one per process: the policy file, the listeners, the loops, reload, drain
 *   loop     one per core: a thread, a libuv loop, its own listeners (SO_REUSEPORT), its own
 * counters handle   a policy in force, counted by reference: a reload swaps it under each loop, in
 * the loop's own turn, and the old one is closed when the last answer that holds it is done door a
 * protocol: opens on a listening socket of a loop, answers by wr_loop_weir
 *
 * A decision takes no lock: a loop reads its own pointer, decides in the arena, counts in its own
 * counters. */
#ifndef WR_SERVE_SERVE_H
#define WR_SERVE_SERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "policy/policy.h"
#include "serve/metrics.h"
#include "weir/weir.h"

struct wr_server;

/* ---- policies in force --------------------------------------------------------------------- */

struct wr_handle {
    struct weir *weir;
    const struct wr_policy *policy; /* of |weir| */
    uint64_t generation;            /* 1 for the first policy, one more for each reload */
    /* private: an atomic count */
    unsigned references;
};

void wr_handle_ref(struct wr_handle *handle);
/* The last one closes it. Any thread. */
void wr_handle_unref(struct wr_handle *handle);

/* ---- loops --------------------------------------------------------------------------------- */

struct wr_loop {
    uv_loop_t uv;
    struct wr_server *server;
    unsigned index;
    struct wr_handle *handle;  /* the policy this loop decides by; changed only between turns */
    struct wr_metrics metrics; /* written by this loop alone, read by the admin door */
    bool draining;
    void *private_data;
};

/* Now on the arena's clock, read once a turn of the loop (all decisions of a pipelined read share
 * it). */
int64_t wr_loop_now(struct wr_loop *loop);

/* ---- doors --------------------------------------------------------------------------------- */

struct wr_listener; /* one address of one door: from the policy's listen section */

struct wr_door {
    const char *name; /* http, grpc, resp, admin: as in the policy and in metrics */
    /* Serve |fd|, a listening, non-blocking socket that this door owns from here on, on |loop|.
     * Called in the loop's thread. Returns 0 or WEIR_E*. */
    int (*open)(struct wr_loop *loop, int fd, const struct wr_listener *listener, void **door);
    /* Stop accepting; let what is in flight be answered (GOAWAY, Connection: close). */
    void (*drain)(void *door);
    /* Connections still open. */
    unsigned (*connections)(const void *door);
    /* Close everything at once and free. */
    void (*close)(void *door);
};

extern const struct wr_door wr_door_http;
extern const struct wr_door wr_door_grpc;
extern const struct wr_door wr_door_resp;
extern const struct wr_door wr_door_admin;

/* What the policy says of |listener|. */
struct wr_listener {
    const char *door; /* its name */
    const char
        *address; /* as written: "127.0.0.1:8080", "[::1]:8080", "unix:/run/weir/http.sock" */
    const struct wr_tls *tls; /* NULL: in clear */
};

/* ---- the server as doors see it ------------------------------------------------------------ */

unsigned wr_server_loops(const struct wr_server *server);
struct wr_loop *wr_server_loop(struct wr_server *server, unsigned index);

/* Reload the policy file. 0, or WEIR_E* with the errors in |errors|: the old policy stays. Any
 * thread; applied to all loops before it returns to the caller's next turn. */
int wr_server_reload(struct wr_server *server, char *errors, size_t errors_size);

/* Is it able to serve: started, not draining, last reload well? |detail| gets one line that says
 * why not. */
bool wr_server_ready(const struct wr_server *server, char *detail, size_t size);

#endif
