/* alert_settle.c - thresholds of shared quotas: what all nodes used, and which node tells it.
 *
 * Problem. Each node writes what it let through itself; only the store knows the sum. When the sum
 * has reached a threshold several nodes see it, at about the same moment, and any of them may be
 * killed at any instant.
 *
 * Idea. A node whose usage has changed looks at the store after writing it down: the one that let
 * the deciding request through sees the sum with that request in it, so some node always sees the
 * threshold reached. Each that does claims it: takes `who`, more than half of what a limit of the
 * store holds, under the event's name. The first fits and nobody after it; and what remains tells
 * everybody who was first, so that a claim whose answer was lost, or that was made before a kill,
 * is found to be one's own when it is made again.
 *
 * Invariants:
 *   1. A row of alert_watch goes only when its look was answered and nothing has changed since, in
 *      the transaction that makes the rows of what was reached.
 *   2. A claim is in the database before the store hears of it, and a node's `who` for an event
 *      never changes.
 *
 * Rejected: noting the crossing where a decision is answered (a kill before the note is written
 * loses it); a lock at the store with a time to live (whoever dies with it has told or not). */
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "base/sha256.h"
#include "base/units.h"
#include "meter/alert_parts.h"
#include "meter/ledger.h"
#include "meter/schema.h"

#define BATCH 32
#define AGAIN_NS (2 * WR_NS_PER_S) /* after the store did not answer */
#define CLAIM_DAYS_MIN 128         /* of its window */
#define CLAIM_DAYS_OPEN 64         /* that a quota's window and what comes late may last */

/* ---- who ------------------------------------------------------------------------------------ */

static uint64_t number_of(const unsigned char *bytes)
{
    uint64_t number = 0;

    for (unsigned i = 0; i < 8; i++)
        number |= (uint64_t)bytes[i] << (8 * i);
    return number;
}

/* Of this node, which its database is named by, in this claim. */
static int find_who(struct wr_database *database, const char *event, uint32_t *out)
{
    sqlite3_stmt *statement =
        wr_database_statement(database, "SELECT value FROM setting WHERE name = 'node'");
    unsigned char digest[WR_SHA256_BYTES];
    char node[65];
    struct wr_sha256 sha;
    int result = wr_database_step(database, statement);

    *out = WR_CLAIM_LOW;
    if (result != 1)
        return result < 0 ? result : wr_database_refuse(database, WEIR_ENOENT, "no node");
    wr_database_text(statement, 0, node, sizeof node);
    (void)sqlite3_reset(statement);
    wr_sha256_init(&sha);
    wr_sha256_add(&sha, node, strlen(node));
    wr_sha256_add(&sha, event, strlen(event));
    wr_sha256_finish(&sha, digest);
    *out = WR_CLAIM_LOW + (uint32_t)(number_of(digest) % (WR_CLAIM_LOW - 1));
    return 0;
}

/* All nodes count a claim in the same window, of so many days that it holds the quota's window and
 * what comes late whole. */
static int64_t claim_window_ns(int32_t day)
{
    int64_t days = CLAIM_DAYS_MIN;

    while (days < 366 && (day % days < 2 || day % days > days - CLAIM_DAYS_OPEN))
        days++;
    return days * WR_NS_PER_DAY;
}

/* ---- looks ---------------------------------------------------------------------------------- */

struct look {
    struct wr_alert_mark mark;
    char plan[WR_CUSTOMER_PLAN_MAX + 1], quota[65];
    uint8_t percent[WR_QUOTA_ALERTS_MAX];
    int count;
    int64_t change;
};

static void read_look(sqlite3_stmt *statement, int64_t now_ns, struct look *out)
{
    int bytes = sqlite3_column_bytes(statement, 3);

    *out = (struct look){.mark = {.customer = sqlite3_column_int64(statement, 0),
                                  .quota = sqlite3_column_int64(statement, 1),
                                  .window = (int32_t)sqlite3_column_int64(statement, 2),
                                  .used = (uint64_t)sqlite3_column_int64(statement, 5),
                                  .limit = sqlite3_column_int64(statement, 6),
                                  .starts_ns = sqlite3_column_int64(statement, 7),
                                  .ends_ns = sqlite3_column_int64(statement, 8),
                                  .per = (uint8_t)sqlite3_column_int(statement, 11),
                                  .now_ns = now_ns},
                         .count = bytes < WR_QUOTA_ALERTS_MAX ? bytes : WR_QUOTA_ALERTS_MAX,
                         .change = sqlite3_column_int64(statement, 9)};
    if (out->count > 0)
        memcpy(out->percent, sqlite3_column_blob(statement, 3), (size_t)out->count);
    wr_database_text(statement, 4, out->plan, sizeof out->plan);
    wr_database_text(statement, 10, out->quota, sizeof out->quota);
}

