/* keeper_parts.h - the keeper as its own files see it. Internal to src/meter. */
#ifndef WR_METER_KEEPER_PARTS_H
#define WR_METER_KEEPER_PARTS_H

#include <pthread.h>

#include "meter/expire.h"
#include "meter/keeper.h"
#include "meter/keeper_config.h"
#include "meter/mirror.h"

struct wr_keeper {
    wr_keeper_say_fn *say;
    void (*told)(void *context, const struct wr_alert *alert);
    wr_alert_ask_fn *ask;
    void *context;
    int64_t (*now_ns)(void);
    struct wr_webhook *webhook;
    char path[4096 + 16]; /* of the database */

    /* The thread's, and before it runs wr_keeper_start's. */
    struct wr_keeper_config *config;
    struct wr_mirror mirror;
    struct wr_database *database; /* NULL: not open */
    int64_t node;
    bool mirrored;       /* all of the database that is open has been compared with the map */
    bool roster_pending; /* config->roster is not applied */
    bool recount;        /* customers and keys are to be counted */
    bool left_out_said;
    bool uncounted_said;
    uint64_t astray_said; /* how many files */
    bool plans_pending;   /* it is to be said which plans of customers the policy has not */
    unsigned plans_said;
    int64_t scan_ns;           /* when all cells are to be looked at next */
    int64_t open_ns;           /* when the database is to be opened next */
    int64_t wait_ns;           /* when the cells that wait are to be counted next */
    int64_t turn_ns;           /* of the turn before, for keeper_expire.c; 0: none */
    int64_t expire_ns;         /* when old rows are to be deleted next */
    struct wr_expired expired; /* since they were begun to be */
    struct wr_fault said;      /* the trouble that was said; WR_DISK_WELL: none */
    bool other_said;           /* that another process keeps the ledger */
    bool left_known;           /* the directory was looked through for what follows */
    size_t left_count;         /* quotas that the policy has no more */
    struct wr_kept left[WR_LEDGER_QUOTAS_MAX];

    pthread_t thread;
    bool running;
    pthread_mutex_t mutex; /* what follows; held for moments */
    pthread_cond_t wake;   /* the thread, or those who wait for a turn of it */
    pthread_cond_t turned;
    bool stop;
    uint64_t asked, done, well; /* turns: wanted, ended, ended without trouble */
    struct wr_keeper_config *next;
    struct wr_keeper_state state;
    size_t alert_count;
    struct wr_alert_count alerts[WR_ALERT_COUNTS_MAX];
};

/* ---- keeper_alerts.c ------------------------------------------------------------------------ */

/* Start the thread that tells; and give it, and the counters, what |keeper->config| has. */
int wr_keeper_start_webhook(struct wr_keeper *keeper, const struct wr_keeper_options *options);
void wr_keeper_take_alerts(struct wr_keeper *keeper);

/* wr_keeper_start with what is taken from the policy; |config| is the keeper's from here on, on an
 * error too. */
int wr_keeper_begin(struct wr_keeper **out, const struct wr_keeper_options *options,
                    struct wr_keeper_config *config, struct wr_diag *diag);

/* ---- keeper_disk.c -------------------------------------------------------------------------- */

/* Have the lock, the map, the database: open what is not, and say what is wrong. False: not this
 * turn. */
bool wr_keeper_open(struct wr_keeper *keeper, int64_t now_ns);

/* If customers.map has its name no more: decisions have another one from the next policy on, which
 * is opened by the next turn. */
void wr_keeper_let_go_of_map(struct wr_keeper *keeper);

/* Something has gone wrong with the database: said if it is news. It is closed, unless it is busy
 * or full and may be well the next time. */
void wr_keeper_trouble(struct wr_keeper *keeper, const struct wr_fault *fault, int64_t now_ns);

/* All went well: said if it had not. */
void wr_keeper_recovered(struct wr_keeper *keeper, int64_t now_ns);

/* ---- keeper_expire.c ------------------------------------------------------------------------ */

/* Delete some of what the policy does not keep any longer, where that is due. 0, or an error of the
 * database. */
int wr_keeper_expire(struct wr_keeper *keeper, int64_t now_ns);

/* ---- keeper_files.c ------------------------------------------------------------------------- */

/* Are files of usage older than the ledger? Then they are to be restored, after the map. */
int wr_keeper_look_at_files(struct wr_keeper *keeper, struct wr_flush *flush);
/* wr_flush_restore; said where the file was older. */
int wr_keeper_restore_file(struct wr_keeper *keeper, struct wr_flush *flush, struct wr_kept *kept);

/* What wr_flush_scan found, said and into the state. */
void wr_keeper_say_damage(struct wr_keeper *keeper);

/* Have all files that are counted in still their names? Said where not, and into the state. */
void wr_keeper_look_at_names(struct wr_keeper *keeper);

/* The quota's open file has its name no more, or there is no file open. */
bool wr_keeper_is_astray(const struct wr_keeper_config *config, const struct wr_kept *kept);

/* Customers who have a record in the map, and no cell in every file of usage. */
int wr_keeper_count_uncounted(struct wr_keeper *keeper, uint64_t *out);

/* ---- keeper_left.c -------------------------------------------------------------------------- */

/* Quota |index| of those that are flushed: the policy's, then those that it has no more. NULL: no
 * more. */
struct wr_kept *wr_keeper_kept(struct wr_keeper *keeper, size_t index);

/* Find files of usage that the policy does not name, unless that was done since they were closed;
 * the database is open. What is not looked at is said. */
void wr_keeper_left_find(struct wr_keeper *keeper);
void wr_keeper_left_close(struct wr_keeper *keeper);

/* ---- keeper_turn.c -------------------------------------------------------------------------- */

/* What there is to do now. |starting|: what others need before they decide. Returns 0: all is done;
 * 1: there is more to write; an error: there is trouble, which was said. */
int wr_keeper_turn(struct wr_keeper *keeper, int64_t now_ns, bool starting);

/* Write what the policy's quotas have counted, as far as that can be done: it is about to be
 * another policy. */
void wr_keeper_write_last(struct wr_keeper *keeper, int64_t now_ns);

/* The customers' file into the database. 0, WEIR_EPOLICY (|diag|), or an error of the database. */
int wr_keeper_apply_roster(struct wr_keeper *keeper, struct wr_database *database, int64_t now_ns,
                           struct wr_diag *diag);

#endif
