/* recover.c - a database that is older than the map, or new in place of one that was lost.
 *
 * Problem. Cells are found by a customer's number, which the database gives. A copy of last week
 * gives numbers again that this week's customers have, and then somebody pays for another's use.
 *
 * Idea. The map and the cells are on the same host and of the same life: their numbers are the
 * truth. Who stands in the database under a number that the map has for somebody else gets another
 * one; whom the map has and the database has not is put in, by his id, under a name that says so.
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
    *out = wr_max_i64(sqlite3_column_int64(statement, 0), wr_customers_first_for(database));
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

static int put_all_right(struct wr_own *own, struct wr_customers *map, int64_t *ids,
                         const struct wr_author *author, uint64_t *count)
{
    uint32_t room = wr_customers_room(map);
    struct wr_customer_record record;
    uint64_t added = 0;
    int result = 0;

    for (uint32_t number = 0; result == 0 && number < room; number++) {
        if (!wr_customers_get(map, number, &record) || record.id == ids[number])
            continue;
        if (!own->begun)
            result = wr_own_begin(own, own->database);
        if (result == 0)
            result = put_right(map, own->database, number, ids[number], &record, author);
        if (result == 1) {
            ids[number] = RECOVERED;
            added++;
            result = 0;
        }
    }
    *count += added;
    return result == 0 && added > 0 ? add_keys(map, own->database, ids, author) : result;
}

int wr_recover(struct wr_customers *map, struct wr_database *database, int64_t now_ns,
               uint64_t *count)
{
    const struct wr_author author = {"weir", "customers.map knew it, the database did not", now_ns};
    struct wr_own own = {database, false};
    int64_t *ids;
    int result = read_numbers(database, wr_customers_room(map), &ids);

    if (result == 0)
        result = put_all_right(&own, map, ids, &author, count);
    free(ids);
    return own.begun ? wr_own_end(&own, result) : result;
}
