/* report.c - lines for people and for bills, by SQL.
 *
 * Idea. Each question is one statement over the tables as they lie: usage is clustered by node,
 * quota and window, so a month is a few ranges, however many years there are; one customer's rows
 * are found by an index. Statements are constants, one for all customers and one for a single one,
 * as no plan is good for both. */
#include "meter/report.h"

#include <string.h>

#include <sqlite3.h>

#include "algo/civil.h"
#include "meter/window.h"

/* What the columns of a line are selected as, and read back in read_line. */
#define LINE                                                                 \
    "SELECT c.id AS id, c.name AS name, c.tenant AS tenant, c.plan AS plan," \
    " q.id AS quota, q.name AS quota_name, q.per AS per, q.zone AS zone,"

/* Rows of |table| AS u that begin, by |day|, from ?4 to ?5: of all customers, or of ?1. */
#define OF_ALL(table, day)                                                             \
    " FROM node AS n CROSS JOIN quota AS q CROSS JOIN " table " AS u ON u.node = n.id" \
    " AND u.quota = q.id AND u." day " BETWEEN ?4 AND ?5"                              \
    " JOIN customer AS c ON c.id = u.customer WHERE ?1 = 0"
#define OF_ONE(table, day)                                           \
    " FROM " table " AS u JOIN quota AS q ON q.id = u.quota"         \
    " JOIN customer AS c ON c.id = u.customer WHERE u.customer = ?1" \
    " AND u." day " BETWEEN ?4 AND ?5"
#define FILTER                                                           \
    " AND (?2 IS NULL OR q.name = ?2) AND (?3 IS NULL OR c.tenant = ?3)" \
    " AND (?6 = 0 OR q.per = ?6)"

/* Days: windows of a day are their own; those of longer ones are in usage_day. */
#define DAYS(of)                                                                             \
    LINE " u.window_day AS day, u.window_day AS window_day, u.used AS used, u.over AS over," \
         " u.node AS node" of("usage", "window_day") FILTER                                  \
        " AND q.per = 1 UNION ALL " LINE                                                     \
        " u.day, u.window_day, u.used, 0, u.node" of("usage_day", "day") FILTER

/* Windows by the day they end on, which is at most a month after the one they begin on. */
#define WINDOWS(of)                                                                             \
    of("usage", "window_day") FILTER " AND (?9 OR weir_last_day(q.per, u.window_day, c.anchor)" \
                                     " BETWEEN ?10 AND ?5)"
#define LAST_DAY "max(weir_last_day(q.per, u.window_day, c.anchor))"
#define LONGEST 31

