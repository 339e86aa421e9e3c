/* keeper.c - the keeper's thread, its start, its end, and another policy for it.
 *
 * Idea. A turn does all there is to do; the thread makes one each `flush`, or when somebody waits
 * for one. What others may ask of the keeper is in a state that they copy under a mutex, which is
 * held for moments: no loop ever waits for SQLite.
 *
 * Invariant: files and database are the thread's alone from its start to its end. */
#include "meter/keeper.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/units.h"
#include "meter/keeper_parts.h"

#define LAST_TURNS 4096 /* of an end that finds more to write each time */

static int64_t wall_clock(void)
{
    return wr_clock_wall().ns;
}

/* ---- the thread ----------------------------------------------------------------------------- */

static struct timespec later(int64_t ns)
{
    struct timespec at;

    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    ns += at.tv_nsec;
    at.tv_sec += (time_t)(ns / WR_NS_PER_S);
    at.tv_nsec = (long)(ns % WR_NS_PER_S);
    return at;
}

/* A quota that was kept before goes on with its open file, and with what is known to be written.
 * Unless it was taken away: then those who decide count in another one from now on, which is to be
 * raised to the ledger. */
static void inherit(struct wr_kept *kept, struct wr_keeper_config *before)
{
    for (size_t i = 0; i < before->quota_count; i++) {
        struct wr_kept *was = &before->quota[i];
        struct wr_kept mine = *kept;
        if (strcmp(was->name, kept->name) != 0 || was->civil.per != kept->civil.per ||
            was->usage == NULL)
            continue;
        if (kept->usage != NULL && wr_keeper_is_astray(before, was))
            continue;
        kept->usage = was->usage;
        kept->written = was->written;
        kept->room = was->room;
        kept->row = strcmp(was->zone, kept->zone) == 0 ? was->row : 0;
        kept->since = was->since;
        kept->scan_at = was->scan_at;
        kept->scanning = was->scanning;
        kept->compared = was->compared;
        kept->damaged = was->damaged;
        kept->damaged_at = was->damaged_at;
        kept->damaged_cell = was->damaged_cell;
        kept->damaged_day = was->damaged_day;
        kept->damage_said = was->damage_said;
        was->usage = mine.usage;
        was->written = mine.written;
        was->room = mine.room;
    }
}

static void take_next(struct wr_keeper *keeper, struct wr_keeper_config *next)
{
    struct wr_keeper_config *before = keeper->config;

    if (next == NULL)
        return;
    wr_keeper_write_last(keeper, keeper->now_ns());
    wr_keeper_left_close(keeper); /* some may be the policy's again */
    wr_keeper_let_go_of_map(keeper);
    for (size_t i = 0; i < next->quota_count; i++)
        inherit(&next->quota[i], before);
    if (next->keep_ns != before->keep_ns)
        keeper->turn_ns = 0;
    keeper->config = next;
    wr_keeper_take_alerts(keeper);
    keeper->roster_pending = next->roster != NULL;
    keeper->left_out_said = false;
    keeper->plans_pending = true;
    keeper->recount = true;
    wr_keeper_config_free(before);
}

/* Turns until nothing is left, or there is trouble. */
static int turn_all(struct wr_keeper *keeper)
{
    int result = 1;

    for (unsigned i = 0; result == 1 && i < LAST_TURNS; i++)
        result = wr_keeper_turn(keeper, keeper->now_ns(), false);
    return result;
}

/* Wait for the next turn. True: the last one. */
static bool wait_turn(struct wr_keeper *keeper, bool more, uint64_t *goal,
                      struct wr_keeper_config **next)
{
    struct timespec until = later(keeper->config->flush_ns);
    bool stop;

    (void)pthread_mutex_lock(&keeper->mutex);
    while (!more && !keeper->stop && keeper->asked == keeper->done && keeper->next == NULL &&
           pthread_cond_timedwait(&keeper->wake, &keeper->mutex, &until) != ETIMEDOUT)
        continue;
    *goal = keeper->asked;
    *next = keeper->next;
    keeper->next = NULL;
    stop = keeper->stop;
    (void)pthread_mutex_unlock(&keeper->mutex);
    return stop;
}

