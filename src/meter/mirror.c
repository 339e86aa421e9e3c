/* mirror.c - from rows to records.
 *
 * Idea. Changes are found by the audit log: each is of a customer, and that customer is written
 * anew, with all his keys. Writing what is there already changes nothing, so that a kill between
 * the map and its mark costs a repetition.
 *
 * Invariants:
 *   1. The mark goes up after what it stands for.
 *   2. A wish to be upgraded is kept unless the plan has become another. */
#include "meter/mirror.h"

#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "meter/customers_parts.h"
#include "meter/recover.h"

/* ---- a customer ----------------------------------------------------------------------------- */

/* What the map is to say of |customer|. An error of wr_customers_plan. */
static int make_record(struct wr_customers *map, const struct wr_customer *customer,
                       struct wr_customer_record *out)
{
    int plan = wr_customers_plan(map, customer->plan);
    int trial =
        customer->trial_plan[0] != '\0' ? wr_customers_plan(map, customer->trial_plan) : plan;

    memset(out, 0, sizeof *out);
    if (plan < 0 || trial < 0)
        return plan < 0 ? plan : trial;
    out->id = customer->id;
    out->plan = (uint8_t)trial;
    out->plan_after = (uint8_t)plan;
    out->until_ns = customer->trial_plan[0] != '\0' ? customer->trial_until_ns : INT64_MAX;
    out->anchor = customer->anchor;
    out->flags = (uint8_t)((customer->ended ? 0 : WR_CUSTOMER_ACTIVE) |
                           (customer->partner ? WR_CUSTOMER_PARTNER : 0) |
                           (customer->suspended ? WR_CUSTOMER_SUSPENDED : 0));
    return 0;
}

static bool same_record(const struct wr_customer_record *a, const struct wr_customer_record *b)
{
    const unsigned flags = WR_CUSTOMER_ACTIVE | WR_CUSTOMER_PARTNER | WR_CUSTOMER_SUSPENDED;

    return a->id == b->id && a->plan == b->plan && a->plan_after == b->plan_after &&
           a->anchor == b->anchor && a->until_ns == b->until_ns &&
           (a->flags & flags) == (b->flags & flags);
}

static void mirror_customer(struct wr_mirror *mirror, const struct wr_customer *customer)
{
    struct wr_customer_record is, wanted;
    bool there = wr_customers_get(mirror->map, customer->number, &is);
    bool moved;

    if (make_record(mirror->map, customer, &wanted) != 0) {
        mirror->left_out++;
        return;
    }
    if (!there && customer->ended)
        return;
    if (there && same_record(&is, &wanted)) {
        if ((is.flags & WR_CUSTOMER_WANTS_UPGRADE) != 0)
            wr_customers_want(mirror->map, customer->number, is.plan,
                              0); /* who took it was killed */
        return;
    }
    moved = there && (is.plan != wanted.plan || is.plan_after != wanted.plan_after);
    if (wr_customers_set(mirror->map, customer->number, &wanted, !there || moved) == 0)
        mirror->changed++;
    else
        mirror->left_out++;
}

/* ---- keys ----------------------------------------------------------------------------------- */

static void mirror_key(struct wr_mirror *mirror, const unsigned char *digest, uint32_t number,
                       bool revoked)
{
    uint32_t is;
    bool there = wr_customers_key_get(mirror->map, digest, &is);

    if (revoked && there && is == number) {
        (void)wr_customers_key_drop(mirror->map, digest);
        mirror->changed++;
    } else if (!revoked && (!there || is != number)) {
        if (wr_customers_key_set(mirror->map, digest, number) == 0)
            mirror->changed++;
        else
            mirror->left_out++;
    }
}

struct keys_of {
    struct wr_mirror *mirror;
    uint32_t number;
};

static bool mirror_its_key(void *context, const struct wr_customer_key *key)
{
    const struct keys_of *of = context;

    mirror_key(of->mirror, key->digest, of->number, key->revoked_ns != 0);
    return true;
}

/* ---- changes -------------------------------------------------------------------------------- */

static int last_audit(struct wr_database *database, int64_t *out)
{
    sqlite3_stmt *statement =
        wr_database_statement(database, "SELECT coalesce(max(id), 0) FROM audit");
    int result = wr_database_step(database, statement);

    *out = result == 1 ? sqlite3_column_int64(statement, 0) : 0;
    if (result == 1)
        (void)sqlite3_reset(statement);
    return result < 0 ? result : 0;
}

static int mirror_one(struct wr_mirror *mirror, struct wr_database *database, int64_t id)
{
    struct keys_of of = {mirror, 0};
    struct wr_customer customer;
    int result = wr_customer_get(database, id, &customer);

    if (result != 0)
        return result == WEIR_ENOENT ? 0 : result;
    of.number = customer.number;
    mirror_customer(mirror, &customer);
    return wr_customer_keys(database, id, mirror_its_key, &of);
}

