/* alert_rows.c - rows of alerts and upgrades, read in one form and changed by one hand. */
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "meter/alert_parts.h"
#include "meter/schema.h"

/* The columns of read_alert. */
#define OF_QUOTA                                                                           \
    "SELECT 0 AS kind, a.id AS id, a.event AS event, c.id AS customer, c.name AS name,"    \
    " c.tenant AS tenant, a.plan AS plan, NULL AS after, q.name AS quota, q.zone AS zone," \
    " q.per AS per, a.percent AS percent, a.window_day AS window_day, a.used AS used,"     \
    " a.units AS units, a.starts AS starts, a.ends AS ends, a.at AS at, a.state AS state," \
    " a.tries AS tries, a.next_at AS next_at, a.since AS since, a.sent AS sent,"           \
    " a.last_error AS last_error FROM alert AS a JOIN customer AS c ON c.id = a.customer"  \
    " JOIN quota AS q ON q.id = a.quota"
#define OF_UPGRADE                                                                            \
    "SELECT 1 AS kind, a.customer AS id, a.event AS event, c.id AS customer, c.name AS name," \
    " c.tenant AS tenant, a.before AS plan, a.after AS after, NULL AS quota, NULL AS zone,"   \
    " 0 AS per, 0 AS percent, 0 AS window_day, 0 AS used, 0 AS units, 0 AS starts,"           \
    " CASE WHEN c.trial_plan = a.before THEN c.trial_until ELSE 0 END AS ends, a.at AS at, "  \
    "a.state AS state, a.tries AS tries, a.next_at AS next_at,"                               \
    " a.since AS since, a.sent AS sent, a.last_error AS last_error"                           \
    " FROM upgrade AS a JOIN customer AS c ON c.id = a.customer"

static const char *const state_names[WR_ALERT_STATES] = {
    [WR_ALERT_CLAIMING] = "claiming", [WR_ALERT_WAITING] = "waiting",     [WR_ALERT_SENT] = "sent",
    [WR_ALERT_DEAD] = "dead",         [WR_ALERT_ELSEWHERE] = "elsewhere", [WR_ALERT_TOLD] = "told",
    [WR_ALERT_REFUSED] = "refused"};

const char *wr_alert_state_name(enum wr_alert_state state)
{
    return state < WR_ALERT_STATES ? state_names[state] : "unknown";
}

bool wr_alert_state_of(struct weir_slice name, enum wr_alert_state *out)
{
    for (unsigned i = 0; i < WR_ALERT_STATES; i++)
        if (strlen(state_names[i]) == name.len && memcmp(state_names[i], name.ptr, name.len) == 0) {
            *out = (enum wr_alert_state)i;
            return true;
        }
    *out = WR_ALERT_DEAD;
    return false;
}

/* ---- reading -------------------------------------------------------------------------------- */

#define TEXT(column, field) wr_database_text(statement, column, out->field, sizeof out->field)

static void read_alert(sqlite3_stmt *statement, struct wr_alert *out)
{
    int state = sqlite3_column_int(statement, 18);

    *out = (struct wr_alert){
        .kind = sqlite3_column_int(statement, 0) == 0 ? WR_ALERT_QUOTA : WR_ALERT_UPGRADE,
        .id = sqlite3_column_int64(statement, 1),
        .customer = sqlite3_column_int64(statement, 3),
        .per = (uint8_t)sqlite3_column_int(statement, 10),
        .percent = (uint8_t)sqlite3_column_int(statement, 11),
        .window = (int32_t)sqlite3_column_int64(statement, 12),
        .used = (uint64_t)sqlite3_column_int64(statement, 13),
        .limit = sqlite3_column_int64(statement, 14),
        .starts_ns = sqlite3_column_int64(statement, 15),
        .ends_ns = sqlite3_column_int64(statement, 16),
        .at_ns = sqlite3_column_int64(statement, 17),
        .state = state >= 0 && state < WR_ALERT_STATES ? (enum wr_alert_state)state : WR_ALERT_DEAD,
        .tries = (unsigned)sqlite3_column_int64(statement, 19),
        .next_ns = sqlite3_column_int64(statement, 20),
        .since_ns = sqlite3_column_int64(statement, 21),
        .sent_ns = sqlite3_column_int64(statement, 22)};
    TEXT(2, event);
    TEXT(4, name);
    TEXT(5, tenant);
    TEXT(6, plan);
    TEXT(7, after);
    TEXT(8, quota);
    TEXT(9, zone);
    TEXT(23, error);
}

