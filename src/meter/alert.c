/* alert.c - which thresholds a customer has reached.
 *
 * Idea. What makes "once" true is the table's UNIQUE (customer, quota, window, percent): a row is
 * inserted or is there already, in the transaction of the usage. So a flush that is repeated, a
 * restart, a count that went down and up again tell nothing twice; a count that jumps over several
 * thresholds makes a row for each.
 *
 * The event's name is a hash of what the row is unique by, with names in place of row numbers: all
 * nodes that see the threshold call it the same. */
#include "meter/alert.h"

#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "base/hex.h"
#include "base/sha256.h"
#include "meter/alert_parts.h"
#include "meter/schema.h"

bool wr_alert_reached(uint64_t used, int64_t limit, unsigned percent)
{
    return limit > 0 &&
           (unsigned __int128)used * 100 >= (unsigned __int128)(uint64_t)limit * percent;
}

static void add_number(struct wr_sha256 *sha, uint64_t number)
{
    unsigned char bytes[8];

    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(number >> (8 * i));
    wr_sha256_add(sha, bytes, sizeof bytes);
}

static void add_text(struct wr_sha256 *sha, const char *text)
{
    add_number(sha, strlen(text));
    wr_sha256_add(sha, text, strlen(text));
}

static void finish_event(struct wr_sha256 *sha, unsigned char out[WR_EVENT_BYTES])
{
    unsigned char digest[WR_SHA256_BYTES];

    wr_sha256_finish(sha, digest);
    memcpy(out, digest, WR_EVENT_BYTES);
}

void wr_alert_event(const struct wr_alert_mark *mark, unsigned percent,
                    unsigned char out[WR_EVENT_BYTES])
{
    struct wr_sha256 sha;

    wr_sha256_init(&sha);
    add_text(&sha, "weir quota");
    add_number(&sha, (uint64_t)mark->customer);
    add_text(&sha, mark->quota_name);
    add_number(&sha, mark->per);
    add_number(&sha, (uint64_t)(int64_t)mark->window);
    add_number(&sha, percent);
    finish_event(&sha, out);
}

void wr_upgrade_event(int64_t customer, const char *from, const char *to, int64_t day,
                      unsigned char out[WR_EVENT_BYTES])
{
    struct wr_sha256 sha;

    wr_sha256_init(&sha);
    add_text(&sha, "weir upgrade");
    add_number(&sha, (uint64_t)customer);
    add_text(&sha, from);
    add_text(&sha, to);
    add_number(&sha, (uint64_t)day);
    finish_event(&sha, out);
}

void wr_event_text(const unsigned char event[WR_EVENT_BYTES], char out[WR_EVENT_TEXT])
{
    wr_hex_write(out, event, WR_EVENT_BYTES);
    out[WR_EVENT_TEXT - 1] = '\0';
}

/* ---- rows ----------------------------------------------------------------------------------- */

int wr_alert_insert(struct wr_database *database, const struct wr_alert_mark *mark,
                    unsigned percent, enum wr_alert_state state)
{
    sqlite3_stmt *statement = wr_database_statement(
        database,
        "INSERT INTO alert(event, customer, quota, window_day, percent, plan, used, units, starts,"
        " ends, at, state, next_at, since)"
        " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?11, ?11)"
        " ON CONFLICT(customer, quota, window_day, percent) DO NOTHING");
    unsigned char event[WR_EVENT_BYTES];
    char text[WR_EVENT_TEXT];

    if (statement == NULL)
        return wr_database_fault(database)->error;
    wr_alert_event(mark, percent, event);
    wr_event_text(event, text);
    (void)sqlite3_bind_text(statement, 1, text, -1, SQLITE_TRANSIENT);
    (void)sqlite3_bind_int64(statement, 2, mark->customer);
    (void)sqlite3_bind_int64(statement, 3, mark->quota);
    (void)sqlite3_bind_int64(statement, 4, mark->window);
    (void)sqlite3_bind_int64(statement, 5, percent);
    (void)sqlite3_bind_text(statement, 6, mark->plan, -1, SQLITE_TRANSIENT);
    (void)sqlite3_bind_int64(statement, 7, (int64_t)mark->used);
    (void)sqlite3_bind_int64(statement, 8, mark->limit);
    (void)sqlite3_bind_int64(statement, 9, mark->starts_ns);
    (void)sqlite3_bind_int64(statement, 10, mark->ends_ns);
    (void)sqlite3_bind_int64(statement, 11, mark->now_ns);
    (void)sqlite3_bind_int64(statement, 12, state);
    return wr_database_run(database, statement);
}

/* Have all thresholds of the window a row? 1, 0, or an error. */
static int all_have_rows(struct wr_database *database, const struct wr_alert_rule *rule,
                         const struct wr_alert_mark *mark)
{
    sqlite3_stmt *statement =
        wr_database_statement(database, "SELECT percent FROM alert WHERE customer = ? AND"
                                        " quota = ? AND window_day = ?");
    unsigned have = 0;
    int result;

    if (statement != NULL) {
        (void)sqlite3_bind_int64(statement, 1, mark->customer);
        (void)sqlite3_bind_int64(statement, 2, mark->quota);
        (void)sqlite3_bind_int64(statement, 3, mark->window);
    }
    while ((result = wr_database_step(database, statement)) == 1)
        have += memchr(rule->percent, sqlite3_column_int(statement, 0), rule->count) != NULL;
    return result < 0 ? result : have >= rule->count;
}

/* The whole is to be asked for. */
static int watch(struct wr_database *database, const struct wr_alert_rule *rule,
                 const struct wr_alert_mark *mark)
{
    sqlite3_stmt *statement;
    int result = all_have_rows(database, rule, mark);

    if (result != 0)
        return result < 0 ? result : 0;
    statement = wr_database_statement(
        database,
        "INSERT INTO alert_watch(customer, quota, window_day, percents, plan, used, units, starts,"
        " ends) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
        " percents = excluded.percents, plan = excluded.plan, used = excluded.used,"
        " units = excluded.units, starts = excluded.starts, ends = excluded.ends,"
        " change = change + 1");
    if (statement == NULL)
        return wr_database_fault(database)->error;
    (void)sqlite3_bind_int64(statement, 1, mark->customer);
    (void)sqlite3_bind_int64(statement, 2, mark->quota);
    (void)sqlite3_bind_int64(statement, 3, mark->window);
    (void)sqlite3_bind_blob(statement, 4, rule->percent, rule->count, SQLITE_TRANSIENT);
    (void)sqlite3_bind_text(statement, 5, mark->plan, -1, SQLITE_TRANSIENT);
    (void)sqlite3_bind_int64(statement, 6, (int64_t)mark->used);
    (void)sqlite3_bind_int64(statement, 7, mark->limit);
    (void)sqlite3_bind_int64(statement, 8, mark->starts_ns);
    (void)sqlite3_bind_int64(statement, 9, mark->ends_ns);
    return wr_database_run(database, statement);
}

int wr_alert_judge(struct wr_database *database, const struct wr_alert_rule *rule,
                   const struct wr_alert_mark *mark)
{
    enum wr_alert_state state = mark->hooked ? WR_ALERT_WAITING : WR_ALERT_TOLD;
    int result = 0;

    if (rule->count == 0 || mark->limit <= 0 || mark->used == 0)
        return 0;
    if (rule->shared)
        return watch(database, rule, mark);
    for (unsigned i = 0; result == 0 && i < rule->count; i++)
        if (wr_alert_reached(mark->used, mark->limit, rule->percent[i]))
            result = wr_alert_insert(database, mark, rule->percent[i], state);
    return result;
}
