/* customers.c - customers made, changed, ended; each change with its line of the audit log.
 *
 * Idea. A change is read, compared, written, and noted in one transaction: the log has what was
 * there before and what is there now, and has nothing where nothing changed.
 *
 * Invariants:
 *   1. No row of customer or key changes without a line in audit, in the same transaction.
 *   2. An id is of a name, a number of one customer, for ever: cells are found by it, so it is
 * never used again. Who ends keeps both.
 *   3. A refusal has changed nothing. */
#include "meter/customers.h"

#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "base/arith.h"
#include "meter/customers_parts.h"
#include "meter/recover.h"

/* ---- transactions --------------------------------------------------------------------------- */

int wr_own_begin(struct wr_own *own, struct wr_database *database)
{
    own->database = database;
    own->begun = !wr_database_writing(database);
    return own->begun ? wr_database_begin(database) : 0;
}

int wr_own_end(struct wr_own *own, int result)
{
    if (!own->begun)
        return result;
    if (result == 0)
        return wr_database_commit(own->database);
    wr_database_rollback(own->database);
    return result;
}

/* ---- making --------------------------------------------------------------------------------- */

int64_t wr_customer_id(const char *name)
{
    unsigned char digest[WR_SHA256_BYTES];
    struct wr_sha256 sha;
    uint64_t id = 0;

    wr_sha256_init(&sha);
    wr_sha256_add(&sha, name, strlen(name));
    wr_sha256_finish(&sha, digest);
    for (unsigned i = 0; i < 8; i++)
        id = id << 8 | digest[i];
    id >>= 1;
    return id != 0 ? (int64_t)id : 1;
}

/* The lowest number that nobody has ever had: as the database knows, and from |first| on. */
static int next_number(struct wr_database *database, uint32_t first, uint32_t room, uint32_t *out)
{
    sqlite3_stmt *statement =
        wr_database_statement(database, "SELECT coalesce(max(number) + 1, 0) FROM customer");
    int result = wr_database_step(database, statement);
    int64_t number = result == 1 ? sqlite3_column_int64(statement, 0) : 0;

    *out = 0;
    if (result < 0)
        return result;
    (void)sqlite3_reset(statement);
    number = wr_max_i64(number, first);
    if (number >= room)
        return wr_room_refuse_customer(database, room);
    *out = (uint32_t)number;
    return 0;
}

static bool is_trial(const char *plan, int64_t until_ns)
{
    return plan == NULL || plan[0] == '\0' || (wr_is_plain_name(plan) && until_ns > 0);
}

static int check_new(struct wr_database *database, const struct wr_customer_new *made)
{
    if (!wr_is_label(made->name, WR_CUSTOMER_NAME_MAX))
        return wr_database_refuse(database, WEIR_EINVAL,
                                  "a customer's name is 1 to %d bytes of text, with no control or "
                                  "format characters, and no blanks at its ends",
                                  WR_CUSTOMER_NAME_MAX);
    if (made->tenant != NULL && !wr_is_label(made->tenant, WR_CUSTOMER_NAME_MAX))
        return wr_database_refuse(database, WEIR_EINVAL, "a tenant's name is as a customer's");
    if (!wr_is_plain_name(made->plan))
        return wr_database_refuse(database, WEIR_EINVAL, "a plan's name is of [A-Za-z0-9._-]");
    if (made->anchor > 31)
        return wr_database_refuse(database, WEIR_EINVAL,
                                  "an anchor is a day of the month, 1 to 31");
    if (!is_trial(made->trial_plan, made->trial_until_ns))
        return wr_database_refuse(database, WEIR_EINVAL, "a trial has a plan and an end");
    return 0;
}

static void bind_text(sqlite3_stmt *statement, int index, const char *text)
{
    if (text != NULL && text[0] != '\0')
        (void)sqlite3_bind_text(statement, index, text, -1, SQLITE_STATIC);
}

