/* keeper_disk.c - the keeper's files: opened when they can be, and what is said when they cannot.
 *
 * Invariants:
 *   1. A database that should be there is never made anew in silence: one is made only beside a
 *      customers.map that has never seen one.
 *   2. A damaged one is renamed, not deleted, and stays out of the way until somebody puts a copy
 * in its place, or says that a new one is to be begun.
 *   3. A trouble is said when it begins, when it becomes another, and when it is over. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/units.h"
#include "meter/keeper_parts.h"
#include "meter/missing.h"
#include "meter/schema.h"

#define OPEN_EVERY_NS WR_NS_PER_S
#define CHECKED_BYTES \
    (64 << 20) /* of a file that is read whole when it is opened: tenths of a second */

/* ---- trouble -------------------------------------------------------------------------------- */

static void close_database(struct wr_keeper *keeper)
{
    wr_database_close(keeper->database);
    keeper->database = NULL;
}

/* The file is renamed; |fault| says so. */
static void set_aside(struct wr_keeper *keeper, struct wr_fault *fault, int64_t now_ns)
{
    char aside[4096 + 64], text[WR_FAULT_TEXT_MAX];

    memcpy(text, fault->text, sizeof text);
    close_database(keeper);
    wr_webhook_pause(keeper->webhook);
    if (wr_database_set_aside(keeper->path, now_ns, aside, sizeof aside) != 0)
        (void)wr_fault_set(fault, WEIR_ECORRUPT, WR_DISK_CORRUPT,
                           "%.300s; it cannot be renamed: %s", text, strerror(errno));
    else
        (void)wr_fault_set(fault, WEIR_ECORRUPT, WR_DISK_CORRUPT,
                           "%.200s; it is set aside as %.150s: put a copy in its place, or begin a "
                           "new one with `weir customer recover`",
                           text, aside);
    wr_webhook_resume(keeper->webhook);
}

static bool is_news(const struct wr_fault *said, const struct wr_fault *fault)
{
    if (said->disk == fault->disk)
        return false;
    return said->disk != WR_DISK_CORRUPT || fault->disk != WR_DISK_MISSING; /* it was set aside */
}

void wr_keeper_trouble(struct wr_keeper *keeper, const struct wr_fault *given, int64_t now_ns)
{
    struct wr_fault fault = *given;
    bool news;

    if (fault.disk == WR_DISK_WELL) /* nothing of the disk: out of memory, a row that cannot be */
        fault.disk = WR_DISK_FAILED;
    if (fault.disk == WR_DISK_CORRUPT && keeper->mirror.map != NULL)
        set_aside(keeper, &fault, now_ns);
    else if (fault.disk != WR_DISK_BUSY && fault.disk != WR_DISK_FULL)
        close_database(keeper);
    keeper->open_ns = now_ns + OPEN_EVERY_NS;
    news = is_news(&keeper->said, &fault);
    (void)pthread_mutex_lock(&keeper->mutex);
    keeper->state.failures++;
    if (keeper->state.since_ns == 0)
        keeper->state.since_ns = now_ns;
    if (news) {
        keeper->state.disk = fault.disk;
        memcpy(keeper->state.detail, fault.text, sizeof keeper->state.detail);
    }
    (void)pthread_mutex_unlock(&keeper->mutex);
    if (!news)
        return;
    keeper->said = fault;
    keeper->say(keeper->context, WR_KEEPER_ERROR,
                "the ledger cannot be written; decisions go on, what is used waits in the cells",
                fault.text);
}

void wr_keeper_recovered(struct wr_keeper *keeper, int64_t now_ns)
{
    char text[64];
    int64_t since_ns;

    if (keeper->said.disk == WR_DISK_WELL)
        return;
    (void)pthread_mutex_lock(&keeper->mutex);
    since_ns = keeper->state.since_ns;
    keeper->state.since_ns = 0;
    keeper->state.disk = WR_DISK_WELL;
    keeper->state.detail[0] = '\0';
    (void)pthread_mutex_unlock(&keeper->mutex);
    keeper->said = (struct wr_fault){0};
    (void)snprintf(text, sizeof text, "after %" PRId64 " s", (now_ns - since_ns) / WR_NS_PER_S);
    keeper->say(keeper->context, WR_KEEPER_INFO, "the ledger is written again", text);
}

/* ---- the map -------------------------------------------------------------------------------- */

/* Another process keeps customers and ledger: not a trouble, and not ours to do. */
static void stand_by(struct wr_keeper *keeper)
{
    (void)pthread_mutex_lock(&keeper->mutex);
    keeper->state.writer = false;
    (void)pthread_mutex_unlock(&keeper->mutex);
    if (!keeper->other_said)
        keeper->say(
            keeper->context, WR_KEEPER_WARNING,
            "another process keeps customers and ledger; this one decides by its files, and "
            "takes over when it ends",
            keeper->config->directory);
    keeper->other_said = true;
}