static int due_looks(struct wr_database *database, int64_t now_ns, struct look *out)
{
    sqlite3_stmt *statement = wr_database_statement(
        database, "SELECT w.customer, w.quota, w.window_day, w.percents, w.plan, w.used, w.units,"
                  " w.starts, w.ends, w.change, q.name, q.per FROM alert_watch AS w"
                  " JOIN quota AS q ON q.id = w.quota WHERE w.next_at <= ?1"
                  " ORDER BY w.next_at LIMIT ?2");
    int count = 0, result = 1;

    if (statement != NULL) {
        (void)sqlite3_bind_int64(statement, 1, now_ns);
        (void)sqlite3_bind_int(statement, 2, BATCH);
    }
    while (count < BATCH && (result = wr_database_step(database, statement)) == 1)
        read_look(statement, now_ns, &out[count++]);
    if (result == 1 && statement != NULL)
        (void)sqlite3_reset(statement);
    return result < 0 ? result : count;
}

/* |sql| of the row of |look| with |number| as its fourth value. */
static int change_watch(struct wr_database *database, const char *sql, const struct look *look,
                        int64_t number)
{
    sqlite3_stmt *statement = wr_database_statement(database, sql);

    if (statement == NULL)
        return wr_database_fault(database)->error;
    (void)sqlite3_bind_int64(statement, 1, look->mark.customer);
    (void)sqlite3_bind_int64(statement, 2, look->mark.quota);
    (void)sqlite3_bind_int64(statement, 3, look->mark.window);
    (void)sqlite3_bind_int64(statement, 4, number);
    return wr_database_run(database, statement);
}

/* Within a transaction. */
static int put_look(struct wr_database *database, struct look *look, const struct wr_alert_ask *ask)
{
    int result = 0;

    if (ask->answer == WR_ALERT_GONE)
        return change_watch(database,
                            "UPDATE alert_watch SET next_at = ?4"
                            " WHERE customer = ?1 AND quota = ?2 AND window_day = ?3",
                            look, look->mark.now_ns + AGAIN_NS);
    look->mark.plan = look->plan;
    look->mark.quota_name = look->quota;
    if (ask->used > look->mark.used)
        look->mark.used = ask->used;
    for (int i = 0; result == 0 && i < look->count; i++)
        if (wr_alert_reached(look->mark.used, look->mark.limit, look->percent[i]))
            result = wr_alert_insert(database, &look->mark, look->percent[i], WR_ALERT_CLAIMING);
    return result != 0 ? result
                       : change_watch(database,
                                      "DELETE FROM alert_watch WHERE customer = ?1 AND quota = ?2"
                                      " AND window_day = ?3 AND change = ?4",
                                      look, look->change);
}

static int put_looks(struct wr_database *database, struct look *looks,
                     const struct wr_alert_ask *asks, int count)
{
    int result = wr_database_begin(database);

    if (result != 0)
        return result;
    for (int i = 0; result == 0 && i < count; i++)
        result = put_look(database, &looks[i], &asks[i]);
    if (result == 0)
        return wr_database_commit(database);
    wr_database_rollback(database);
    return result;
}

static void ask_look(const struct look *look, struct wr_alert_ask *ask)
{
    *ask = (struct wr_alert_ask){.customer = look->mark.customer};
    memcpy(ask->quota, look->quota, sizeof ask->quota);
    memcpy(ask->plan, look->plan, sizeof ask->plan);
}

/* How many there were, or an error. */
static int ask_looks(struct wr_database *database, struct look *looks, int64_t now_ns,
                     wr_alert_ask_fn *ask, void *context)
{
    struct wr_alert_ask asks[BATCH];
    int count = due_looks(database, now_ns, looks), result;

    if (count <= 0)
        return count;
    for (int i = 0; i < count; i++)
        ask_look(&looks[i], &asks[i]);
    ask(context, asks, (size_t)count);
    /* A window that has ended is at the store no more: what this node used is all that is known. */
    for (int i = 0; i < count; i++)
        if (looks[i].mark.ends_ns <= now_ns)
            asks[i] = (struct wr_alert_ask){.answer = WR_ALERT_NONE};
    result = put_looks(database, looks, asks, count);
    return result < 0 ? result : count;
}