static void bind(sqlite3_stmt *statement, const struct wr_report_filter *filter, int32_t before)
{
    if (statement == NULL)
        return;
    (void)sqlite3_bind_int64(statement, 1, filter->customer);
    if (filter->quota != NULL)
        (void)sqlite3_bind_text(statement, 2, filter->quota, -1, SQLITE_STATIC);
    if (filter->tenant != NULL)
        (void)sqlite3_bind_text(statement, 3, filter->tenant, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int(statement, 4, filter->first - before);
    (void)sqlite3_bind_int(statement, 5, filter->last);
    (void)sqlite3_bind_int(statement, 6, filter->per);
    (void)sqlite3_bind_int(statement, 7, filter->over_only);
    (void)sqlite3_bind_int64(statement, 8, filter->most > 0 ? filter->most : -1);
    (void)sqlite3_bind_int(statement, 9, filter->by_start);
    (void)sqlite3_bind_int(statement, 10, filter->first);
}

static void read_quota(sqlite3_stmt *statement, int at, struct wr_report_quota *out)
{
    out->id = sqlite3_column_int64(statement, at);
    wr_database_text(statement, at + 1, out->name, sizeof out->name);
    out->per = (uint8_t)sqlite3_column_int(statement, at + 2);
    wr_database_text(statement, at + 3, out->zone, sizeof out->zone);
}

/* The columns: those of LINE, then day, window, used, over, nodes, last, whether over is known. */
static void read_line(sqlite3_stmt *statement, int64_t now_ns, struct wr_report_line *out)
{
    out->customer = sqlite3_column_int64(statement, 0);
    wr_database_text(statement, 1, out->name, sizeof out->name);
    wr_database_text(statement, 2, out->tenant, sizeof out->tenant);
    wr_database_text(statement, 3, out->plan, sizeof out->plan);
    read_quota(statement, 4, &out->quota);
    out->day = (int32_t)sqlite3_column_int64(statement, 8);
    out->window = (int32_t)sqlite3_column_int64(statement, 9);
    out->used = (uint64_t)sqlite3_column_int64(statement, 10);
    out->over = (uint64_t)sqlite3_column_int64(statement, 11);
    out->nodes = (unsigned)sqlite3_column_int(statement, 12);
    out->last = sqlite3_column_int(statement, 13);
    out->over_known = sqlite3_column_int(statement, 14) != 0;
    out->closed = wr_window_end_ns(out->last, out->quota.zone) <= now_ns;
}

static int report(struct wr_database *database, const char *sql, int32_t before,
                  const struct wr_report_filter *filter, wr_report_fn *each, void *context)
{
    sqlite3_stmt *statement = wr_database_statement(database, sql);
    struct wr_report_line line;
    int result;

    bind(statement, filter, before);
    while ((result = wr_database_step(database, statement)) == 1) {
        read_line(statement, filter->now_ns, &line);
        if (!each(context, &line))
            break;
    }
    if (result == 1)
        (void)sqlite3_reset(statement);
    return result < 0 ? result : 0;
}

int wr_report_windows(struct wr_database *database, const struct wr_report_filter *filter,
                      wr_report_fn *each, void *context)
{
#define BY_WINDOW(of)                                            \
    LINE                                                         \
        " u.window_day, u.window_day, sum(u.used), sum(u.over)," \
        " count(DISTINCT u.node), " LAST_DAY ", 1" WINDOWS(      \
            of) " GROUP BY c.id, q.id, u.window_day"             \
                " HAVING NOT ?7 OR sum(u.over) > 0 ORDER BY c.name, q.name, u.window_day LIMIT ?8"
    return report(database, filter->customer == 0 ? BY_WINDOW(OF_ALL) : BY_WINDOW(OF_ONE),
                  filter->by_start ? 0 : LONGEST, filter, each, context);
}

int wr_report_days(struct wr_database *database, const struct wr_report_filter *filter,
                   wr_report_fn *each, void *context)
{
#define BY_DAY(of)                                                                  \
    "SELECT id, name, tenant, plan, quota, quota_name, per, zone, day, window_day," \
    " sum(used), sum(over), count(DISTINCT node), day, per = 1 FROM (" DAYS(        \
        of) ")"                                                                     \
            " GROUP BY id, quota, day, window_day HAVING NOT ?7 OR sum(over) > 0"   \
            " ORDER BY name, quota_name, day, window_day LIMIT ?8"
    return report(database, filter->customer == 0 ? BY_DAY(OF_ALL) : BY_DAY(OF_ONE), 0, filter,
                  each, context);
}

#define BY_CUSTOMER(of, order)                                                                     \
    LINE " ?10, ?10, sum(u.used), sum(u.over), count(DISTINCT u.node), " LAST_DAY                  \
         ", 1" WINDOWS(of) " GROUP BY c.id, q.id HAVING NOT ?7 OR sum(u.over) > 0 ORDER BY " order \
                           " LIMIT ?8"

int wr_report_top(struct wr_database *database, const struct wr_report_filter *filter,
                  wr_report_fn *each, void *context)
{
    return report(database,
                  filter->customer == 0 ? BY_CUSTOMER(OF_ALL, "sum(u.used) DESC, c.name, q.name")
                                        : BY_CUSTOMER(OF_ONE, "sum(u.used) DESC, c.name, q.name"),
                  filter->by_start ? 0 : LONGEST, filter, each, context);
}

int wr_report_totals(struct wr_database *database, const struct wr_report_filter *filter,
                     wr_report_fn *each, void *context)
{
    return report(database,
                  filter->customer == 0 ? BY_CUSTOMER(OF_ALL, "c.name, q.name")
                                        : BY_CUSTOMER(OF_ONE, "c.name, q.name"),
                  filter->by_start ? 0 : LONGEST, filter, each, context);
}

int wr_report_quotas(struct wr_database *database,
                     bool (*each)(void *context, const struct wr_report_quota *quota),
                     void *context)
{
    sqlite3_stmt *statement =
        wr_database_statement(database, "SELECT id, name, per, zone FROM quota ORDER BY name, id");
    struct wr_report_quota quota;
    int result;

    while ((result = wr_database_step(database, statement)) == 1) {
        read_quota(statement, 0, &quota);
        if (!each(context, &quota))
            break;
    }
    if (result == 1)
        (void)sqlite3_reset(statement);
    return result < 0 ? result : 0;
}