static void take_over(struct wr_keeper *keeper)
{
    (void)pthread_mutex_lock(&keeper->mutex);
    keeper->state.writer = true;
    (void)pthread_mutex_unlock(&keeper->mutex);
    if (keeper->other_said)
        keeper->say(keeper->context, WR_KEEPER_INFO, "this process keeps customers and ledger now",
                    keeper->config->directory);
    keeper->other_said = false;
    keeper->roster_pending = keeper->config->roster != NULL;
}

static void trouble_with(struct wr_keeper *keeper, const char *path, const struct wr_diag *diag,
                         int result, int64_t now_ns)
{
    struct wr_fault fault;

    (void)wr_fault_set(&fault, result, wr_disk_look(path), "%s: %s", path,
                       diag->kept > 0 ? diag->items[0].text : weir_strerror(result));
    wr_keeper_trouble(keeper, &fault, now_ns);
}

static bool open_map(struct wr_keeper *keeper, int64_t now_ns)
{
    char path[4096 + 16];
    const struct wr_customers_options options = {
        .path = path, .room = keeper->config->room, .writer = true};
    struct wr_diag diag;
    int result;

    if (keeper->mirror.map != NULL)
        return true;
    wr_diag_init(&diag, NULL);
    (void)mkdir(keeper->config->directory, 0770); /* if it fails, so does what follows */
    (void)snprintf(path, sizeof path, "%s/customers.map", keeper->config->directory);
    result = wr_customers_open(&keeper->mirror.map, &options, &diag);
    if (result == 0)
        take_over(keeper);
    else if (result == WEIR_EBUSY)
        stand_by(keeper);
    else
        trouble_with(keeper, path, &diag, result, now_ns);
    return result == 0;
}

/* ---- usage ---------------------------------------------------------------------------------- */

static bool open_usage(struct wr_keeper *keeper, int64_t now_ns)
{
    struct wr_diag diag;
    bool good = true;

    wr_diag_init(&diag, NULL);
    for (size_t i = 0; good && i < keeper->config->quota_count; i++) {
        struct wr_kept *kept = &keeper->config->quota[i];
        int result = kept->usage != NULL
                         ? 0
                         : wr_kept_open(kept, keeper->config->directory,
                                        wr_customers_room(keeper->mirror.map), &diag);
        good = result == 0;
        if (!good)
            trouble_with(keeper, keeper->path, &diag, result, now_ns);
    }
    return good;
}

/* ---- the database --------------------------------------------------------------------------- */

/* A file that was opened for the first time by this process: read whole if it is small. */
static int look_at(struct wr_keeper *keeper)
{
    struct stat st;
    int result = 0;

    if (stat(keeper->path, &st) == 0 && st.st_size <= CHECKED_BYTES)
        result = wr_database_check(keeper->database, false);
    return result == 0 ? wr_ledger_node(keeper->database, keeper->now_ns(), &keeper->node) : result;
}

static bool open_anew(struct wr_keeper *keeper, int64_t now_ns)
{
    const struct wr_database_options options = {
        .path = keeper->path, .create = wr_customers_mark(keeper->mirror.map) == 0};
    struct wr_fault fault;
    struct wr_kept *kept;
    int result = wr_database_open(&keeper->database, &options, &fault);

    if (result == 0) {
        result = look_at(keeper);
        fault = *wr_database_fault(keeper->database);
    } else if (fault.disk == WR_DISK_MISSING) {
        (void)wr_fault_set_missing(&fault, keeper->path);
    }
    if (result != 0) {
        wr_keeper_trouble(keeper, &fault, now_ns);
        return false;
    }
    keeper->mirrored = false;
    keeper->recount = true;
    for (size_t i = 0; (kept = wr_keeper_kept(keeper, i)) != NULL; i++)
        wr_kept_forget(kept);
    return true;
}

static bool open_database(struct wr_keeper *keeper, int64_t now_ns)
{
    if (keeper->database != NULL && wr_database_moved(keeper->database))
        close_database(keeper); /* a copy was put in its place, or somebody took it away */
    if (keeper->database != NULL)
        return true;
    if (now_ns < keeper->open_ns && now_ns >= keeper->open_ns - OPEN_EVERY_NS)
        return false;
    return open_anew(keeper, now_ns);
}

bool wr_keeper_open(struct wr_keeper *keeper, int64_t now_ns)
{
    if (!open_map(keeper, now_ns) || !open_usage(keeper, now_ns) || !open_database(keeper, now_ns))
        return false;
    wr_keeper_left_find(keeper);
    return true;
}
