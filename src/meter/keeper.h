/* keeper.h - the daemon's thread that keeps customers and the ledger: it alone writes customers.map
 * and the rows of usage, by the database that anybody may change.
 *
 * Decisions never wait for it. If the disk is full, read-only or broken, they go on by the mapped
 * files, what is used stays in the cells with their dirty bits, the trouble is said once, and when
 * the disk is back all of it is written. Nothing is lost but by a power loss in between.
 *
 * Two daemons on one directory: one has the lock and writes, the other says so, decides by the same
 * files, and takes over when the first has ended. */
#ifndef WR_METER_KEEPER_H
#define WR_METER_KEEPER_H

#include "base/diag.h"
#include "meter/alert.h"
#include "meter/database.h"
#include "policy/policy.h"

struct wr_keeper;

enum wr_keeper_level { WR_KEEPER_INFO, WR_KEEPER_WARNING, WR_KEEPER_ERROR };

/* Something that an operator should hear of: an event in few words and what is to be said of it.
 * Called in the keeper's thread, or in wr_keeper_start. */
typedef void wr_keeper_say_fn(void *context, enum wr_keeper_level level, const char *event,
                              const char *detail);

struct wr_keeper_options {
    const struct wr_policy *policy; /* has customers; used during the call only */
    wr_keeper_say_fn *say;
    /* A threshold was reached: for the log. Once, or once more after a kill. NULL: nobody hears. */
    void (*told)(void *context, const struct wr_alert *alert);
    wr_alert_ask_fn *ask; /* the store of shared quotas; NULL: there is none */
    void *context;
    int64_t (*now_ns)(void); /* the wall clock; NULL: the system's */
};

/* Make the files, read the customers' file, fill customers.map, start the thread. Trouble with the
 * disk is no error: it is said, and tried again. Errors of the customers' file are: |diag| has
 * them. Returns 0, WEIR_EPOLICY, WEIR_EIO (that file cannot be read), WEIR_ENOMEM. */
int wr_keeper_start(struct wr_keeper **out, const struct wr_keeper_options *options,
                    struct wr_diag *diag);

/* Read what |policy|, which has customers, names for the keeper: its file of customers; and whether
 * what is in its directory fits: files of usage, and keys that others have. Nothing is made or
 * changed. |diag| has what is wrong. */
void wr_keeper_check(const struct wr_policy *policy, struct wr_diag *diag);

/* Another policy. In two steps, so that a reload is all or nothing: look whether it can be taken,
 * then take it. The first returns as wr_keeper_start and changes nothing. */
struct wr_keeper_config;
int wr_keeper_prepare(struct wr_keeper *keeper, const struct wr_policy *policy,
                      struct wr_keeper_config **out, struct wr_diag *diag);
void wr_keeper_take(struct wr_keeper *keeper, struct wr_keeper_config *config);
void wr_keeper_drop(struct wr_keeper_config *config);

/* Flush for the last time, end the thread, free. NULL does nothing. */
void wr_keeper_stop(struct wr_keeper *keeper);

/* Have what was changed in the database in the map, and what was used in the database, before this
 * returns: a whole turn of the thread that began after the call. False: not within |timeout_ms|, or
 * there is trouble. Not from a loop's thread: it waits. */
bool wr_keeper_pass(struct wr_keeper *keeper, unsigned timeout_ms);

struct wr_keeper_state {
    bool writer;                        /* this process has the lock */
    enum wr_disk disk;                  /* of the database */
    char detail[WR_FAULT_TEXT_MAX];     /* one line of what is wrong; "": nothing */
    int64_t since_ns;                   /* when that began; 0: nothing is wrong */
    int64_t flushed_ns;                 /* when the ledger was last all written; 0: never */
    uint64_t batches, rows;             /* written */
    uint64_t expired;                   /* windows that were deleted as too old */
    uint64_t failures;                  /* turns that could not be written */
    uint64_t waiting;                   /* cells seen changed and not written, at the last turn */
    uint64_t customers, keys, left_out; /* in customers.map; with no room in it, or in a file of
                                           usage */
    uint64_t upgrades, trials;          /* made; that ended */
    uint64_t lost;                      /* units: wr_usage_lost_units of all quotas */
    uint64_t damaged;                   /* cells with a window that cannot be */
    char damage[WR_FAULT_TEXT_MAX];     /* which is the first; "": none */
    uint64_t astray;                    /* files that have not their names any more */
    char stray[WR_FAULT_TEXT_MAX];      /* which is the first; "": none */
};
void wr_keeper_state(struct wr_keeper *keeper, struct wr_keeper_state *out);

/* Alerts and webhooks. */
struct wr_webhook_state {
    /* By enum wr_alert_kind: tries that were answered 2xx (of upgrades: or no), that failed, events
     * that were given up. */
    uint64_t sent[2], failed[2], given_up[2];
    uint64_t waiting, dead; /* events, now */
};
void wr_keeper_webhook_state(struct wr_keeper *keeper, struct wr_webhook_state *out);

/* How often a threshold was told by this process. */
struct wr_alert_count {
    char quota[65];
    uint8_t percent;
    uint64_t count;
};
#define WR_ALERT_COUNTS_MAX 1024
/* Each threshold of the policy, and those of policies before. Returns how many. */
size_t wr_keeper_alert_counts(struct wr_keeper *keeper,
                              struct wr_alert_count out[WR_ALERT_COUNTS_MAX]);

/* The database's path, for connections of other threads. Until wr_keeper_stop. */
const char *wr_keeper_path(const struct wr_keeper *keeper);

#endif
