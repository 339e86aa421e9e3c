/* upgrade.c - a customer moves to the next plan; the question whether he may, and its answer.
 *
 * Invariant: customer.wants_upgrade is 1 as long as the row of `upgrade` waits or was given up;
 * whatever moves the customer sets it to 0. */
#include "meter/upgrade.h"

#include <string.h>

#include <sqlite3.h>

#include "base/units.h"
#include "meter/alert_parts.h"
#include "meter/customers_parts.h"

/* A trial moves up as a trial: its end is as it was, and then the customer's own plan holds. */
static void set_upgrade(struct wr_customer_change *change, const struct wr_customer *now,
                        const char *to, int64_t now_ns)
{
    bool trial = now->trial_plan[0] != '\0' && now_ns < now->trial_until_ns;

    *change = WR_CUSTOMER_UNCHANGED;
    change->wants_upgrade = 0;
    change->plan = trial ? NULL : to;
    change->trial_plan = trial && strcmp(now->plan, to) != 0 ? to : "";
    change->trial_until_ns = now->trial_until_ns;
}

int wr_customer_upgrade(struct wr_database *database, int64_t id, const char *from, const char *to,
                        const struct wr_author *author)
{
    struct wr_customer_change change;
    struct wr_customer now;
    struct wr_own own;
    int result = wr_own_begin(&own, database);

    if (result != 0)
        return result;
    result = wr_customer_get(database, id, &now);
    if (result == 0 && strcmp(wr_customer_plan_at(&now, author->now_ns), from) != 0)
        result = wr_database_refuse(database, WEIR_EAGAIN, "the plan of %s is not %s any more",
                                    now.name, from);
    if (result == 0) {
        set_upgrade(&change, &now, to, author->now_ns);
        result = wr_customer_change(database, id, &change, author, NULL);
    }
    return wr_own_end(&own, result);
}

/* Is there a row that answers it? 1, 0, or an error. */
static int is_asked(struct wr_database *database, int64_t id, const char *from, int64_t now_ns)
{
    sqlite3_stmt *statement =
        wr_database_statement(database, "SELECT 1 FROM upgrade WHERE customer = ?1 AND before = ?2"
                                        " AND (state = 1 OR (state IN (3, 6) AND next_at > ?3))");
    int result;

    if (statement != NULL) {
        (void)sqlite3_bind_int64(statement, 1, id);
        (void)sqlite3_bind_text(statement, 2, from, -1, SQLITE_TRANSIENT);
        (void)sqlite3_bind_int64(statement, 3, now_ns);
    }
    result = wr_database_step(database, statement);
    if (result == 1)
        (void)sqlite3_reset(statement);
    return result;
}

static int insert(struct wr_database *database, int64_t id, const char *from, const char *to,
                  int64_t now_ns)
{
    sqlite3_stmt *statement = wr_database_statement(
        database, "INSERT OR REPLACE INTO upgrade(customer, event, before, after, at, state,"
                  " next_at, since) VALUES(?1, ?2, ?3, ?4, ?5, 1, ?5, ?5)");
    unsigned char event[WR_EVENT_BYTES];
    char text[WR_EVENT_TEXT];

    if (statement == NULL)
        return wr_database_fault(database)->error;
    wr_upgrade_event(id, from, to, now_ns / WR_NS_PER_DAY, event);
    wr_event_text(event, text);
    (void)sqlite3_bind_int64(statement, 1, id);
    (void)sqlite3_bind_text(statement, 2, text, -1, SQLITE_TRANSIENT);
    (void)sqlite3_bind_text(statement, 3, from, -1, SQLITE_TRANSIENT);
    (void)sqlite3_bind_text(statement, 4, to, -1, SQLITE_TRANSIENT);
    (void)sqlite3_bind_int64(statement, 5, now_ns);
    return wr_database_run(database, statement);
}

int wr_upgrade_ask(struct wr_database *database, int64_t id, const char *from, const char *to,
                   const struct wr_author *author)
{
    struct wr_customer_change change = WR_CUSTOMER_UNCHANGED;
    int result = is_asked(database, id, from, author->now_ns);
    struct wr_own own;

    if (result != 0)
        return result < 0 ? result : 0;
    result = wr_own_begin(&own, database);
    if (result != 0)
        return result;
    change.wants_upgrade = 1;
    result = wr_customer_change(database, id, &change, author, NULL);
    if (result == 0)
        result = insert(database, id, from, to, author->now_ns);
    return wr_own_end(&own, result);
}

static int note(struct wr_database *database, const struct wr_alert *asked,
                enum wr_alert_state state, int64_t next_ns, int64_t now_ns)
{
    struct wr_alert is = *asked;

    is.state = state;
    is.next_ns = next_ns;
    is.sent_ns = now_ns;
    if (state == WR_ALERT_SENT)
        is.error[0] = '\0';
    return wr_alert_note(database, &is);
}

int wr_upgrade_confirm(struct wr_database *database, const struct wr_alert *asked,
                       const struct wr_author *author)
{
    struct wr_own own;
    int result = wr_own_begin(&own, database);

    if (result != 0)
        return result;
    result = wr_customer_upgrade(database, asked->customer, asked->plan, asked->after, author);
    if (result == WEIR_EAGAIN || result == WEIR_ENOENT) /* somebody has moved it meanwhile */
        result = 0;
    if (result == 0)
        result = note(database, asked, WR_ALERT_SENT, author->now_ns, author->now_ns);
    return wr_own_end(&own, result);
}

int wr_upgrade_refuse(struct wr_database *database, const struct wr_alert *asked,
                      const struct wr_author *author)
{
    struct wr_customer_change change = WR_CUSTOMER_UNCHANGED;
    struct wr_own own;
    int result = wr_own_begin(&own, database);

    if (result != 0)
        return result;
    change.wants_upgrade = 0;
    result = wr_customer_change(database, asked->customer, &change, author, NULL);
    if (result == 0)
        result = note(database, asked, WR_ALERT_REFUSED, author->now_ns + WR_UPGRADE_REST_NS,
                      author->now_ns);
    return wr_own_end(&own, result);
}

#define OF_NOBODY_WHO_WAITS                                                           \
    " FROM upgrade WHERE state IN (1, 3) AND NOT EXISTS (SELECT 1 FROM customer AS c" \
    " WHERE c.id = upgrade.customer AND c.wants_upgrade = 1)"

int wr_upgrades_drop(struct wr_database *database)
{
    sqlite3_stmt *statement =
        wr_database_statement(database, "SELECT 1" OF_NOBODY_WHO_WAITS " LIMIT 1");
    int result = wr_database_step(database, statement);

    if (result != 1)
        return result; /* most often; and nothing is locked to see it */
    (void)sqlite3_reset(statement);
    return wr_database_run(database, wr_database_statement(database, "DELETE" OF_NOBODY_WHO_WAITS));
}