static int settle_looks(struct wr_database *database, int64_t now_ns, wr_alert_ask_fn *ask,
                        void *context)
{
    struct look *looks = malloc(BATCH * sizeof *looks);
    int result;

    if (looks == NULL)
        return wr_database_refuse(database, WEIR_ENOMEM, "out of memory");
    result = ask_looks(database, looks, now_ns, ask, context);
    free(looks);
    return result;
}

/* ---- claims --------------------------------------------------------------------------------- */

struct claim {
    int64_t id;
    int32_t window;
    char event[WR_EVENT_TEXT];
};

static int due_claims(struct wr_database *database, int64_t now_ns, struct claim *out)
{
    sqlite3_stmt *statement = wr_database_statement(
        database, "SELECT id, window_day, event FROM alert WHERE state < 2"
                  " AND state = 0 AND next_at <= ?1 ORDER BY next_at LIMIT ?2");
    int count = 0, result = 1;

    if (statement != NULL) {
        (void)sqlite3_bind_int64(statement, 1, now_ns);
        (void)sqlite3_bind_int(statement, 2, BATCH);
    }
    while (count < BATCH && (result = wr_database_step(database, statement)) == 1) {
        out[count].id = sqlite3_column_int64(statement, 0);
        out[count].window = (int32_t)sqlite3_column_int64(statement, 1);
        wr_database_text(statement, 2, out[count].event, sizeof out[count].event);
        count++;
    }
    if (result == 1 && statement != NULL)
        (void)sqlite3_reset(statement);
    return result < 0 ? result : count;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 0;
}

static int ask_claim(struct wr_database *database, const struct claim *claim,
                     struct wr_alert_ask *ask)
{
    *ask = (struct wr_alert_ask){.claim = true, .window_ns = claim_window_ns(claim->window)};
    for (size_t i = 0; i < WR_EVENT_BYTES; i++)
        ask->event[i] =
            (unsigned char)(digit(claim->event[2 * i]) << 4 | digit(claim->event[2 * i + 1]));
    return find_who(database, claim->event, &ask->who);
}

static int put_claim(struct wr_database *database, const struct claim *claim,
                     const struct wr_alert_ask *ask, enum wr_alert_state mine, int64_t now_ns)
{
    sqlite3_stmt *statement = wr_database_statement(
        database, "UPDATE alert SET state = ?2, next_at = ?3, since = ?3, said = ?2 = 4"
                  " WHERE id = ?1"); /* what another node tells is not said here */
    bool told = ask->answer == WR_ALERT_DONE && !ask->mine;
    bool gone = ask->answer == WR_ALERT_GONE;

    if (statement == NULL)
        return wr_database_fault(database)->error;
    (void)sqlite3_bind_int64(statement, 1, claim->id);
    (void)sqlite3_bind_int(statement, 2,
                           gone   ? WR_ALERT_CLAIMING
                           : told ? WR_ALERT_ELSEWHERE
                                  : (int)mine);
    (void)sqlite3_bind_int64(statement, 3, gone ? now_ns + AGAIN_NS : now_ns);
    return wr_database_run(database, statement);
}

static int put_claims(struct wr_database *database, const struct claim *claims,
                      const struct wr_alert_ask *asks, int count, enum wr_alert_state mine,
                      int64_t now_ns)
{
    int result = wr_database_begin(database);

    if (result != 0)
        return result;
    for (int i = 0; result == 0 && i < count; i++)
        result = put_claim(database, &claims[i], &asks[i], mine, now_ns);
    if (result == 0)
        return wr_database_commit(database);
    wr_database_rollback(database);
    return result;
}

static int settle_claims(struct wr_database *database, enum wr_alert_state mine, int64_t now_ns,
                         wr_alert_ask_fn *ask, void *context)
{
    struct claim claims[BATCH];
    struct wr_alert_ask asks[BATCH];
    int count = due_claims(database, now_ns, claims), result = 0;

    for (int i = 0; result == 0 && i < count; i++)
        result = ask_claim(database, &claims[i], &asks[i]);
    if (result != 0 || count <= 0)
        return result != 0 ? result : count;
    ask(context, asks, (size_t)count);
    result = put_claims(database, claims, asks, count, mine, now_ns);
    return result < 0 ? result : count;
}

int wr_alerts_settle(struct wr_database *database, bool hooked, int64_t now_ns,
                     wr_alert_ask_fn *ask, void *context)
{
    int looks = settle_looks(database, now_ns, ask, context);
    int claims = looks < 0 ? looks
                           : settle_claims(database, hooked ? WR_ALERT_WAITING : WR_ALERT_TOLD,
                                           now_ns, ask, context);

    return claims < 0 ? claims : looks == BATCH || claims == BATCH;
}
