/* recover.c - a database that is older than the map, or new in place of one that was lost.
 *
 * Problem. Cells are found by a customer's number, which the database gives. A copy of last week
 * gives numbers again that this week's customers have, and then somebody pays for another's use.
 *
 * Idea. The map and the cells are on the same host and of the same life: their numbers are the
 * truth. Who stands in the database under a number that the map has for somebody else gets another
 * one; whom the map has and the database has not is put in, by his id, under a name that says so.
 *
 * But a record whose id is damaged is not somebody else. Ids are digests, so one that nobody has
 * and that differs in a few bits from the database's is that one; and so is one whose keys the
 * database has for whom it has under the number. Then the database's row holds, and the map is put
 * right.
 *
 * A customer whom only the map knew keeps his keys: their digests are in the map as they are in the
 * database. */
#include "meter/recover.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <sqlite3.h>

#include "base/arith.h"
#include "meter/customers_parts.h"

#define RECOVERED INT64_C(-1) /* in place of an id */

/* The id that the database has under each number; 0: none. To be freed. */
static int read_numbers(struct wr_database *database, uint32_t room, int64_t **out)
{
    sqlite3_stmt *statement = wr_database_statement(database, "SELECT number, id FROM customer");
    int64_t *ids = calloc(room, sizeof *ids);
    int result;

    *out = ids;
    if (ids == NULL)
        return wr_database_refuse(database, WEIR_ENOMEM, "out of memory");
    while ((result = wr_database_step(database, statement)) == 1) {
        int64_t number = sqlite3_column_int64(statement, 0);
        if (number < room)
            ids[number] = sqlite3_column_int64(statement, 1);
    }
    return result;
}

/* Run |sql| with two numbers. */
static int run2(struct wr_database *database, const char *sql, int64_t a, int64_t b)
{
    sqlite3_stmt *statement = wr_database_statement(database, sql);

    if (statement == NULL)
        return wr_database_fault(database)->error;
    (void)sqlite3_bind_int64(statement, 1, a);
    (void)sqlite3_bind_int64(statement, 2, b);
    return wr_database_run(database, statement);
}

/* A number that neither the database nor the map has, nor a cell with counts. */
static int free_number(struct wr_customers *map, struct wr_database *database, int64_t *out)
{
    sqlite3_stmt *statement =
        wr_database_statement(database, "SELECT coalesce(max(number) + 1, 0) FROM customer");
    struct wr_customer_record record;
    int result = wr_database_step(database, statement);

    *out = 0;
    if (result < 0)
        return result;
    *out = wr_max_i64(sqlite3_column_int64(statement, 0),
                      wr_customers_place_for(database, wr_customers_room(map)).first);
    (void)sqlite3_reset(statement);
    while (*out < wr_customers_room(map) && wr_customers_get(map, (uint32_t)*out, &record))
        (*out)++;
    return 0;
}

/* Whoever has |number| in the database gets another; beyond the room there is no record for him
 * until there is. */
static int move_away(struct wr_customers *map, struct wr_database *database, uint32_t number)
{
    int64_t other;
    int result = free_number(map, database, &other);

    return result == 0
               ? run2(database, "UPDATE customer SET number = ?2 WHERE number = ?1", number, other)
               : result;
}

/* The keys of those whom |ids| has as RECOVERED. */
static int add_keys(struct wr_customers *map, struct wr_database *database, const int64_t *ids,
                    const struct wr_author *author)
{
    struct wr_customer_key key = {.identity = WR_RECOVERED_IDENTITY};
    struct wr_customer_record record;
    uint32_t at = 0, number;
    int result = 0;

    while (result == 0 && wr_customers_key_next(map, &at, key.digest, &number)) {
        if (ids[number] != RECOVERED || !wr_customers_get(map, number, &record))
            continue;
        key.customer = record.id;
        result = wr_customer_add_digest(database, &key, author);
        if (result == WEIR_EAGAIN) /* the database has it for somebody, and is right */
            result = 0;
    }
    return result;
}