static void *run(void *context)
{
    struct wr_keeper *keeper = context;
    struct wr_keeper_config *next;
    bool more = true, stop = false;
    uint64_t goal;

    while (!stop) {
        int result;
        stop = wait_turn(keeper, more, &goal, &next);
        take_next(keeper, next);
        result = stop || goal > keeper->done ? turn_all(keeper)
                                             : wr_keeper_turn(keeper, keeper->now_ns(), false);
        more = result == 1;
        (void)pthread_mutex_lock(&keeper->mutex);
        keeper->done = goal;
        if (result == 0)
            keeper->well = goal;
        (void)pthread_cond_broadcast(&keeper->turned);
        (void)pthread_mutex_unlock(&keeper->mutex);
    }
    return NULL;
}

bool wr_keeper_pass(struct wr_keeper *keeper, unsigned timeout_ms)
{
    struct timespec until = later((int64_t)timeout_ms * WR_NS_PER_MS);
    uint64_t goal;
    bool well;

    (void)pthread_mutex_lock(&keeper->mutex);
    goal = ++keeper->asked;
    (void)pthread_cond_signal(&keeper->wake);
    while (keeper->done < goal &&
           pthread_cond_timedwait(&keeper->turned, &keeper->mutex, &until) != ETIMEDOUT)
        continue;
    well = keeper->well >= goal;
    (void)pthread_mutex_unlock(&keeper->mutex);
    return well;
}

void wr_keeper_state(struct wr_keeper *keeper, struct wr_keeper_state *out)
{
    (void)pthread_mutex_lock(&keeper->mutex);
    *out = keeper->state;
    (void)pthread_mutex_unlock(&keeper->mutex);
}

const char *wr_keeper_path(const struct wr_keeper *keeper)
{
    return keeper->path;
}

/* ---- start and end -------------------------------------------------------------------------- */

/* Signals are the main thread's. */
static int start_thread(struct wr_keeper *keeper)
{
    sigset_t all, before;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    keeper->running = pthread_create(&keeper->thread, NULL, run, keeper) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return keeper->running ? 0 : WEIR_ENOMEM;
}

static struct wr_keeper *make(const struct wr_keeper_options *options)
{
    struct wr_keeper *keeper = calloc(1, sizeof *keeper);
    pthread_condattr_t monotonic;

    if (keeper == NULL)
        return NULL;
    keeper->say = options->say;
    keeper->context = options->context;
    keeper->now_ns = options->now_ns != NULL ? options->now_ns : wall_clock;
    (void)pthread_mutex_init(&keeper->mutex, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&keeper->wake, &monotonic);
    (void)pthread_cond_init(&keeper->turned, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    return keeper;
}

/* Files of usage that are of another kind are an error of the policy; ones that cannot be made or
 * read are trouble with the disk, and tried again. */
static int open_usage(struct wr_keeper_config *config, struct wr_diag *diag)
{
    int result = 0;

    (void)mkdir(config->directory, 0770);
    for (size_t i = 0; result == 0 && i < config->quota_count; i++) {
        struct wr_diag quiet;
        wr_diag_init(&quiet, NULL);
        result = wr_kept_open(&config->quota[i], config->directory, config->room, &quiet);
        if (result == WEIR_EFORMAT) {
            wr_diag_add(diag, WR_ERROR, 0, 0, "quota %s: %s", config->quota[i].name,
                        quiet.kept > 0 ? quiet.items[0].text : weir_strerror(result));
            return WEIR_EPOLICY;
        }
        result = result == WEIR_ENOMEM ? result : 0;
    }
    return result;
}

/* Errors of the customers' file that only the database can say; nothing is changed. */
static int try_roster(struct wr_keeper *keeper, struct wr_keeper_config *config,
                      struct wr_diag *diag)
{
    const struct wr_database_options options = {.path = keeper->path};
    const struct wr_author author = {"weir", "", keeper->now_ns()};
    struct wr_database *database;
    struct wr_roster_done done;
    struct wr_fault fault;
    int result;