static int insert(struct wr_database *database, const struct wr_customer_new *made, uint32_t number,
                  int64_t now_ns)
{
    sqlite3_stmt *statement = wr_database_statement(
        database, "INSERT INTO customer(id, number, name, tenant, plan, anchor, partner, suspended,"
                  " trial_plan, trial_until, created) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    bool trial = made->trial_plan != NULL && made->trial_plan[0] != '\0';
    int result;

    if (statement == NULL)
        return wr_database_fault(database)->error;
    (void)sqlite3_bind_int64(statement, 1, wr_customer_id(made->name));
    (void)sqlite3_bind_int64(statement, 2, number);
    bind_text(statement, 3, made->name);
    bind_text(statement, 4, made->tenant);
    bind_text(statement, 5, made->plan);
    (void)sqlite3_bind_int(statement, 6, made->anchor);
    (void)sqlite3_bind_int(statement, 7, made->partner);
    (void)sqlite3_bind_int(statement, 8, made->suspended);
    if (trial) {
        bind_text(statement, 9, made->trial_plan);
        (void)sqlite3_bind_int64(statement, 10, made->trial_until_ns);
    }
    (void)sqlite3_bind_int64(statement, 11, now_ns);
    result = wr_database_run(database, statement);
    if (result == WEIR_EAGAIN)
        (void)wr_database_refuse(database, result, "there is a customer called %s already",
                                 made->name);
    return result;
}

/* ---- changing ------------------------------------------------------------------------------- */

/* A value of a customer that is to be another. */
struct value {
    const char *what; /* in the log */
    const char *sql;  /* sets it: ?1 the id, ?2 the value */
    const char *before, *after;
    bool text;
    int64_t number;
};

static int set(struct wr_database *database, int64_t id, const struct value *value,
               const struct wr_author *author)
{
    const struct wr_audit_line line = {value->what, id, value->before, value->after};
    sqlite3_stmt *statement = wr_database_statement(database, value->sql);
    int result;

    if (statement == NULL)
        return wr_database_fault(database)->error;
    (void)sqlite3_bind_int64(statement, 1, id);
    if (value->text)
        bind_text(statement, 2, value->after);
    else
        (void)sqlite3_bind_int64(statement, 2, value->number);
    result = wr_database_run(database, statement);
    return result == 0 ? wr_audit_add(database, author, &line) : result;
}

static int set_text(struct wr_database *database, const struct wr_customer *now,
                    const struct wr_customer_change *change, const struct wr_author *author)
{
    const struct value plan = {
        "plan", "UPDATE customer SET plan = ?2 WHERE id = ?1", now->plan, change->plan, true, 0};
    const struct value tenant = {"tenant",    "UPDATE customer SET tenant = ?2 WHERE id = ?1",
                                 now->tenant, change->tenant,
                                 true,        0};
    int result = 0;

    if (change->plan != NULL && strcmp(change->plan, now->plan) != 0)
        result = set(database, now->id, &plan, author);
    if (result == 0 && change->tenant != NULL && strcmp(change->tenant, now->tenant) != 0)
        result = set(database, now->id, &tenant, author);
    return result;
}

static const char *yes_no(int64_t value)
{
    return value != 0 ? "yes" : "no";
}

static int set_numbers(struct wr_database *database, const struct wr_customer *now,
                       const struct wr_customer_change *change, const struct wr_author *author)
{
    char before[16], after[16];
    const struct value values[] = {
        {"anchor", "UPDATE customer SET anchor = ?2 WHERE id = ?1", before, after, false,
         change->anchor},
        {"partner", "UPDATE customer SET partner = ?2 WHERE id = ?1", yes_no(now->partner),
         yes_no(change->partner), false, change->partner},
        {"suspend", "UPDATE customer SET suspended = ?2 WHERE id = ?1", yes_no(now->suspended),
         yes_no(change->suspended), false, change->suspended},
        {"wants upgrade", "UPDATE customer SET wants_upgrade = ?2 WHERE id = ?1",
         yes_no(now->wants_upgrade), yes_no(change->wants_upgrade), false, change->wants_upgrade}};
    const int64_t is[] = {now->anchor, now->partner, now->suspended, now->wants_upgrade};
    int result = 0;

    wr_anchor_text(now->anchor, before, sizeof before);
    wr_anchor_text(change->anchor, after, sizeof after);
    for (size_t i = 0; result == 0 && i < sizeof values / sizeof values[0]; i++)
        if (values[i].number >= 0 && values[i].number != is[i])
            result = set(database, now->id, &values[i], author);
    return result;
}

/* "pro until 2026-12-31T00:00:00Z"; "" of none. */
static void trial_text(const char *plan, int64_t until_ns, char *out, size_t size)
{
    char moment[WR_MOMENT_TEXT];

    out[0] = '\0';
    if (plan[0] == '\0')
        return;
    wr_moment_text(until_ns, moment);
    (void)snprintf(out, size, "%s until %s", plan, moment);
}

static int write_trial(struct wr_database *database, int64_t id, const char *plan, int64_t until_ns)
{
    sqlite3_stmt *statement = wr_database_statement(
        database, "UPDATE customer SET trial_plan = ?2, trial_until = ?3 WHERE id = ?1");

    if (statement == NULL)
        return wr_database_fault(database)->error;
    (void)sqlite3_bind_int64(statement, 1, id);
    if (plan[0] != '\0') {
        bind_text(statement, 2, plan);
        (void)sqlite3_bind_int64(statement, 3, until_ns);
    }
    return wr_database_run(database, statement);
}

static int set_trial(struct wr_database *database, const struct wr_customer *now,
                     const struct wr_customer_change *change, const struct wr_author *author)
{
    char before[128], after[128];
    const struct wr_audit_line line = {"trial", now->id, before, after};
    int64_t until_ns = change->trial_until_ns;
    int result;

    if (change->trial_plan == NULL)
        return 0;
    trial_text(now->trial_plan, now->trial_until_ns, before, sizeof before);
    trial_text(change->trial_plan, until_ns, after, sizeof after);
    if (strcmp(before, after) == 0 && (after[0] == '\0' || until_ns == now->trial_until_ns))
        return 0;
    result = write_trial(database, now->id, change->trial_plan, until_ns);
    return result == 0 ? wr_audit_add(database, author, &line) : result;
}

static int check_change(struct wr_database *database, const struct wr_customer_change *change)
{
    if (change->plan != NULL && !wr_is_plain_name(change->plan))
        return wr_database_refuse(database, WEIR_EINVAL, "a plan's name is of [A-Za-z0-9._-]");
    if (change->tenant != NULL && change->tenant[0] != '\0' &&
        !wr_is_label(change->tenant, WR_CUSTOMER_NAME_MAX))
        return wr_database_refuse(database, WEIR_EINVAL, "a tenant's name is as a customer's");
    if (change->anchor > 31)
        return wr_database_refuse(database, WEIR_EINVAL,
                                  "an anchor is a day of the month, 1 to 31");
    if (change->partner > 1 || change->suspended > 1 || change->wants_upgrade > 1)
        return wr_database_refuse(database, WEIR_EINVAL, "yes is 1 and no is 0");
    if (!is_trial(change->trial_plan, change->trial_until_ns))
        return wr_database_refuse(database, WEIR_EINVAL, "a trial has a plan and an end");
    return 0;
}

/* In a transaction. */
static int change_in(struct wr_database *database, int64_t id,
                     const struct wr_customer_change *change, const struct wr_author *author)
{
    struct wr_customer now;
    struct wr_customer_change whole = *change;
    int result = wr_customer_get(database, id, &now);

    if (result == 0 && change->plan != NULL && strcmp(change->plan, now.plan) != 0 &&
        change->wants_upgrade < 0)
        whole.wants_upgrade = 0; /* it was a wish to leave that plan */
    if (result == 0)
        result = set_text(database, &now, change, author);
    if (result == 0)
        result = set_numbers(database, &now, &whole, author);
    return result == 0 ? set_trial(database, &now, change, author) : result;
}

int wr_customer_change(struct wr_database *database, int64_t id,
                       const struct wr_customer_change *change, const struct wr_author *author,
                       struct wr_customer *out)
{
    int result = check_change(database, change);
    struct wr_own own;

    if (result == 0)
        result = wr_own_begin(&own, database);
    if (result != 0)
        return result;
    result = change_in(database, id, change, author);
    if (result == 0 && out != NULL)
        result = wr_customer_get(database, id, out);
    return wr_own_end(&own, result);
}

/* ---- creating -------------------------------------------------------------------------------- */

/* A customer who was only known by his id (recover.h), and now is by his name. */
static int adopt(struct wr_database *database, const struct wr_customer *known,
                 const struct wr_customer_new *made, const struct wr_author *author)
{
    const struct wr_customer_change change = {.plan = made->plan,
                                              .tenant = made->tenant,
                                              .anchor = made->anchor,
                                              .partner = made->partner,
                                              .suspended = made->suspended,
                                              .trial_plan = made->trial_plan,
                                              .trial_until_ns = made->trial_until_ns,
                                              .wants_upgrade = -1};
    const struct value name = {
        "create", "UPDATE customer SET name = ?2 WHERE id = ?1", known->name, made->name, true, 0};
    int result = set(database, known->id, &name, author);

    return result == 0 ? change_in(database, known->id, &change, author) : result;
}

/* "pro, tenant t, anchor 15, partner": all that a customer is made with. */
static void made_text(const struct wr_customer_new *made, char *out, size_t size)
{
    const char *tenant = made->tenant != NULL ? made->tenant : "";
    char trial[128], anchor[16];

    trial_text(made->trial_plan != NULL ? made->trial_plan : "", made->trial_until_ns, trial,
               sizeof trial);
    wr_anchor_text(made->anchor, anchor, sizeof anchor);
    (void)snprintf(out, size, "%s%s%s%s%s%s%s%s%s", made->plan,
                   tenant[0] != '\0' ? ", tenant " : "", tenant,
                   anchor[0] != '\0' ? ", anchor " : "", anchor, made->partner ? ", partner" : "",
                   made->suspended ? ", suspended" : "", trial[0] != '\0' ? ", trial " : "", trial);
}

static int make(struct wr_database *database, const struct wr_customer_new *made,
                const struct wr_author *author)
{
    char text[WR_CUSTOMER_NAME_MAX + 320];
    const struct wr_audit_line line = {"create", wr_customer_id(made->name), NULL, text};
    struct wr_customer known;
    uint32_t number;
    int result = wr_customer_get(database, line.customer, &known);
    bool ended = result == 0 && known.ended;

    made_text(made, text, sizeof text);
    if (result == 0 && strcmp(known.name, made->name) != 0 &&
        strncmp(known.name, WR_RECOVERED_PREFIX, strlen(WR_RECOVERED_PREFIX)) == 0)
        return adopt(database, &known, made, author);
    if (result != 0 && result != WEIR_ENOENT)
        return result;
    result = next_number(database, made->first, made->room, &number);
    if (result == 0)
        result = insert(database, made, number, author->now_ns);
    if (result == WEIR_EAGAIN && ended)
        (void)wr_database_refuse(database, result,
                                 "%s was a customer and has ended: `weir customer resume`, or "
                                 "PATCH with \"ended\": false, makes it one again",
                                 made->name);
    return result == 0 ? wr_audit_add(database, author, &line) : result;
}

int wr_customer_create(struct wr_database *database, const struct wr_customer_new *made,
                       const struct wr_author *author, struct wr_customer *out)
{
    int result = check_new(database, made);
    struct wr_own own;

    if (result == 0)
        result = wr_own_begin(&own, database);
    if (result != 0)
        return result;
    result = make(database, made, author);
    if (result == 0 && out != NULL)
        result = wr_customer_get(database, wr_customer_id(made->name), out);
    return wr_own_end(&own, result);
}

/* ---- trials --------------------------------------------------------------------------------- */

/* The first trial that has ended. 1: |*out| has it. */
static int ended_trial(struct wr_database *database, int64_t now_ns, int64_t *out)
{
    sqlite3_stmt *statement = wr_database_statement(
        database, "SELECT id FROM customer WHERE trial_until <= ?1 ORDER BY trial_until LIMIT 1");
    int result;

    if (statement != NULL)
        (void)sqlite3_bind_int64(statement, 1, now_ns);
    result = wr_database_step(database, statement);
    if (result == 1) {
        *out = sqlite3_column_int64(statement, 0);
        (void)sqlite3_reset(statement);
    }
    return result;
}

int wr_customers_end_trials(struct wr_database *database, const struct wr_author *author)
{
    struct wr_customer_change change = WR_CUSTOMER_UNCHANGED;
    int64_t id = 0;
    int count = 0, result = ended_trial(database, author->now_ns, &id);
    struct wr_own own;

    if (result != 1)
        return result; /* most often; and nothing is locked to see it */
    result = wr_own_begin(&own, database);
    if (result != 0)
        return result;
    change.trial_plan = "";
    while ((result = ended_trial(database, author->now_ns, &id)) == 1) {
        result = change_in(database, id, &change, author);
        if (result != 0)
            break;
        count++;
    }
    result = wr_own_end(&own, result);
    return result == 0 ? count : result;
}

/* ---- the end -------------------------------------------------------------------------------- */

static int write_ended(struct wr_database *database, int64_t id, bool ended,
                       const struct wr_author *author)
{
    sqlite3_stmt *statement =
        wr_database_statement(database, "UPDATE customer SET ended = ?2 WHERE id = ?1");
    const struct wr_audit_line line = {ended ? "end" : "resume", id, NULL, NULL};
    int result;

    if (statement == NULL)
        return wr_database_fault(database)->error;
    (void)sqlite3_bind_int64(statement, 1, id);
    if (ended)
        (void)sqlite3_bind_int64(statement, 2, author->now_ns);
    result = wr_database_run(database, statement);
    return result == 0 ? wr_audit_add(database, author, &line) : result;
}

static int set_ended(struct wr_database *database, int64_t id, bool ended,
                     const struct wr_author *author)
{
    struct wr_customer now;
    struct wr_own own;
    int result = wr_own_begin(&own, database);

    if (result != 0)
        return result;
    result = wr_customer_get(database, id, &now);
    if (result == 0 && now.ended != ended) {
        result = ended ? wr_customer_revoke_keys(database, id, author)
                       : wr_room_for_customer(database, &now);
        if (result == 0)
            result = write_ended(database, id, ended, author);
    }
    return wr_own_end(&own, result);
}

int wr_customer_end(struct wr_database *database, int64_t id, const struct wr_author *author)
{
    return set_ended(database, id, true, author);
}

int wr_customer_resume(struct wr_database *database, int64_t id, const struct wr_author *author)
{
    return set_ended(database, id, false, author);
}
