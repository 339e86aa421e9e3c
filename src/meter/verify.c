/* verify.c - is the ledger right? In itself, and against the cells it is written from. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "algo/civil.h"
#include "base/units.h"
#include "meter/expire.h"
#include "meter/report.h"
#include "store/customers.h"
#include "store/usage.h"

struct verify {
    struct wr_database *database;
    struct wr_verify *out;
    wr_verify_say_fn *say;
    void *context;
    const char *directory;
    struct wr_customers *map;
    int64_t node, now_ns;
};

static void complain(struct verify *verify, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void complain(struct verify *verify, const char *format, ...)
{
    char text[512];
    va_list list;

    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    verify->out->wrong++;
    verify->say(verify->context, text);
}

/* A day as people write it. */
struct date {
    char text[24];
};

static struct date date_of(int32_t day)
{
    unsigned month, day_of_month;
    struct date date;
    int year;

    wr_civil_date(day, &year, &month, &day_of_month);
    (void)snprintf(date.text, sizeof date.text, "%d-%02u-%02u", year, month, day_of_month);
    return date;
}

/* ---- in itself ------------------------------------------------------------------------------ */

/* The only row of |sql|: three numbers. */
static int three(struct wr_database *database, const char *sql, int64_t out[3])
{
    sqlite3_stmt *statement = wr_database_statement(database, sql);
    int result = wr_database_step(database, statement);

    for (int i = 0; i < 3; i++)
        out[i] = result == 1 ? sqlite3_column_int64(statement, i) : 0;
    if (result == 1)
        (void)sqlite3_reset(statement);
    return result < 0 ? result : 0;
}

static int add_up(struct verify *verify)
{
    int64_t sums[3], counts[3];
    int result =
        three(verify->database,
              "SELECT count(*), coalesce(sum(used), 0), coalesce(sum(over), 0) FROM usage", sums);

    if (result == 0)
        result =
            three(verify->database,
                  "SELECT count(DISTINCT customer), count(DISTINCT node), 0 FROM usage", counts);
    if (result != 0)
        return result;
    verify->out->windows += (uint64_t)sums[0];
    verify->out->used += (uint64_t)sums[1];
    verify->out->over += (uint64_t)sums[2];
    verify->out->customers += (uint64_t)counts[0];
    verify->out->nodes += (uint64_t)counts[1];
    return 0;
}

static int check_days(struct verify *verify)
{
    sqlite3_stmt *statement = wr_database_statement(
        verify->database,
        "SELECT c.name, q.name, u.window_day, u.used, (SELECT coalesce(sum(d.used), 0)"
        " FROM usage_day AS d WHERE d.customer = u.customer AND d.quota = u.quota"
        " AND d.window_day = u.window_day AND d.node = u.node) AS days"
        " FROM usage AS u JOIN quota AS q ON q.id = u.quota JOIN customer AS c"
        " ON c.id = u.customer WHERE q.per > 1 AND u.used <> days");
    int result;

    while ((result = wr_database_step(verify->database, statement)) == 1)
        complain(verify, "%s, %s, window of %s: %lld used, its days add up to %lld",
                 (const char *)sqlite3_column_text(statement, 0),
                 (const char *)sqlite3_column_text(statement, 1),
                 date_of((int32_t)sqlite3_column_int64(statement, 2)).text,
                 (long long)sqlite3_column_int64(statement, 3),
                 (long long)sqlite3_column_int64(statement, 4));
    return result;
}

static int check_rows(struct verify *verify)
{
    sqlite3_stmt *statement = wr_database_statement(verify->database, "PRAGMA foreign_key_check");
    int result;

    while ((result = wr_database_step(verify->database, statement)) == 1)
        complain(verify, "a row of %s is of no %s", (const char *)sqlite3_column_text(statement, 0),
                 (const char *)sqlite3_column_text(statement, 2));
    return result;
}

int wr_verify_database(struct wr_database *database, struct wr_verify *out, wr_verify_say_fn *say,
                       void *context)
{
    struct verify verify = {.database = database, .out = out, .say = say, .context = context};
    int result = wr_database_check(database, true);

    if (result == WEIR_ECORRUPT)
        out->wrong++; /* what, the database's fault says */
    if (result == 0)
        result = wr_database_begin_reading(database);
    if (result != 0)
        return result;
    result = add_up(&verify);
    if (result == 0)
        result = check_days(&verify);
    if (result == 0)
        result = check_rows(&verify);
    wr_database_rollback(database);
    return result;
}

/* ---- against other databases ---------------------------------------------------------------- */

static void end(sqlite3_stmt *statement, int result)
{
    if (result == 1)
        (void)sqlite3_reset(statement);
}

