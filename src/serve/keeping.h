/* keeping.h - customers and the ledger in the daemon: the keeper (meter/keeper.h) started, given
 * other policies, ended; and what it says, in the log. */
#ifndef WR_SERVE_KEEPING_H
#define WR_SERVE_KEEPING_H

#include <pthread.h>

#include "meter/keeper.h"
#include "serve/alerting.h"

struct wr_server;

struct wr_keeping {
    pthread_rwlock_t lock; /* of the pointer: held for reading by whoever uses what it points to */
    struct wr_keeper *keeper; /* NULL: the policy has no customers */
    char directory[4096];
    struct wr_alerting alerting;
};

void wr_keeping_init(struct wr_keeping *keeping);
void wr_keeping_fini(struct wr_keeping *keeping);

/* Loops serve from here on, and until the other: what is asked of the store goes through them. */
void wr_keeping_loops_run(struct wr_keeping *keeping, struct wr_worker *first);
void wr_keeping_loops_end(struct wr_keeping *keeping);

/* Start with |policy|; nothing where it has no customers. Errors go to |errors|, a line each.
 * Returns as wr_keeper_start. */
int wr_keeping_start(struct wr_keeping *keeping, const struct wr_policy *policy, char *errors,
                     size_t size);

/* Flush for the last time, and end. */
void wr_keeping_stop(struct wr_keeping *keeping);

/* Another policy: looked at, then taken or dropped. One at a time. */
struct wr_keeping_next {
    struct wr_keeper_config *config; /* for the keeper that there is */
    struct wr_keeper *keeper;        /* another, of another directory */
    char directory[4096];            /* ""; the policy has no customers */
};
int wr_keeping_prepare(struct wr_keeping *keeping, const struct wr_policy *policy,
                       struct wr_keeping_next *out, char *errors, size_t size);
void wr_keeping_take(struct wr_keeping *keeping, struct wr_keeping_next *next);
void wr_keeping_drop(struct wr_keeping_next *next);

/* ---- for doors, in any thread; each false where there is no keeper ------------------------------
 */

/* Never waits. */
bool wr_keeping_state(struct wr_server *server, struct wr_keeper_state *out);

/* wr_keeper_pass: waits; not in a loop's thread. */
bool wr_keeping_pass(struct wr_server *server, unsigned timeout_ms);

/* How alerts and webhooks do. Never waits. */
bool wr_keeping_alerts(struct wr_server *server, struct wr_webhook_state *state,
                       struct wr_alert_count counts[WR_ALERT_COUNTS_MAX], size_t *count);

/* The database's path. */
bool wr_keeping_path(struct wr_server *server, char *out, size_t size);

#endif
