/* server.h - the server, as its own two files see it: server.c (start, watch, end) and reload.c.
 * Internal. */
#ifndef WR_SERVE_SERVER_H
#define WR_SERVE_SERVER_H

#include <pthread.h>
#include <unistd.h>

#include "serve/clock_watch.h"
#include "serve/descriptors.h"
#include "serve/keeping.h"
#include "serve/loop.h"
#include "serve/reservations.h"
#include "serve/store_state.h"
#include "serve/totals.h"

#define WR_ERRORS_BYTES 65536U
#define WR_DETAIL_BYTES 512U

/* What was taken from the policy at the start, and from none after it. */
struct wr_started {
    unsigned threads;
    int64_t idle_ns, stall_ns;
    char agent_path[WR_ADDRESS_MAX];
};

struct wr_server {
    struct wr_server_options options;
    uv_loop_t uv; /* of the main thread */
    uv_signal_t hup, term, interrupt, user1, user2;
    uv_work_t reload; /* in a thread of its own: files may be on a disk that does not answer */
    bool reloading;   /* that thread is at it */
    bool hup_again;   /* asked for once more meanwhile */
    bool ending;      /* under reload_mutex: no reload begins any more */
    uv_timer_t watchdog, drain;
    struct wr_clock_watch clock_watch;
    uint64_t drain_until_ms;

    struct wr_sockets sockets;
    struct wr_started started_with;
    struct wr_reservations *reservations;
    struct wr_totals *totals;
    struct wr_store_state store;
    struct wr_keeping keeping;
    struct wr_worker **workers;
    unsigned worker_count; /* running */
    unsigned loops;        /* wanted */
    struct wr_descriptors descriptors;

    bool started, draining; /* atomic */

    pthread_mutex_t reload_mutex; /* one reload at a time */
    pthread_mutex_t state_mutex;  /* what follows; held for moments */
    struct wr_handle *current;
    uint64_t reloads_good, reloads_refused;
    char refused[WR_DETAIL_BYTES]; /* why the last reload was; "": it was not */
};

/* How long a drain may take, by the policy in force. */
int64_t wr_server_drain_ns(struct wr_server *server);

#endif
