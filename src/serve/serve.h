/* serve.h - the daemon: what its parts know of each other.
 *
 *   server   one per process: the policy file, the listeners, the loops, reload, drain
 *   loop     one per core: a thread, a libuv loop, its own listeners (SO_REUSEPORT) and counters
 *   handle   a policy in force, counted by reference: a reload swaps it under each loop, in the
 *            loop's own turn, and the old one is closed when the last answer that holds it is done
 *   door     a protocol: opens on a listening socket of a loop, answers by the loop's handle
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
#include "serve/refused.h"
#include "weir/weir.h"

struct wr_server;
struct wr_broker;

/* ---- policies in force --------------------------------------------------------------------- */

struct wr_handle {
    struct weir *weir;
    const struct wr_policy *policy; /* of |weir| */
    uint64_t generation;            /* 1 for the first policy, one more for each reload */
    const char *admin_token;        /* from the policy or its file; NULL: none */
    const char *resp_password;      /* the same */
    /* private */
    unsigned references; /* atomic */
    char *token_memory, *password_memory;
    struct wr_known *known; /* totals.c's; NULL: not known there */
};

/* Open the policy at |path| as generation |before| + 1 (|before| NULL: the first); its arena is the
 * same where the policy says so. One reference is the caller's. |errors|: as weir_open. */
int wr_handle_open(struct wr_handle **out, const char *path, struct wr_handle *before, char *errors,
                   size_t errors_size);

void wr_handle_ref(struct wr_handle *handle);
/* The last one closes it. Any thread. */
void wr_handle_unref(struct wr_handle *handle);

/* ---- loops --------------------------------------------------------------------------------- */

struct wr_loop {
    uv_loop_t uv;
    struct wr_server *server;
    unsigned index;
    struct wr_handle *handle;  /* the policy this loop decides by; changed only between turns */
    struct wr_broker *broker;  /* of shared limits: broker.h */
    struct wr_refused refused; /* refused.c's */
    struct wr_metrics metrics; /* written by this loop alone, read by the admin door */
    bool draining;             /* a door opened by drain(): answers, then closes */
    int64_t now_ns;            /* private: of this turn; 0: not read yet */
    int64_t bad_told_s;        /* bad_input.c's: the second, and lines in it */
    unsigned bad_told;
    uint64_t unsent_bytes; /* memory of what waits to be sent, on all its connections */
};

/* Now on the arena's clock, read once a turn of the loop (all decisions of a pipelined read share
 * it). */
int64_t wr_loop_now(struct wr_loop *loop);

/* Does more wait to be sent than the policy lets, were there |more_bytes| more? */
static inline bool wr_loop_crowded(const struct wr_loop *loop, uint64_t more_bytes)
{
    return loop->unsent_bytes + more_bytes >
           wr_policy_settings(loop->handle->policy)->unsent_bytes_max;
}

/* ---- doors --------------------------------------------------------------------------------- */

struct wr_listener; /* one address of one door: from the policy's listen section */

struct wr_door {
    const char *name; /* http, grpc, resp, agent, admin: as in the policy and in metrics */
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

/* One address of one door, as it is served. */
struct wr_listener {
    const char *door;    /* its name */
    const char *address; /* as it is: "127.0.0.1:8080", "[::1]:8080", "unix:/run/weir/http.sock" */
    struct wr_tls *tls;  /* NULL: in clear; see tls.h */
};

/* ---- the server as doors see it ------------------------------------------------------------ */

/* Serve until a signal ends it. Prints why it cannot start. Returns the exit status. */
struct wr_server_options {
    const char *policy_path;
    /* The admin door is opened on the first loop alone, and is the last to be closed. */
    const struct wr_door *const *doors;
    size_t door_count;
};
int wr_server_run(const struct wr_server_options *options);

/* First thing in the process: SIGHUP, SIGUSR1 and SIGUSR2 wait until the server serves. */
void wr_server_hold_signals(void);

unsigned wr_server_loops(const struct wr_server *server);
struct wr_loop *wr_server_loop(struct wr_server *server, unsigned index);

/* Reload the policy file. 0, or WEIR_E* with the errors in |errors|: the old policy stays. Any
 * thread; applied to all loops before it returns to the caller's next turn. */
int wr_server_reload(struct wr_server *server, char *errors, size_t errors_size);

/* The |index|th address that is served; NULL: there are no more. */
const struct wr_listener *wr_server_listener(const struct wr_server *server, size_t index);

/* May one connection more be kept open? Its descriptor is there already; so many stay free that a
 * reload can open its files, and that accepting never fails for want of one: libuv keeps a spare
 * for that moment, which another loop can snatch, and then spins. The last few are the admin
 * door's: who is to look what is wrong gets in. Any thread. */
bool wr_server_take_connection(struct wr_server *server, enum wr_door_id door);
void wr_server_leave_connection(struct wr_server *server);

/* How reloads went, from zero. */
void wr_server_reloads(const struct wr_server *server, uint64_t *good, uint64_t *refused);

/* The policy in force; a reference is the caller's. */
struct wr_handle *wr_server_handle(struct wr_server *server);

/* Is it able to serve: started, not draining, last reload well? |detail| gets one line that says
 * why not. */
bool wr_server_ready(const struct wr_server *server, char *detail, size_t size);

#endif