/* The rows of |statement| into |out|. Returns how many, or an error. */
static int collect(struct wr_database *database, sqlite3_stmt *statement, struct wr_alert *out,
                   int most)
{
    int count = 0, result = 1;

    while (count < most && (result = wr_database_step(database, statement)) == 1)
        read_alert(statement, &out[count++]);
    if (result == 1 && statement != NULL)
        (void)sqlite3_reset(statement);
    return result < 0 ? result : count;
}

int wr_alerts_each(struct wr_database *database, const struct wr_alert_filter *filter,
                   wr_alert_fn *each, void *context)
{
    sqlite3_stmt *statement = wr_database_statement(
        database, "WITH item AS (" OF_QUOTA " UNION ALL " OF_UPGRADE ") SELECT * FROM item"
                  " WHERE (?1 = 0 OR customer = ?1) AND (?2 < 0 OR state = ?2) AND (?3 IS NULL"
                  " OR (at, event) < (SELECT at, event FROM item WHERE event = ?3))"
                  " ORDER BY at DESC, event DESC LIMIT ?4");
    struct wr_alert alert;
    int result;

    if (statement != NULL) {
        (void)sqlite3_bind_int64(statement, 1, filter->customer);
        (void)sqlite3_bind_int(statement, 2, filter->state);
        if (filter->after != NULL)
            (void)sqlite3_bind_text(statement, 3, filter->after, -1, SQLITE_TRANSIENT);
        (void)sqlite3_bind_int64(statement, 4, filter->most > 0 ? filter->most : -1);
    }
    while ((result = wr_database_step(database, statement)) == 1) {
        read_alert(statement, &alert);
        if (!each(context, &alert))
            break;
    }
    if (result == 1)
        (void)sqlite3_reset(statement);
    return result < 0 ? result : 0;
}

int wr_alerts_count(struct wr_database *database, struct wr_alert_numbers *out)
{
    sqlite3_stmt *statement =
        wr_database_statement(database, "SELECT (SELECT count(*) FROM alert WHERE state < 2)"
                                        " + (SELECT count(*) FROM upgrade WHERE state < 2),"
                                        " (SELECT count(*) FROM alert WHERE state = 3)"
                                        " + (SELECT count(*) FROM upgrade WHERE state = 3)");
    int result = wr_database_step(database, statement);

    *out = (struct wr_alert_numbers){0};
    if (result != 1)
        return result;
    out->waiting = (uint64_t)sqlite3_column_int64(statement, 0);
    out->dead = (uint64_t)sqlite3_column_int64(statement, 1);
    (void)sqlite3_reset(statement);
    return 0;
}

/* state < 2: what the index says of its rows has to be said here too, or all rows are read. */
int wr_alerts_due(struct wr_database *database, enum wr_alert_kind kind, int64_t now_ns,
                  struct wr_alert *out, int most)
{
    static const char *const sql[] = {
        [WR_ALERT_QUOTA] = OF_QUOTA " WHERE a.state < 2 AND a.state = 1 AND a.next_at <= ?1"
                                    " ORDER BY a.tries, a.next_at LIMIT ?2",
        [WR_ALERT_UPGRADE] = OF_UPGRADE " WHERE a.state < 2 AND a.state = 1 AND a.next_at <= ?1"
                                        " ORDER BY a.tries, a.next_at LIMIT ?2"};
    sqlite3_stmt *statement = wr_database_statement(database, sql[kind]);