static int add_customer(struct wr_customers *map, struct wr_database *database, uint32_t number,
                        const struct wr_customer_record *record, const struct wr_author *author)
{
    char name[64], plan[WR_CUSTOMER_PLAN_BYTES + 1];
    const struct wr_audit_line line = {"recover", record->id, NULL, plan};
    sqlite3_stmt *statement;
    int result;

    (void)snprintf(name, sizeof name, WR_RECOVERED_PREFIX "%016" PRIx64, (uint64_t)record->id);
    if (!wr_customers_plan_name(map, record->plan_after, plan))
        (void)snprintf(plan, sizeof plan, "default");
    statement = wr_database_statement(
        database,
        "INSERT INTO customer(id, number, name, plan, anchor, partner, suspended, created)"
        " VALUES(?, ?, ?, ?, ?, ?, ?, ?)");
    if (statement == NULL)
        return wr_database_fault(database)->error;
    (void)sqlite3_bind_int64(statement, 1, record->id);
    (void)sqlite3_bind_int64(statement, 2, number);
    (void)sqlite3_bind_text(statement, 3, name, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(statement, 4, plan, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int(statement, 5, record->anchor <= 31 ? record->anchor : 0);
    (void)sqlite3_bind_int(statement, 6, (record->flags & WR_CUSTOMER_PARTNER) != 0);
    (void)sqlite3_bind_int(statement, 7, (record->flags & WR_CUSTOMER_SUSPENDED) != 0);
    (void)sqlite3_bind_int64(statement, 8, author->now_ns);
    result = wr_database_run(database, statement);
    return result == 0 ? wr_audit_add(database, author, &line) : result;
}

/* The map has |record| under |number|, the database has not, and has |is| there; 0: nobody. 1: he
 * is one that it did not know. */
static int put_right(struct wr_customers *map, struct wr_database *database, uint32_t number,
                     int64_t is, const struct wr_customer_record *record,
                     const struct wr_author *author)
{
    struct wr_customer known;
    int result = is != 0 ? move_away(map, database, number) : 0;

    if (result != 0)
        return result;
    result = wr_customer_get(database, record->id, &known);
    if (result == 0) /* under another number */
        return run2(database, "UPDATE customer SET number = ?2 WHERE id = ?1", record->id, number);
    if (result == WEIR_ENOENT)
        result = add_customer(map, database, number, record, author);
    return result == 0 ? 1 : result;
}

/* ---- damaged ids ----------------------------------------------------------------------------- */

#define DAMAGED_BITS 8 /* a byte's; digests are that near by chance once in 2 000 000 000 */

struct recovering {
    struct wr_own own;
    struct wr_customers *map;
    int64_t *ids;  /* of the database, by number */
    bool *vouched; /* by number: the database has a key of the record for its own; NULL: it
                      was not needed yet */
    uint64_t added, damaged;
};

/* Does the database have the key for |id|? 1, 0, or an error. */
static int is_key_of(struct wr_database *database, const unsigned char *digest, int64_t id)
{
    sqlite3_stmt *statement = wr_database_statement(
        database, "SELECT 1 FROM key WHERE digest = ?1 AND customer = ?2 AND revoked IS NULL");
    int result;

    if (statement != NULL) {
        (void)sqlite3_bind_blob(statement, 1, digest, WR_CUSTOMER_DIGEST_BYTES, SQLITE_STATIC);
        (void)sqlite3_bind_int64(statement, 2, id);
    }
    result = wr_database_step(database, statement);
    if (result == 1)
        (void)sqlite3_reset(statement);
    return result;
}

/* One look at all keys of records that the database has as somebody else. */
static int vouch(struct recovering *r)
{
    bool *vouched = calloc(wr_customers_room(r->map), sizeof *vouched);
    unsigned char digest[WR_CUSTOMER_DIGEST_BYTES];
    struct wr_customer_record record;
    uint32_t at = 0, number;
    int result = 0;

    if (vouched == NULL)
        return wr_database_refuse(r->own.database, WEIR_ENOMEM, "out of memory");
    while (result >= 0 && wr_customers_key_next(r->map, &at, digest, &number)) {
        if (r->ids[number] == 0 || !wr_customers_get(r->map, number, &record) ||
            record.id == r->ids[number])
            continue;
        result = is_key_of(r->own.database, digest, r->ids[number]);
        vouched[number] = vouched[number] || result == 1;
    }
    r->vouched = vouched;
    return result < 0 ? result : 0;
}

/* Is |record|, which differs from what the database has under |number|, that one with a damaged id?
 * 1, 0, or an error. */
static int is_damaged(struct recovering *r, uint32_t number,
                      const struct wr_customer_record *record)
{
    uint64_t difference = (uint64_t)record->id ^ (uint64_t)r->ids[number];
    struct wr_customer known;
    int result;

    if (r->ids[number] == 0)
        return 0;
    result = wr_customer_get(r->own.database, record->id, &known);
    if (result != WEIR_ENOENT)
        return result;
    if (__builtin_popcountll(difference) <= DAMAGED_BITS)
        return 1;
    result = r->vouched == NULL ? vouch(r) : 0;
    return result == 0 && r->vouched != NULL ? r->vouched[number] : result;
}

/* ---- damaged records --------------------------------------------------------------------------
 */

#define FLAGS \
    (WR_CUSTOMER_ACTIVE | WR_CUSTOMER_PARTNER | WR_CUSTOMER_SUSPENDED | WR_CUSTOMER_WANTS_UPGRADE)

static bool is_plan(const struct wr_customers *map, unsigned plan)
{
    char name[WR_CUSTOMER_PLAN_BYTES + 1];

    if (!wr_customers_plan_name(map, plan, name))
        return false;
    for (const char *at = name; *at != '\0'; at++)
        if (*at <= ' ' || *at > '~')
            return false;
    return true;
}

/* Has somebody written |record|? Where the file is damaged, bytes are customers that nobody made.
 */
static bool is_somebody(const struct wr_customers *map, const struct wr_customer_record *record)
{
    return record->id != 0 && (record->flags & ~FLAGS) == 0 && is_plan(map, record->plan) &&
           is_plan(map, record->plan_after);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int recover_one(struct recovering *r, uint32_t number,
                       const struct wr_customer_record *record, const struct wr_author *author)
{
    static const struct wr_customer_record nobody = {.flags = 0};
    int result = is_damaged(r, number, record);

    if (result == 0 && !is_somebody(r->map, record))
        result = wr_customers_set(r->map, number, &nobody, true) == 0;
    if (result != 0) {
        r->damaged += result == 1;
        return result < 0 ? result : 0;
    }
    if (!r->own.begun)
        result = wr_own_begin(&r->own, r->own.database);
    if (result == 0)
        result = put_right(r->map, r->own.database, number, r->ids[number], record, author);
    if (result == 1) {
        r->ids[number] = RECOVERED;
        r->added++;
        result = 0;
    }
    return result;
}

static int put_all_right(struct recovering *r, const struct wr_author *author)
{
    uint32_t room = wr_customers_room(r->map);
    struct wr_customer_record record;
    int result = 0;

    for (uint32_t number = 0; result == 0 && number < room; number++)
        if (wr_customers_get(r->map, number, &record) &&
            (record.id != r->ids[number] || record.id == 0))
            result = recover_one(r, number, &record, author);
    return result == 0 && r->added > 0 ? add_keys(r->map, r->own.database, r->ids, author) : result;
}

int wr_recover(struct wr_customers *map, struct wr_database *database, int64_t now_ns,
               uint64_t *count, uint64_t *damaged)
{
    const struct wr_author author = {"weir", "customers.map knew it, the database did not", now_ns};
    struct recovering r = {.own = {database, false}, .map = map};
    int result = read_numbers(database, wr_customers_room(map), &r.ids);

    if (result == 0)
        result = put_all_right(&r, &author);
    *count += r.added;
    *damaged += r.damaged;
    free(r.vouched);
    free(r.ids);
    return r.own.begun ? wr_own_end(&r.own, result) : result;
}
