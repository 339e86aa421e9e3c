/* verify_cells.c - does the ledger say what the cells say that it is written from?
 *
 * Problem. On a node that serves it never does: cells are ahead by what was counted since the last
 * flush, and change while they are looked at. Only what is wrong is to be told as wrong.
 *
 * Idea. A cell that differs and has its bit is going to be written as it is, wholly, as rows are
 * absolute: by the keeper's next turn, or by the next start. So it is "not written yet", whatever
 * the row says; below the row it may be as well, where units were given back, but not in a file
 * that a power loss may have emptied. A cell that differs and has no bit is wrong, unless
 *   - the keeper has taken the bit and not committed the row: then the file says that bits are
 * being taken (usage.h), before the look or after it, or it says another number after it;
 *   - the keeper was killed there: then it says so until the next start has compared all cells;
 *   - who counted is between its change and setting the bit anew, which is over in moments.
 * So the verdict is given by a look during which no bits were taken, and not by the first one.
 * Where bits are being taken for longer than we wait, a cell ahead of its row is not written yet,
 * and one behind it is wrong.
 *
 * Order of a look: the number, the cell, its bit, the row, the number again. A change is in the
 * cell after its bit was set, so who sees the change sees the bit or that it was taken.
 *
 * Rejected: looking again for some flush intervals until both agree (a customer who never rests
 * never does); to stop the daemon for it. */
#include "meter/verify_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <sqlite3.h>

#include "base/arith.h"
#include "base/units.h"
#include "meter/expire.h"
#include "meter/ledger.h"

#define NAP_NS (20 * WR_NS_PER_MS)
#define NAPS 100U     /* of all cells together: a batch on a slow disk takes a second */
#define CELL_NAPS 25U /* where no bits are being taken */

struct place {
    const struct wr_report_quota *quota;
    const struct wr_usage *usage;
    uint32_t number;
    int64_t customer;
    int32_t since; /* windows that begin before it were deleted */
};

/* A window's two sides. */
struct sides {
    struct wr_usage_window cell;
    int64_t used, over; /* of the row; 0: none */
    bool dirty;         /* the cell is to be written */
    bool taking;        /* bits were being taken meanwhile */
};

/* ---- a window ------------------------------------------------------------------------------- */

static int read_row(struct wr_verifying *verify, const struct place *at, struct sides *out)
{
    sqlite3_stmt *statement = wr_database_statement(
        verify->database, "SELECT used, over FROM usage WHERE node = ?1 AND quota = ?2"
                          " AND window_day = ?3 AND customer = ?4");
    int result;

    out->used = out->over = 0;
    if (statement == NULL)
        return wr_database_fault(verify->database)->error;
    (void)sqlite3_bind_int64(statement, 1, verify->node);
    (void)sqlite3_bind_int64(statement, 2, at->quota->id);
    (void)sqlite3_bind_int64(statement, 3, out->cell.day);
    (void)sqlite3_bind_int64(statement, 4, at->customer);
    result = wr_database_step(verify->database, statement);
    if (result != 1)
        return result;
    out->used = sqlite3_column_int64(statement, 0);
    out->over = sqlite3_column_int64(statement, 1);
    (void)sqlite3_reset(statement);
    return 0;
}

/* The window of |out->cell.day| in the cell; none left: nothing to compare. */
static bool read_window(const struct place *at, struct sides *out)
{
    struct wr_usage_window window[WR_USAGE_WINDOWS];
    unsigned count = wr_usage_read(at->usage, at->number, window);

    for (unsigned i = 0; i < count; i++)
        if (window[i].day == out->cell.day) {
            out->cell = window[i];
            return true;
        }
    return false;
}

/* One look at the window of |out->cell.day|. 1: both sides are there to be compared. */
static int look_at(struct wr_verifying *verify, const struct place *at, struct sides *out)
{
    uint64_t before = wr_usage_taking(at->usage);
    int result;

    if (!read_window(at, out))
        return 0;
    out->dirty = wr_usage_is_dirty(at->usage, at->number);
    result = read_row(verify, at, out);
    out->taking = before % 2 != 0 || wr_usage_taking(at->usage) != before;
    return result == 0 ? 1 : result;
}

static bool agree(const struct sides *sides)
{
    return (uint64_t)sides->used == sides->cell.units && (uint64_t)sides->over == sides->cell.over;
}

static bool is_ahead(const struct sides *sides)
{
    return sides->cell.units >= (uint64_t)sides->used;
}

static bool is_to_be_written(const struct place *at, const struct sides *sides)
{
    return sides->dirty && (is_ahead(sides) || wr_usage_is_restored(at->usage));
}

static bool nap(struct wr_verifying *verify)
{
    const struct timespec moment = {.tv_nsec = NAP_NS};

    if (verify->naps == 0)
        return false;
    verify->naps--;
    (void)nanosleep(&moment, NULL);
    return true;
}

