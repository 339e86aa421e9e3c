/* expire.c - rows of windows that ended long ago are deleted, for good.
 *
 * Problem. The ledger grows by a row for each customer, quota and window. What is deleted must stay
 * so: a cell holds its last windows for as long as its customer stays away, which may be years, and
 * each start writes what cells hold. And the ledger is what bills are made of: no window may go
 * before its time, nor in part.
 *
 * Idea. A window is told by its quota and first day, and lasts as long as the longest of its kind
 * at most: so what is to go is the front of the table's order, found without an index of its own,
 * and does not depend on a customer's anchor, which may have changed. In the transaction that
 * deletes, `since.QUOTA` in the table of settings goes up to behind the last window that was
 * touched. Nothing before that is written again, or missed by who verifies; also where `keep` is
 * made longer later.
 *
 * Invariants:
 *   1. A row of usage goes together with its days and its alerts, and no row of a window is
 *      written any more when one of them is gone.
 *   2. An alert that somebody is still to hear of (waiting, claimed, or dead) stays.
 *   3. A window that began less than GONE_DAYS ago is written, whatever `since` says: a clock that
 *      was far ahead costs old rows, and never new ones.
 *
 * Rejected: an index by the windows' ends (every flush would pay for it, once a day it would be
 * used); deleting by customer (a range of rows lies together by window); a rule by the clock alone
 * for what is written again (with a longer `keep` cells would bring back a few of all rows, and
 * tell their alerts anew). */
#include "meter/expire.h"

#include <stdlib.h>

#include <sqlite3.h>

#include "algo/civil.h"
#include "base/units.h"
#include "base/zone.h"
#include "meter/report.h"
#include "meter/schema.h"

#define GONE_DAYS 62 /* the least that customers.keep may be */

/* By how many days a window is longer than one, at most: from the 30th of November to the 30th of
 * December, say. */
static int32_t longer(int per)
{
    return per == WR_PER_MONTH ? 30 : per == WR_PER_WEEK ? 6 : 0;
}

/* ---- which are to go ------------------------------------------------------------------------ */

struct quota {
    int64_t id;
    int32_t first; /* day that windows begin on which stay */
};

/* The civil day of |before_ns| is |day| in the zone: windows whose last day is earlier are over. */
static int32_t first_that_stays(int per, const char *zone, int64_t before_ns)
{
    char why[128];
    const struct wr_zone *found = wr_zone_find(zone, why, sizeof why);
    struct wr_civil civil = {.zone = WR_ZONE_UTC, .per = WR_PER_DAY, .anchor = 1};
    int32_t day;

    if (found != NULL)
        civil.zone = wr_zone_id(found);
    day = wr_civil_day(&civil, before_ns > 0 ? before_ns : 0);
    if (found == NULL)
        day--; /* wherever it is */
    return day - longer(per);
}

/* The quota with the next id after |out->id|. 1, 0: there is none, or an error. */
static int next_quota(struct wr_database *database, int64_t before_ns, struct quota *out)
{
    sqlite3_stmt *statement = wr_database_statement(
        database, "SELECT id, per, zone FROM quota WHERE id > ?1 ORDER BY id LIMIT 1");
    char zone[128];
    int result;

    if (statement != NULL)
        (void)sqlite3_bind_int64(statement, 1, out->id);
    result = wr_database_step(database, statement);
    if (result != 1)
        return result;
    out->id = sqlite3_column_int64(statement, 0);
    wr_database_text(statement, 2, zone, sizeof zone);
    out->first = first_that_stays(sqlite3_column_int(statement, 1), zone, before_ns);
    (void)sqlite3_reset(statement);
    return 1;
}

struct victim {
    int64_t node, customer;
    int32_t window;
};

/* At most |most| of them. Returns how many, or an error. */
static int find_victims(struct wr_database *database, const struct quota *quota, struct victim *out,
                        int most)
{
    sqlite3_stmt *statement = wr_database_statement(
        database, "SELECT u.node, u.window_day, u.customer FROM node AS n CROSS JOIN usage AS u"
                  " ON u.node = n.id AND u.quota = ?1 AND u.window_day < ?2 LIMIT ?3");
    int count = 0, result = 1;

    if (statement != NULL) {
        (void)sqlite3_bind_int64(statement, 1, quota->id);
        (void)sqlite3_bind_int64(statement, 2, quota->first);
        (void)sqlite3_bind_int(statement, 3, most);
    }
    while (count < most && (result = wr_database_step(database, statement)) == 1) {
        out[count].node = sqlite3_column_int64(statement, 0);
        out[count].window = (int32_t)sqlite3_column_int64(statement, 1);
        out[count].customer = sqlite3_column_int64(statement, 2);
        count++;
    }
    if (result == 1 && statement != NULL)
        (void)sqlite3_reset(statement);
    return result < 0 ? result : count;
}

/* ---- one of them ---------------------------------------------------------------------------- */

/* Run |sql| for |victim|; |*rows| goes up by those that it deletes. */
static int delete_rows(struct wr_database *database, const char *sql, int64_t quota,
                       const struct victim *victim, uint64_t *rows)
{
    sqlite3_stmt *statement = wr_database_statement(database, sql);
    int result;

    if (statement == NULL)
        return wr_database_fault(database)->error;
    (void)sqlite3_bind_int64(statement, 1, victim->customer);
    (void)sqlite3_bind_int64(statement, 2, quota);
    (void)sqlite3_bind_int64(statement, 3, victim->window);
    if (sqlite3_bind_parameter_count(statement) > 3)
        (void)sqlite3_bind_int64(statement, 4, victim->node);
    result = wr_database_run(database, statement);
    if (result == 0)
        *rows += (uint64_t)sqlite3_changes(sqlite3_db_handle(statement));
    return result;
}