static int mirror_since(struct wr_mirror *mirror, struct wr_database *database, int64_t after)
{
    sqlite3_stmt *statement =
        wr_database_statement(database, "SELECT DISTINCT customer FROM audit WHERE id > ?1");
    int result;

    if (statement != NULL)
        (void)sqlite3_bind_int64(statement, 1, after);
    while ((result = wr_database_step(database, statement)) == 1) {
        int64_t id = sqlite3_column_int64(statement, 0);
        result = mirror_one(mirror, database, id);
        if (result < 0)
            break;
    }
    if (statement != NULL)
        (void)sqlite3_reset(statement);
    return result;
}

int wr_mirror_changes(struct wr_mirror *mirror, struct wr_database *database)
{
    uint64_t mark = wr_customers_mark(mirror->map);
    int64_t last = 0;
    int result = wr_database_begin_reading(database);

    if (result != 0)
        return result;
    result = last_audit(database, &last);
    if (result == 0 && (mark == 0 || mark > (uint64_t)last + 1))
        result = WEIR_EAGAIN;
    else if (result == 0 && mark <= (uint64_t)last)
        result = mirror_since(mirror, database, (int64_t)mark - 1);
    wr_database_rollback(database);
    if (result == 0 && mark != (uint64_t)last + 1)
        (void)wr_customers_set_mark(mirror->map, (uint64_t)last + 1);
    return result;
}

/* ---- all ------------------------------------------------------------------------------------ */

static bool mirror_each(void *context, const struct wr_customer *customer)
{
    mirror_customer(context, customer);
    return true;
}

/* In the order of the table: by name would be a random walk through it. */
static int all_customers(struct wr_mirror *mirror, struct wr_database *database)
{
    sqlite3_stmt *statement =
        wr_database_statement(database, "SELECT " WR_CUSTOMER_COLUMNS " FROM customer AS c");
    struct wr_customer customer;
    int result;

    while ((result = wr_database_step(database, statement)) == 1) {
        wr_customer_row(statement, &customer);
        (void)mirror_each(mirror, &customer);
    }
    return result;
}

/* Live keys, of which there are |*live|. */
static int all_keys(struct wr_mirror *mirror, struct wr_database *database, uint64_t *live)
{
    sqlite3_stmt *statement = wr_database_statement(
        database, "SELECT k.digest, c.number FROM key AS k JOIN customer AS c ON c.id = k.customer"
                  " WHERE k.revoked IS NULL");
    int result;

    *live = 0;
    while ((result = wr_database_step(database, statement)) == 1) {
        const unsigned char *digest = sqlite3_column_blob(statement, 0);
        if (digest == NULL || sqlite3_column_bytes(statement, 0) != WR_CUSTOMER_DIGEST_BYTES)
            continue;
        mirror_key(mirror, digest, (uint32_t)sqlite3_column_int64(statement, 1), false);
        (*live)++;
    }
    return result;
}

static bool is_live(struct wr_database *database, const unsigned char *digest)
{
    sqlite3_stmt *statement =
        wr_database_statement(database, "SELECT 1 FROM key WHERE digest = ?1 AND revoked IS NULL");
    int result;

    if (statement != NULL)
        (void)sqlite3_bind_blob(statement, 1, digest, WR_CUSTOMER_DIGEST_BYTES, SQLITE_STATIC);
    result = wr_database_step(database, statement);
    if (result == 1)
        (void)sqlite3_reset(statement);
    return result != 0; /* on an error: left as it is */
}

/* Out of the map what the database does not have; asked key by key only where there is any. */
static void drop_keys(struct wr_mirror *mirror, struct wr_database *database, uint64_t live)
{
    unsigned char digest[WR_CUSTOMER_DIGEST_BYTES];
    uint32_t at = 0, number;
    uint64_t count = 0;

    while (wr_customers_key_next(mirror->map, &at, digest, &number))
        count++;
    if (count <= live && mirror->left_out == 0)
        return;
    at = 0;
    while (wr_customers_key_next(mirror->map, &at, digest, &number))
        if (!is_live(database, digest) && wr_customers_key_drop(mirror->map, digest) == 0)
            mirror->changed++;
}

int wr_mirror_all(struct wr_mirror *mirror, struct wr_database *database, int64_t now_ns)
{
    uint64_t live = 0;
    int64_t last = 0;
    int result =
        wr_customers_mark(mirror->map) != 0
            ? wr_recover(mirror->map, database, now_ns, &mirror->recovered, &mirror->damaged)
            : 0;

    if (result == 0)
        result = wr_database_begin_reading(database);
    if (result != 0)
        return result;
    result = last_audit(database, &last);
    if (result == 0)
        result = all_customers(mirror, database);
    if (result == 0)
        result = all_keys(mirror, database, &live);
    if (result == 0)
        drop_keys(mirror, database, live);
    wr_database_rollback(database);
    if (result == 0)
        (void)wr_customers_set_mark(mirror->map, (uint64_t)last + 1);
    return result;
}