/* Look until it is known what it is. 1: it differs, and is in |out|; 0: it does not. */
static int settle(struct wr_verifying *verify, const struct place *at, struct sides *out)
{
    unsigned quiet = 0;
    int result;

    for (;;) {
        result = look_at(verify, at, out);
        if (result != 1 || agree(out))
            return result < 0 ? result : 0;
        quiet += !out->taking;
        if (is_to_be_written(at, out) || quiet > CELL_NAPS || !nap(verify))
            return 1;
    }
}

/* ---- what is said --------------------------------------------------------------------------- */

/* Whose the cell is: by name, or where the database does not know him, by his id. */
static int name_of(struct wr_verifying *verify, int64_t id, char out[WR_CUSTOMER_NAME_MAX + 1])
{
    struct wr_customer customer;
    int result = wr_customer_get(verify->database, id, &customer);

    if (result == 0)
        (void)snprintf(out, WR_CUSTOMER_NAME_MAX + 1, "%s", customer.name);
    else
        (void)snprintf(out, WR_CUSTOMER_NAME_MAX + 1, "customer %016" PRIx64, (uint64_t)id);
    return result == WEIR_ENOENT ? 0 : result;
}

static int say_impossible(struct wr_verifying *verify, const struct place *at, int32_t day)
{
    char name[WR_CUSTOMER_NAME_MAX + 1];
    int result = name_of(verify, at->customer, name);

    if (result == 0)
        wr_verify_complain(verify,
                           "%s, %s: cell %u of its file of usage has a window of %s, which cannot "
                           "be: it is damaged, or the clock was far from right",
                           name, at->quota->name, at->number, wr_verify_date_of(day).text);
    return result;
}

