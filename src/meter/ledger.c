/* ledger.c - rows of usage.
 *
 * Problem. What is written may be written again (after a kill, a full disk, a restart), out of a
 * cell that meanwhile went up or, by what was given back, down. Nothing may be counted twice.
 *
 * Idea. A row has the absolute count of one window. Its history by day is kept as a difference: of
 * |used|, |before| was used on days before |day|, so the present day's row is used - before. All of
 * it follows from the row as it was and the count as it is: the same count twice changes nothing.
 *
 * Invariants:
 *   1. usage.used = sum of usage_day.used of that window (of windows longer than a day).
 *   2. before <= used, and no row of a day is negative: what is given back beyond what the present
 *      day has used is taken from the days before, the last first.
 *   3. day never goes back: a clock that does so puts nothing down to a day that was closed. */
#include "meter/ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>

#include <sqlite3.h>

#include "meter/schema.h"

#define REDUCED_DAYS 64 /* of one window, at most a month and a clock's errors */

/* ---- who and what --------------------------------------------------------------------------- */

/* The only column of |statement|'s only row. 0, WEIR_ENOENT, or an error. */
static int one_number(struct wr_database *database, sqlite3_stmt *statement, int64_t *out)
{
    int result = wr_database_step(database, statement);

    *out = 0;
    if (result == 0)
        return WEIR_ENOENT;
    if (result < 0)
        return result;
    *out = sqlite3_column_int64(statement, 0);
    (void)sqlite3_reset(statement);
    return 0;
}

static int find_node(struct wr_database *database, int64_t *out)
{
    return one_number(database,
                      wr_database_statement(database, "SELECT n.id FROM setting AS s JOIN node AS n"
                                                      " ON n.name = s.value WHERE s.name = 'node'"),
                      out);
}

static int make_node(struct wr_database *database, int64_t now_ns)
{
    uint64_t random = 0;
    char name[17];
    sqlite3_stmt *statement;
    int result;

    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return wr_database_refuse(database, WEIR_EIO, "no randomness for the name of this node");
    (void)snprintf(name, sizeof name, "%016" PRIx64, random);
    statement =
        wr_database_statement(database, "INSERT INTO setting(name, value) VALUES('node', ?)");
    if (statement == NULL)
        return wr_database_fault(database)->error;
    (void)sqlite3_bind_text(statement, 1, name, -1, SQLITE_TRANSIENT);
    result = wr_database_run(database, statement);
    if (result != 0)
        return result;
    statement = wr_database_statement(database, "INSERT INTO node(name, since) VALUES(?, ?)");
    if (statement == NULL)
        return wr_database_fault(database)->error;
    (void)sqlite3_bind_text(statement, 1, name, -1, SQLITE_TRANSIENT);
    (void)sqlite3_bind_int64(statement, 2, now_ns);
    return wr_database_run(database, statement);
}

int wr_ledger_node(struct wr_database *database, int64_t now_ns, int64_t *out)
{
    int result = find_node(database, out);

    if (result != WEIR_ENOENT)
        return result;
    result = wr_database_begin(database);
    if (result != 0)
        return result;
    result = find_node(database, out); /* another process may have been first */
    if (result == WEIR_ENOENT)
        result = make_node(database, now_ns);
    if (result == 0)
        result = wr_database_commit(database);
    else
        wr_database_rollback(database);
    return result == 0 ? find_node(database, out) : result;
}

static int find_quota(struct wr_database *database, const char *name, uint8_t per, int64_t *out)
{
    sqlite3_stmt *statement =
        wr_database_statement(database, "SELECT id FROM quota WHERE name = ? AND per = ?");

    if (statement != NULL) {
        (void)sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
        (void)sqlite3_bind_int(statement, 2, per);
    }
    return one_number(database, statement, out);
}

int wr_ledger_quota(struct wr_database *database, const char *name, uint8_t per, const char *zone,
                    int64_t *out)
{
    sqlite3_stmt *statement = wr_database_statement(
        database, "INSERT INTO quota(name, per, zone) VALUES(?1, ?2, ?3) ON CONFLICT DO UPDATE"
                  " SET zone = excluded.zone WHERE zone <> excluded.zone");
    int result;

    *out = 0;
    if (statement == NULL)
        return wr_database_fault(database)->error;
    (void)sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int(statement, 2, per);
    (void)sqlite3_bind_text(statement, 3, zone, -1, SQLITE_STATIC);
    result = wr_database_run(database, statement);
    return result == 0 ? find_quota(database, name, per, out) : result;
}

bool wr_ledger_quota_zone(struct wr_database *database, const char *name, uint8_t per, char *out,
                          size_t size)
{
    sqlite3_stmt *statement =
        wr_database_statement(database, "SELECT zone FROM quota WHERE name = ? AND per = ?");
    bool known;

    if (statement != NULL) {
        (void)sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
        (void)sqlite3_bind_int(statement, 2, per);
    }
    known = wr_database_step(database, statement) == 1;
    (void)snprintf(out, size, "%s", known ? (const char *)sqlite3_column_text(statement, 0) : "");
    if (known)
        (void)sqlite3_reset(statement);
    return known;
}