    if (config->roster == NULL || wr_database_open(&database, &options, &fault) != 0)
        return 0;
    result = wr_database_begin(database);
    if (result == 0) {
        result = wr_roster_apply(config->roster, database, config->room, &author, diag, &done);
        wr_database_rollback(database);
    }
    wr_database_close(database);
    return result == WEIR_EPOLICY ? result : 0;
}

/* Look whether |config| can be taken. */
static int look_ahead(struct wr_keeper *keeper, struct wr_keeper_config *config,
                      struct wr_diag *diag)
{
    int result = open_usage(config, diag);

    return result == 0 ? try_roster(keeper, config, diag) : result;
}

int wr_keeper_begin(struct wr_keeper **out, const struct wr_keeper_options *options,
                    struct wr_keeper_config *config, struct wr_diag *diag)
{
    struct wr_keeper *keeper = make(options);
    int result;

    *out = NULL;
    if (keeper == NULL) {
        wr_keeper_config_free(config);
        return WEIR_ENOMEM;
    }
    keeper->config = config;
    keeper->plans_pending = true;
    (void)snprintf(keeper->path, sizeof keeper->path, "%s/%s", config->directory, WR_DATABASE_NAME);
    result = look_ahead(keeper, config, diag);
    if (result == 0)
        result = wr_keeper_start_webhook(keeper, options);
    if (result == 0) {
        (void)wr_keeper_turn(keeper, keeper->now_ns(), true); /* trouble has been said */
        result = start_thread(keeper);
    }
    if (result == 0)
        *out = keeper;
    else
        wr_keeper_stop(keeper);
    return result;
}

int wr_keeper_start(struct wr_keeper **out, const struct wr_keeper_options *options,
                    struct wr_diag *diag)
{
    struct wr_keeper_config *config;
    int result = wr_keeper_config_new(&config, options->policy, diag);

    *out = NULL;
    return result == 0 ? wr_keeper_begin(out, options, config, diag) : result;
}

void wr_keeper_stop(struct wr_keeper *keeper)
{
    if (keeper == NULL)
        return;
    (void)pthread_mutex_lock(&keeper->mutex);
    keeper->stop = true;
    (void)pthread_cond_signal(&keeper->wake);
    (void)pthread_mutex_unlock(&keeper->mutex);
    if (keeper->running)
        (void)pthread_join(keeper->thread, NULL);
    wr_webhook_stop(keeper->webhook); /* after the last flush: what that has reached is told */
    wr_database_close(keeper->database);
    wr_keeper_config_free(keeper->next);
    wr_keeper_left_close(keeper);
    wr_keeper_config_free(keeper->config);
    wr_customers_close(keeper->mirror.map);
    (void)pthread_cond_destroy(&keeper->wake);
    (void)pthread_cond_destroy(&keeper->turned);
    (void)pthread_mutex_destroy(&keeper->mutex);
    free(keeper);
}

/* ---- another policy ------------------------------------------------------------------------- */

int wr_keeper_prepare(struct wr_keeper *keeper, const struct wr_policy *policy,
                      struct wr_keeper_config **out, struct wr_diag *diag)
{
    int result = wr_keeper_config_new(out, policy, diag);

    if (result != 0)
        return result;
    result = look_ahead(keeper, *out, diag);
    if (result != 0) {
        wr_keeper_config_free(*out);
        *out = NULL;
    }
    return result;
}

void wr_keeper_take(struct wr_keeper *keeper, struct wr_keeper_config *config)
{
    struct wr_keeper_config *unused;

    (void)pthread_mutex_lock(&keeper->mutex);
    unused = keeper->next;
    keeper->next = config;
    (void)pthread_cond_signal(&keeper->wake);
    (void)pthread_mutex_unlock(&keeper->mutex);
    wr_keeper_config_free(unused);
}

void wr_keeper_drop(struct wr_keeper_config *config)
{
    wr_keeper_config_free(config);
}