static int say_different(struct wr_verifying *verify, const struct place *at,
                         const struct sides *sides)
{
    char name[WR_CUSTOMER_NAME_MAX + 1];
    int result = name_of(verify, at->customer, name);

    if (result == 0)
        wr_verify_complain(verify,
                           "%s, %s, window of %s: the cell has %" PRIu64 " used and %" PRIu64
                           " over, the ledger %" PRId64 " and %" PRId64,
                           name, at->quota->name, wr_verify_date_of(sides->cell.day).text,
                           sides->cell.units, sides->cell.over, sides->used, sides->over);
    return result;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

static int check_window(struct wr_verifying *verify, const struct place *at, int32_t day)
{
    struct sides sides = {.cell = {.day = day}};
    int result;

    if (!wr_usage_can_begin(at->usage, day, (int32_t)(verify->look->now_ns / WR_NS_PER_DAY)))
        return say_impossible(verify, at, day);
    result = settle(verify, at, &sides);
    if (result != 1)
        return result;
    if (!is_to_be_written(at, &sides) && !(sides.taking && is_ahead(&sides)))
        return say_different(verify, at, &sides);
    verify->out->waiting += wr_max_u64(distance(sides.cell.units, (uint64_t)sides.used),
                                       distance(sides.cell.over, (uint64_t)sides.over));
    return 0;
}

/* ---- a file --------------------------------------------------------------------------------- */

/* |at| has the cell. */
static int check_cell(struct wr_verifying *verify, struct place *at)
{
    struct wr_usage_window window[WR_USAGE_WINDOWS];
    unsigned count = wr_usage_read(at->usage, at->number, window);
    struct wr_customer_record record;
    int result = 0;

    if (!wr_customers_get(verify->map, at->number, &record))
        return 0; /* one who ended: he has no record to be found by */
    at->customer = record.id;
    for (unsigned i = 0; result == 0 && i < count; i++) {
        if (wr_expire_is_gone(window[i].day, at->since, verify->look->now_ns))
            continue; /* its row is deleted, or about to be, and not written */
        verify->out->windows++;
        verify->out->used += window[i].units;
        verify->out->over += window[i].over;
        result = check_window(verify, at, window[i].day);
    }
    return result;
}

/* Is it said of the file ("is damaged"), and no sentence of its own ("its layout is 7")? */
static bool is_predicate(const char *text)
{
    static const char *const verbs[] = {"is ", "has ", "was ", "cannot "};

    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (strncmp(text, verbs[i], strlen(verbs[i])) == 0)
            return true;
    return false;
}

/* A file that is there and cannot be read. */
static void unread(struct wr_verifying *verify, const char *file, const struct wr_diag *diag,
                   int result)
{
    const char *why = diag->kept > 0 ? diag->items[0].text : weir_strerror(result);

    wr_verify_complain(verify, "%s: it cannot be compared: %s%s", file,
                       is_predicate(why) ? "it " : "", why);
}

/* A quota that the policy has no more may be without its file. */
static void missing(struct wr_verifying *verify, const struct wr_report_quota *quota)
{
    for (size_t i = 0; i < verify->look->quota_count; i++)
        if (strcmp(verify->look->quotas[i], quota->name) == 0)
            wr_verify_complain(verify,
                               "%s" WR_USAGE_SUFFIX
                               ": it is missing, so nothing can be compared with what the ledger "
                               "has of it. Start weir, or restart it if it runs",
                               quota->name);
}

/* The batch of the ledger is read first, as the file has each number before the ledger does. One
 * that is behind is another than the ledger was written from. */
static int check_batch(struct wr_verifying *verify, const struct wr_report_quota *quota,
                       const struct wr_usage *usage, bool *is_older)
{
    int64_t batch;
    int result = wr_ledger_marked(verify->database, quota->id, &batch);

    *is_older = result == 0 && wr_usage_batch(usage) < (uint64_t)batch;
    if (*is_older)
        wr_verify_complain(verify,
                           "%s" WR_USAGE_SUFFIX
                           ": it is not the file that the ledger was written from, but an older "
                           "copy, or one made anew: start weir, or restart it if it runs",
                           quota->name);
    return result;
}

static int check_cells(struct wr_verifying *verify, const struct wr_report_quota *quota,
                       struct wr_usage *usage)
{
    struct place place = {.quota = quota, .usage = usage};
    bool is_older = false;
    uint32_t at = 0;
    int result = check_batch(verify, quota, usage, &is_older);

    if (result == 0)
        result = wr_expire_since(verify->database, quota->id, &place.since);
    while (result == 0 && !is_older && wr_usage_known_next(usage, &at, &place.number)) {
        verify->out->customers++;
        result = check_cell(verify, &place);
    }
    return result;
}

/* Of the same name as a quota, but of other windows: what counts now is another. */
static int check_quota(struct wr_verifying *verify, const struct wr_report_quota *quota)
{
    char path[4096];
    const struct wr_usage_options options = {
        .path = path, .name = quota->name, .per = WR_USAGE_PER_ANY, .must_exist = true};
    struct wr_usage *usage;
    struct wr_diag diag;
    int result;

    (void)snprintf(path, sizeof path, "%s/%s" WR_USAGE_SUFFIX, verify->look->directory,
                   quota->name);
    wr_diag_init(&diag, NULL);
    result = wr_usage_open(&usage, &options, &diag);
    if (result == WEIR_ENOENT) {
        missing(verify, quota);
        return 0;
    }
    if (result != 0) {
        unread(verify, path + strlen(verify->look->directory) + 1, &diag, result);
        return 0;
    }
    if (wr_usage_per(usage) == quota->per)
        result = check_cells(verify, quota, usage);
    wr_usage_close(usage);
    return result;
}

/* ---- all of them ---------------------------------------------------------------------------- */

struct quotas {
    struct wr_report_quota quota[WR_LEDGER_QUOTAS_MAX];
    size_t count;
};

static bool collect(void *context, const struct wr_report_quota *quota)
{
    struct quotas *quotas = context;

    if (quotas->count < sizeof quotas->quota / sizeof quotas->quota[0])
        quotas->quota[quotas->count++] = *quota;
    return true;
}

static int find_node(struct wr_verifying *verify)
{
    int64_t found[3];
    int result = wr_verify_three(verify->database,
                                 "SELECT n.id, 0, 0 FROM setting AS s JOIN node AS n"
                                 " ON n.name = s.value WHERE s.name = 'node'",
                                 found);

    verify->node = found[0];
    return result;
}

int wr_verify_cells(struct wr_database *database, const struct wr_verify_look *look,
                    struct wr_verify *out, wr_verify_say_fn *say, void *context)
{
    struct wr_verifying verify = {.database = database,
                                  .out = out,
                                  .say = say,
                                  .context = context,
                                  .look = look,
                                  .naps = NAPS};
    struct wr_diag diag;
    char path[4096];
    const struct wr_customers_options options = {.path = path, .must_exist = true};
    struct quotas quotas = {.count = 0};
    int result;

    (void)snprintf(path, sizeof path, "%s/" WR_CUSTOMERS_NAME, look->directory);
    wr_diag_init(&diag, NULL);
    result = wr_customers_open(&verify.map, &options, &diag);
    if (result == WEIR_ENOENT)
        return result;
    if (result != 0) {
        unread(&verify, WR_CUSTOMERS_NAME, &diag, result);
        return 0;
    }
    result = find_node(&verify);
    if (result == 0)
        result = wr_report_quotas(database, collect, &quotas);
    for (size_t i = 0; result == 0 && i < quotas.count; i++)
        result = check_quota(&verify, &quotas.quota[i]);
    out->nodes++;
    wr_customers_close(verify.map);
    return result;
}
