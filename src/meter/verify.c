/* verify.c - is the ledger right? In itself, and against the ledgers of other nodes. */
#include "meter/verify_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "algo/civil.h"

void wr_verify_complain(struct wr_verifying *verify, const char *format, ...)
{
    char text[512];
    va_list list;

    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    verify->out->wrong++;
    verify->say(verify->context, text);
}

struct wr_verify_date wr_verify_date_of(int32_t day)
{
    unsigned month, day_of_month;
    struct wr_verify_date date;
    int year;

    wr_civil_date(day, &year, &month, &day_of_month);
    (void)snprintf(date.text, sizeof date.text, "%d-%02u-%02u", year, month, day_of_month);
    return date;
}

/* ---- in itself ------------------------------------------------------------------------------ */

int wr_verify_three(struct wr_database *database, const char *sql, int64_t out[3])
{
    sqlite3_stmt *statement = wr_database_statement(database, sql);
    int result = wr_database_step(database, statement);

    for (int i = 0; i < 3; i++)
        out[i] = result == 1 ? sqlite3_column_int64(statement, i) : 0;
    if (result == 1)
        (void)sqlite3_reset(statement);
    return result < 0 ? result : 0;
}

static int add_up(struct wr_verifying *verify)
{
    int64_t sums[3], counts[3];
    int result = wr_verify_three(
        verify->database,
        "SELECT count(*), coalesce(sum(used), 0), coalesce(sum(over), 0) FROM usage", sums);

    if (result == 0)
        result = wr_verify_three(
            verify->database, "SELECT count(DISTINCT customer), count(DISTINCT node), 0 FROM usage",
            counts);
    if (result != 0)
        return result;
    verify->out->windows += (uint64_t)sums[0];
    verify->out->used += (uint64_t)sums[1];
    verify->out->over += (uint64_t)sums[2];
    verify->out->customers += (uint64_t)counts[0];
    verify->out->nodes += (uint64_t)counts[1];
    return 0;
}

static int check_days(struct wr_verifying *verify)
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
        wr_verify_complain(verify, "%s, %s, window of %s: %lld used, its days add up to %lld",
                           (const char *)sqlite3_column_text(statement, 0),
                           (const char *)sqlite3_column_text(statement, 1),
                           wr_verify_date_of((int32_t)sqlite3_column_int64(statement, 2)).text,
                           (long long)sqlite3_column_int64(statement, 3),
                           (long long)sqlite3_column_int64(statement, 4));
    return result;
}

static int check_rows(struct wr_verifying *verify)
{
    sqlite3_stmt *statement = wr_database_statement(verify->database, "PRAGMA foreign_key_check");
    int result;

    while ((result = wr_database_step(verify->database, statement)) == 1)
        wr_verify_complain(verify, "a row of %s is of no %s",
                           (const char *)sqlite3_column_text(statement, 0),
                           (const char *)sqlite3_column_text(statement, 2));
    return result;
}

int wr_verify_database(struct wr_database *database, struct wr_verify *out, wr_verify_say_fn *say,
                       void *context)
{
    struct wr_verifying verify = {.database = database, .out = out, .say = say, .context = context};
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