static int delete_window(struct wr_database *database, int64_t quota, const struct victim *victim,
                         struct wr_expired *out)
{
#define WINDOW " WHERE customer = ?1 AND quota = ?2 AND window_day = ?3"
    static const char usage[] = "DELETE FROM usage" WINDOW " AND node = ?4";
    static const char days[] = "DELETE FROM usage_day" WINDOW " AND node = ?4";
    static const char alerts[] = "DELETE FROM alert" WINDOW " AND state IN (2, 4, 5) AND said = 1";
    static const char looks[] = "DELETE FROM alert_watch" WINDOW;
#undef WINDOW
    uint64_t watched = 0; /* they are seldom, and nothing that anybody knows of */
    int result = delete_rows(database, days, quota, victim, &out->days);

    if (result == 0)
        result = delete_rows(database, alerts, quota, victim, &out->alerts);
    if (result == 0)
        result = delete_rows(database, looks, quota, victim, &watched);
    return result == 0 ? delete_rows(database, usage, quota, victim, &out->windows) : result;
}

/* ---- since when there are rows -------------------------------------------------------------- */

int wr_expire_since(struct wr_database *database, int64_t quota, int32_t *since)
{
    sqlite3_stmt *statement = wr_database_statement(
        database, "SELECT CAST(value AS INTEGER) FROM setting WHERE name = 'since.' || ?1");
    int result;

    *since = INT32_MIN;
    if (statement != NULL)
        (void)sqlite3_bind_int64(statement, 1, quota);
    result = wr_database_step(database, statement);
    if (result != 1)
        return result;
    *since = (int32_t)sqlite3_column_int64(statement, 0);
    (void)sqlite3_reset(statement);
    return 0;
}

int wr_report_gone(struct wr_database *database, int32_t *last)
{
    sqlite3_stmt *statement =
        wr_database_statement(database, "SELECT q.per, CAST(s.value AS INTEGER) FROM setting AS s"
                                        " JOIN quota AS q ON s.name = 'since.' || q.id");
    int result;

    *last = INT32_MIN;
    while ((result = wr_database_step(database, statement)) == 1) {
        int32_t since = (int32_t)sqlite3_column_int64(statement, 1);
        int32_t ended = since - 1 + longer(sqlite3_column_int(statement, 0));
        *last = ended > *last ? ended : *last;
    }
    return result;
}

/* It never goes down. */
static int set_since(struct wr_database *database, int64_t quota, int32_t since)
{
    sqlite3_stmt *statement = wr_database_statement(
        database, "INSERT INTO setting(name, value) VALUES('since.' || ?1, ?2)"
                  " ON CONFLICT DO UPDATE SET value = excluded.value"
                  " WHERE CAST(value AS INTEGER) < ?2");

    if (statement == NULL)
        return wr_database_fault(database)->error;
    (void)sqlite3_bind_int64(statement, 1, quota);
    (void)sqlite3_bind_int64(statement, 2, since);
    return wr_database_run(database, statement);
}

bool wr_expire_is_gone(int32_t day, int32_t since, int64_t now_ns)
{
    return day < since && day + GONE_DAYS < (int32_t)(now_ns / WR_NS_PER_DAY);
}

/* ---- a batch -------------------------------------------------------------------------------- */

static uint64_t rows_of(const struct wr_expired *expired)
{
    return expired->windows + expired->days + expired->alerts;
}

/* Within a transaction. |count| goes down to how many were deleted: when there are rows enough. */
static int delete_victims(struct wr_database *database, int64_t quota, const struct victim *victims,
                          int *count, struct wr_expired *out)
{
    int32_t since = INT32_MIN;
    int i = 0, result = 0;

    for (; result == 0 && i < *count && rows_of(out) < WR_EXPIRE_ROWS; i++) {
        if (victims[i].window >= since)
            since = victims[i].window + 1;
        result = delete_window(database, quota, &victims[i], out);
    }
    *count = i;
    return result == 0 && i > 0 ? set_since(database, quota, since) : result;
}

/* Of one quota, in a transaction. 1: there may be more. */
static int expire_quota(struct wr_database *database, const struct quota *quota,
                        struct victim *victims, struct wr_expired *out)
{
    int found = find_victims(database, quota, victims, (int)WR_EXPIRE_ROWS), count = found;
    const struct wr_expired before = *out;
    int result;

    if (found <= 0)
        return found;
    result = wr_database_begin(database);
    if (result != 0)
        return result;
    result = delete_victims(database, quota->id, victims, &count, out);
    if (result == 0)
        result = wr_database_commit(database);
    else
        wr_database_rollback(database);
    if (result != 0)
        *out = before;
    return result < 0 ? result : count < found || found == (int)WR_EXPIRE_ROWS;
}

int wr_expire(struct wr_database *database, int64_t before_ns, struct wr_expired *out)
{
    struct victim *victims = malloc(WR_EXPIRE_ROWS * sizeof *victims);
    struct wr_expired batch = {0};
    struct quota quota = {.id = 0};
    int result = 0;

    if (victims == NULL)
        return wr_database_refuse(database, WEIR_ENOMEM, "out of memory");
    while (result == 0 && (result = next_quota(database, before_ns, &quota)) == 1)
        result = expire_quota(database, &quota, victims, &batch);
    free(victims);
    out->windows += batch.windows;
    out->days += batch.days;
    out->alerts += batch.alerts;
    return result;
}