int wr_verify_same_node(struct wr_database *database, struct wr_database *other, char *out,
                        size_t size)
{
    sqlite3_stmt *names = wr_database_statement(
        database, "SELECT name FROM node WHERE id IN (SELECT node FROM usage)");
    int result = 0, found = 0;

    out[0] = '\0';
    while (found == 0 && (result = wr_database_step(database, names)) == 1) {
        sqlite3_stmt *same = wr_database_statement(
            other, "SELECT 1 FROM node WHERE name = ?1 AND id IN (SELECT node FROM usage)");
        wr_database_text(names, 0, out, size);
        if (same != NULL)
            (void)sqlite3_bind_text(same, 1, out, -1, SQLITE_STATIC);
        found = wr_database_step(other, same);
        end(same, found);
    }
    end(names, result);
    if (found != 1)
        out[0] = '\0';
    return found < 0 ? found : result < 0 ? result : 0;
}

/* 1: he has a row in one of them. */
static int is_there(struct wr_database *const *earlier, size_t count, int64_t customer)
{
    int result = 0;

    for (size_t i = 0; result == 0 && i < count; i++) {
        sqlite3_stmt *statement;
        if (earlier[i] == NULL)
            continue;
        statement =
            wr_database_statement(earlier[i], "SELECT 1 FROM usage WHERE customer = ?1 LIMIT 1");
        if (statement != NULL)
            (void)sqlite3_bind_int64(statement, 1, customer);
        result = wr_database_step(earlier[i], statement);
        end(statement, result);
    }
    return result;
}

int wr_verify_repeated(struct wr_database *database, struct wr_database *const *earlier,
                       size_t count, uint64_t *out)
{
    sqlite3_stmt *statement =
        wr_database_statement(database, "SELECT DISTINCT customer FROM usage");
    int result = 0, there = 0;

    *out = 0;
    while (there >= 0 && (result = wr_database_step(database, statement)) == 1) {
        there = is_there(earlier, count, sqlite3_column_int64(statement, 0));
        *out += there == 1;
    }
    end(statement, result);
    return there < 0 ? there : result < 0 ? result : 0;
}

/* ---- against the cells ---------------------------------------------------------------------- */

/* What the database has of a window; 0, 0 where it has none. */
static int read_row(struct verify *verify, int64_t quota, int64_t customer, int32_t day,
                    int64_t row[2])
{
    sqlite3_stmt *statement = wr_database_statement(
        verify->database, "SELECT used, over FROM usage WHERE node = ?1 AND quota = ?2"
                          " AND window_day = ?3 AND customer = ?4");
    int result;

    row[0] = row[1] = 0;
    if (statement == NULL)
        return wr_database_fault(verify->database)->error;
    (void)sqlite3_bind_int64(statement, 1, verify->node);
    (void)sqlite3_bind_int64(statement, 2, quota);
    (void)sqlite3_bind_int64(statement, 3, day);
    (void)sqlite3_bind_int64(statement, 4, customer);
    result = wr_database_step(verify->database, statement);
    if (result != 1)
        return result;
    row[0] = sqlite3_column_int64(statement, 0);
    row[1] = sqlite3_column_int64(statement, 1);
    (void)sqlite3_reset(statement);
    return 0;
}

/* Whose the cell is: by name, or where the database does not know him, by his id. */
static int name_of(struct verify *verify, int64_t id, char out[WR_CUSTOMER_NAME_MAX + 1])
{
    struct wr_customer customer;
    int result = wr_customer_get(verify->database, id, &customer);

    if (result == 0)
        (void)snprintf(out, WR_CUSTOMER_NAME_MAX + 1, "%s", customer.name);
    else
        (void)snprintf(out, WR_CUSTOMER_NAME_MAX + 1, "customer %016" PRIx64, (uint64_t)id);
    return result == WEIR_ENOENT ? 0 : result;
}

struct place {
    const struct wr_report_quota *quota;
    const struct wr_usage *usage;
    uint32_t number;
    int64_t customer;
    int32_t since; /* windows that begin before it were deleted */
};

static int check_window(struct verify *verify, const struct place *at,
                        const struct wr_usage_window *window)
{
    char name[WR_CUSTOMER_NAME_MAX + 1];
    int64_t row[2] = {0, 0};
    bool can_be =
        wr_usage_can_begin(at->usage, window->day, (int32_t)(verify->now_ns / WR_NS_PER_DAY));
    int result = can_be ? read_row(verify, at->quota->id, at->customer, window->day, row) : 0;

    if (result != 0 ||
        (can_be && (uint64_t)row[0] == window->units && (uint64_t)row[1] == window->over))
        return result;
    result = name_of(verify, at->customer, name);
    if (result == 0 && can_be)
        complain(verify,
                 "%s, %s, window of %s: the cell has %" PRIu64 " used and %" PRIu64
                 " over, the ledger %" PRId64 " and %" PRId64,
                 name, at->quota->name, date_of(window->day).text, window->units, window->over,
                 row[0], row[1]);
    else if (result == 0)
        complain(verify,
                 "%s, %s: cell %u of its file of usage has a window of %s, which cannot be: it is "
                 "damaged, or the clock was far from right",
                 name, at->quota->name, at->number, date_of(window->day).text);
    return result;
}