/* ---- a batch -------------------------------------------------------------------------------- */

int wr_ledger_begin(struct wr_ledger_batch *batch, struct wr_database *database, int64_t node,
                    int64_t now_ns)
{
    sqlite3_stmt *statement;
    int result = wr_database_begin(database);

    *batch = (struct wr_ledger_batch){.database = database, .node = node};
    if (result != 0)
        return result;
    statement = wr_database_statement(
        database, "UPDATE node SET batch = batch + 1, at = ?2 WHERE id = ?1 RETURNING batch");
    if (statement != NULL) {
        (void)sqlite3_bind_int64(statement, 1, node);
        (void)sqlite3_bind_int64(statement, 2, now_ns);
    }
    result = wr_database_step(database, statement);
    if (result == 1) {
        batch->id = sqlite3_column_int64(statement, 0);
        result = wr_database_run(database, statement);
    } else if (result == 0) {
        result = wr_database_refuse(database, WEIR_ENOENT, "the database does not know this node");
    }
    if (result != 0)
        wr_database_rollback(database);
    return result;
}

int wr_ledger_mark(struct wr_ledger_batch *batch, int64_t quota)
{
    sqlite3_stmt *statement = wr_database_statement(
        batch->database, "INSERT INTO setting(name, value) VALUES('batch.' || ?1, ?2)"
                         " ON CONFLICT DO UPDATE SET value = excluded.value");

    if (statement == NULL)
        return wr_database_fault(batch->database)->error;
    (void)sqlite3_bind_int64(statement, 1, quota);
    (void)sqlite3_bind_int64(statement, 2, batch->id);
    return wr_database_run(batch->database, statement);
}

int wr_ledger_marked(struct wr_database *database, int64_t quota, int64_t *out)
{
    sqlite3_stmt *statement = wr_database_statement(
        database, "SELECT CAST(value AS INTEGER) FROM setting WHERE name = 'batch.' || ?1");
    int result;

    if (statement != NULL)
        (void)sqlite3_bind_int64(statement, 1, quota);
    result = one_number(database, statement, out);
    return result == WEIR_ENOENT ? 0 : result;
}

int wr_ledger_end(struct wr_ledger_batch *batch)
{
    return wr_database_commit(batch->database);
}

void wr_ledger_abandon(struct wr_ledger_batch *batch)
{
    wr_database_rollback(batch->database);
}

/* ---- a row ---------------------------------------------------------------------------------- */

struct row {
    int64_t used, over, day, before;
};

/* Bind what a row is known by to 1..4. */
static void bind_key(sqlite3_stmt *statement, const struct wr_ledger_batch *batch,
                     const struct wr_ledger_entry *entry)
{
    if (statement == NULL)
        return;
    (void)sqlite3_bind_int64(statement, 1, batch->node);
    (void)sqlite3_bind_int64(statement, 2, entry->quota);
    (void)sqlite3_bind_int64(statement, 3, entry->window);
    (void)sqlite3_bind_int64(statement, 4, entry->customer);
}

/* 1: |*out| has the row. 0: there is none. */
static int read_row(struct wr_ledger_batch *batch, const struct wr_ledger_entry *entry,
                    struct row *out)
{
    sqlite3_stmt *statement = wr_database_statement(
        batch->database, "SELECT used, over, day, before FROM usage"
                         " WHERE node = ? AND quota = ? AND window_day = ? AND customer = ?");
    int result;

    *out = (struct row){.day = INT64_MIN};
    bind_key(statement, batch, entry);
    result = wr_database_step(batch->database, statement);
    if (result != 1)
        return result;
    out->used = sqlite3_column_int64(statement, 0);
    out->over = sqlite3_column_int64(statement, 1);
    out->day = sqlite3_column_int64(statement, 2);
    out->before = sqlite3_column_int64(statement, 3);
    (void)sqlite3_reset(statement);
    return 1;
}

static int write_row(struct wr_ledger_batch *batch, const struct wr_ledger_entry *entry,
                     const struct row *row)
{
    sqlite3_stmt *statement = wr_database_statement(
        batch->database,
        "INSERT INTO usage(node, quota, window_day, customer, used, over, day, before, batch)"
        " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET used = excluded.used,"
        " over = excluded.over, day = excluded.day, before = excluded.before,"
        " batch = excluded.batch");

    bind_key(statement, batch, entry);
    if (statement == NULL)
        return wr_database_fault(batch->database)->error;
    (void)sqlite3_bind_int64(statement, 5, row->used);
    (void)sqlite3_bind_int64(statement, 6, row->over);
    (void)sqlite3_bind_int64(statement, 7, row->day);
    (void)sqlite3_bind_int64(statement, 8, row->before);
    (void)sqlite3_bind_int64(statement, 9, batch->id);
    return wr_database_run(batch->database, statement);
}