    if (statement != NULL) {
        (void)sqlite3_bind_int64(statement, 1, now_ns);
        (void)sqlite3_bind_int(statement, 2, most);
    }
    return collect(database, statement, out, most);
}

int wr_alerts_unsaid(struct wr_database *database, struct wr_alert *out, int most)
{
    sqlite3_stmt *statement = wr_database_statement(
        database, OF_QUOTA " WHERE a.said = 0 AND a.state NOT IN (0, 4) ORDER BY a.id LIMIT ?1");

    if (statement != NULL)
        (void)sqlite3_bind_int(statement, 1, most);
    return collect(database, statement, out, most);
}

/* ---- changing ------------------------------------------------------------------------------- */

int wr_alert_said(struct wr_database *database, int64_t id)
{
    sqlite3_stmt *statement =
        wr_database_statement(database, "UPDATE alert SET said = 1 WHERE id = ?1");

    if (statement == NULL)
        return wr_database_fault(database)->error;
    (void)sqlite3_bind_int64(statement, 1, id);
    return wr_database_run(database, statement);
}

int wr_alert_note(struct wr_database *database, const struct wr_alert *alert)
{
    static const char *const sql[] = {
        [WR_ALERT_QUOTA] = "UPDATE alert SET state = ?2, tries = ?3, next_at = ?4, sent = ?5,"
                           " last_error = ?6 WHERE id = ?1 AND state = 1",
        [WR_ALERT_UPGRADE] = "UPDATE upgrade SET state = ?2, tries = ?3, next_at = ?4, sent = ?5,"
                             " last_error = ?6 WHERE customer = ?1 AND state = 1 AND event = ?7"};
    sqlite3_stmt *statement = wr_database_statement(database, sql[alert->kind]);

    if (statement == NULL)
        return wr_database_fault(database)->error;
    (void)sqlite3_bind_int64(statement, 1, alert->id);
    (void)sqlite3_bind_int(statement, 2, (int)alert->state);
    (void)sqlite3_bind_int64(statement, 3, alert->tries);
    (void)sqlite3_bind_int64(statement, 4, alert->next_ns);
    if (alert->sent_ns != 0)
        (void)sqlite3_bind_int64(statement, 5, alert->sent_ns);
    (void)sqlite3_bind_text(statement, 6, alert->error, -1, SQLITE_TRANSIENT);
    if (alert->kind == WR_ALERT_UPGRADE)
        (void)sqlite3_bind_text(statement, 7, alert->event, -1, SQLITE_TRANSIENT);
    return wr_database_run(database, statement);
}

/* How many rows |sql| changes. */
static int64_t retry(struct wr_database *database, const char *sql, const char *event,
                     int64_t now_ns)
{
    sqlite3_stmt *statement = wr_database_statement(database, sql);
    int64_t count = 0;
    int result;

    if (statement == NULL)
        return wr_database_fault(database)->error;
    (void)sqlite3_bind_int64(statement, 1, now_ns);
    if (event != NULL)
        (void)sqlite3_bind_text(statement, 2, event, -1, SQLITE_TRANSIENT);
    while ((result = wr_database_step(database, statement)) == 1)
        count++;
    return result < 0 ? result : count;
}

#define ANEW                                                                            \
    " SET state = 1, tries = 0, next_at = ?1, since = ?1, sent = NULL, last_error = ''" \
    " WHERE (?2 IS NULL AND state = 3)"

int64_t wr_alerts_retry(struct wr_database *database, const char *event, int64_t now_ns)
{
    int64_t upgrades = 0;
    int64_t alerts = retry(database,
                           "UPDATE alert" ANEW " OR (event = ?2 AND state IN (1, 2, 3))"
                           " RETURNING 1",
                           event, now_ns);

    if (alerts >= 0) /* of those that were answered there is nothing to be asked */
        upgrades = retry(database,
                         "UPDATE upgrade" ANEW " OR (event = ?2 AND state IN (1, 3)) RETURNING 1",
                         event, now_ns);

    return alerts < 0 ? alerts : upgrades < 0 ? upgrades : alerts + upgrades;
}