/* |at| has the cell. */
static int check_cell(struct verify *verify, struct place *at)
{
    struct wr_usage_window window[WR_USAGE_WINDOWS];
    unsigned count = wr_usage_read(at->usage, at->number, window);
    struct wr_customer_record record;
    int result = 0;

    if (!wr_customers_get(verify->map, at->number, &record))
        return 0; /* one who ended: he has no record to be found by */
    at->customer = record.id;
    for (unsigned i = 0; result == 0 && i < count; i++) {
        if (wr_expire_is_gone(window[i].day, at->since, verify->now_ns))
            continue; /* its row is deleted, or about to be, and not written */
        verify->out->windows++;
        verify->out->used += window[i].units;
        verify->out->over += window[i].over;
        result = check_window(verify, at, &window[i]);
    }
    return result;
}

struct quotas {
    struct wr_report_quota quota[64];
    size_t count;
};

static bool collect(void *context, const struct wr_report_quota *quota)
{
    struct quotas *quotas = context;

    if (quotas->count < sizeof quotas->quota / sizeof quotas->quota[0])
        quotas->quota[quotas->count++] = *quota;
    return true;
}

/* Is it said of the file ("is damaged"), and no sentence of its own ("its layout is 7")? */
static bool is_predicate(const char *text)
{
    static const char *const verbs[] = {"is ", "has ", "was ", "cannot "};

    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (strncmp(text, verbs[i], strlen(verbs[i])) == 0)
            return true;
    return false;
}

/* A file that is there and cannot be read. */
static void unread(struct verify *verify, const char *file, const struct wr_diag *diag, int result)
{
    const char *why = diag->kept > 0 ? diag->items[0].text : weir_strerror(result);

    complain(verify, "%s: it cannot be compared: %s%s", file, is_predicate(why) ? "it " : "", why);
}

/* A quota that has no file any more has nothing to be compared with; nor has one of the same name
 * whose windows are not those of the file: what it counts now is another. */
static int check_quota(struct verify *verify, const struct wr_report_quota *quota)
{
    char path[4096];
    const struct wr_usage_options options = {
        .path = path, .name = quota->name, .per = WR_USAGE_PER_ANY, .must_exist = true};
    struct wr_usage *usage;
    struct place place = {.quota = quota};
    struct wr_diag diag;
    uint32_t at = 0;
    int result;

    (void)snprintf(path, sizeof path, "%s/%s" WR_USAGE_SUFFIX, verify->directory, quota->name);
    wr_diag_init(&diag, NULL);
    result = wr_usage_open(&usage, &options, &diag);
    if (result == WEIR_ENOENT)
        return 0;
    if (result != 0) {
        unread(verify, path + strlen(verify->directory) + 1, &diag, result);
        return 0;
    }
    place.usage = usage;
    result = wr_expire_since(verify->database, quota->id, &place.since);
    while (wr_usage_per(usage) == quota->per && result == 0 &&
           wr_usage_known_next(usage, &at, &place.number)) {
        verify->out->customers++;
        result = check_cell(verify, &place);
    }
    wr_usage_close(usage);
    return result;
}

static int find_node(struct verify *verify)
{
    int64_t found[3];
    int result = three(verify->database,
                       "SELECT n.id, 0, 0 FROM setting AS s JOIN node AS n ON n.name = s.value"
                       " WHERE s.name = 'node'",
                       found);

    verify->node = found[0];
    return result;
}

int wr_verify_cells(struct wr_database *database, const char *directory, int64_t now_ns,
                    struct wr_verify *out, wr_verify_say_fn *say, void *context)
{
    struct verify verify = {.database = database,
                            .out = out,
                            .say = say,
                            .context = context,
                            .directory = directory,
                            .now_ns = now_ns};
    struct wr_diag diag;
    char path[4096];
    const struct wr_customers_options options = {.path = path, .must_exist = true};
    struct quotas quotas = {.count = 0};
    int result;

    (void)snprintf(path, sizeof path, "%s/customers.map", directory);
    wr_diag_init(&diag, NULL);
    result = wr_customers_open(&verify.map, &options, &diag);
    if (result == WEIR_ENOENT)
        return result;
    if (result != 0) {
        unread(&verify, WR_CUSTOMERS_NAME, &diag, result);
        return 0;
    }
    result = find_node(&verify);
    if (result == 0)
        result = wr_report_quotas(database, collect, &quotas);
    for (size_t i = 0; result == 0 && i < quotas.count; i++)
        result = check_quota(&verify, &quotas.quota[i]);
    out->nodes++;
    wr_customers_close(verify.map);
    return result;
}