static int write_day(struct wr_ledger_batch *batch, const struct wr_ledger_entry *entry,
                     int64_t day, int64_t used)
{
    sqlite3_stmt *statement = wr_database_statement(
        batch->database, "INSERT INTO usage_day(node, quota, window_day, customer, day, used)"
                         " VALUES(?, ?, ?, ?, ?, ?)"
                         " ON CONFLICT DO UPDATE SET used = excluded.used");

    bind_key(statement, batch, entry);
    if (statement == NULL)
        return wr_database_fault(batch->database)->error;
    (void)sqlite3_bind_int64(statement, 5, day);
    (void)sqlite3_bind_int64(statement, 6, used);
    return wr_database_run(batch->database, statement);
}

/* Days before |day| with something used, the last first. Returns how many, or an error. */
static int read_days(struct wr_ledger_batch *batch, const struct wr_ledger_entry *entry,
                     int64_t before_day, int64_t days[REDUCED_DAYS], int64_t used[REDUCED_DAYS])
{
    sqlite3_stmt *statement = wr_database_statement(
        batch->database, "SELECT day, used FROM usage_day WHERE node = ?1 AND quota = ?2"
                         " AND window_day = ?3 AND customer = ?4 AND day < ?5 AND used > 0"
                         " ORDER BY day DESC LIMIT 64");
    int count = 0, result;

    bind_key(statement, batch, entry);
    if (statement != NULL)
        (void)sqlite3_bind_int64(statement, 5, before_day);
    while ((result = wr_database_step(batch->database, statement)) == 1 && count < REDUCED_DAYS) {
        days[count] = sqlite3_column_int64(statement, 0);
        used[count++] = sqlite3_column_int64(statement, 1);
    }
    if (result == 1)
        (void)sqlite3_reset(statement);
    return result < 0 ? result : count;
}

/* Take |units| from the days before |day|, the last first. */
static int reduce_days(struct wr_ledger_batch *batch, const struct wr_ledger_entry *entry,
                       int64_t day, int64_t units)
{
    int64_t days[REDUCED_DAYS], used[REDUCED_DAYS];
    int count = read_days(batch, entry, day, days, used);
    int result = count < 0 ? count : 0;

    for (int i = 0; result == 0 && i < count && units > 0; i++) {
        int64_t taken = used[i] < units ? used[i] : units;
        result = write_day(batch, entry, days[i], used[i] - taken);
        units -= taken;
    }
    return result;
}

/* What the row becomes; and how many units the days before it lose. */
static int64_t next_row(const struct wr_ledger_entry *entry, const struct row *was,
                        struct row *next)
{
    int64_t lost = 0;

    next->used = (int64_t)entry->used;
    next->over = entry->over < entry->used ? (int64_t)entry->over : next->used;
    next->day = entry->day > was->day ? entry->day : was->day;
    next->before = next->day > was->day ? was->used : was->before;
    if (next->before > next->used) {
        lost = next->before - next->used;
        next->before = next->used;
    }
    return lost;
}

int wr_ledger_put(struct wr_ledger_batch *batch, const struct wr_ledger_entry *entry)
{
    struct row was, next;
    int64_t lost;
    int result = read_row(batch, entry, &was);

    if (result < 0)
        return result;
    lost = next_row(entry, &was, &next);
    if (result == 1 && next.used == was.used && next.over == was.over)
        return 0;
    result = write_row(batch, entry, &next);
    if (result == 0 && !entry->daily && lost > 0)
        result = reduce_days(batch, entry, next.day, lost);
    if (result == 0 && !entry->daily)
        result = write_day(batch, entry, next.day, next.used - next.before);
    batch->rows += result == 0;
    return result;
}

/* ---- reading -------------------------------------------------------------------------------- */

static void read_entry(sqlite3_stmt *statement, int64_t quota, struct wr_ledger_entry *out)
{
    *out = (struct wr_ledger_entry){.quota = quota,
                                    .window = (int32_t)sqlite3_column_int64(statement, 0),
                                    .customer = sqlite3_column_int64(statement, 1),
                                    .used = (uint64_t)sqlite3_column_int64(statement, 2),
                                    .over = (uint64_t)sqlite3_column_int64(statement, 3),
                                    .day = (int32_t)sqlite3_column_int64(statement, 4),
                                    .number = (uint32_t)sqlite3_column_int64(statement, 5)};
}

int wr_ledger_each(struct wr_database *database, int64_t node, int64_t quota, int32_t since,
                   bool (*each)(void *context, const struct wr_ledger_entry *entry), void *context)
{
    sqlite3_stmt *statement = wr_database_statement(
        database, "SELECT u.window_day, u.customer, u.used, u.over, u.day, c.number"
                  " FROM usage AS u JOIN customer AS c ON c.id = u.customer"
                  " WHERE u.node = ? AND u.quota = ? AND u.window_day >= ?"
                  " ORDER BY u.window_day, u.customer");
    struct wr_ledger_entry entry;
    int result;

    if (statement != NULL) {
        (void)sqlite3_bind_int64(statement, 1, node);
        (void)sqlite3_bind_int64(statement, 2, quota);
        (void)sqlite3_bind_int64(statement, 3, since);
    }
    while ((result = wr_database_step(database, statement)) == 1) {
        read_entry(statement, quota, &entry);
        if (!each(context, &entry))
            break;
    }
    if (result == 1)
        (void)sqlite3_reset(statement);
    return result < 0 ? result : 0;
}
