/* customers_read.c - customers, keys and the audit log as they stand. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <sqlite3.h>

#include "base/units.h"
#include "meter/customers_parts.h"
#include "wire/utf8.h"

/* ---- texts ---------------------------------------------------------------------------------- */

bool wr_is_label(const char *text, size_t max)
{
    size_t len = text != NULL ? strnlen(text, max + 1) : 0, at = 0;

    if (len == 0 || len > max || text[0] == ' ' || text[len - 1] == ' ')
        return false;
    while (at < len) {
        size_t seen = wr_utf8_seen((const unsigned char *)text + at, len - at);
        if (seen == 0)
            return false;
        at += seen;
    }
    return true;
}

bool wr_is_plain_name(const char *text)
{
    static const char allowed[] =
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz._-";
    size_t len = text != NULL ? strnlen(text, WR_CUSTOMER_PLAN_MAX + 1) : 0;

    return len > 0 && len <= WR_CUSTOMER_PLAN_MAX && strspn(text, allowed) == len;
}

void wr_moment_text(int64_t moment_ns, char out[WR_MOMENT_TEXT])
{
    time_t moment = (time_t)(moment_ns / WR_NS_PER_S);
    struct tm tm;

    out[0] = '\0';
    if (gmtime_r(&moment, &tm) != NULL)
        (void)strftime(out, WR_MOMENT_TEXT, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

void wr_anchor_text(int anchor, char *out, size_t size)
{
    out[0] = '\0';
    if (anchor > 0)
        (void)snprintf(out, size, "%d", anchor);
}

/* ---- customers ------------------------------------------------------------------------------ */

void wr_customer_row(sqlite3_stmt *statement, struct wr_customer *out)
{
    memset(out, 0, sizeof *out);
    out->id = sqlite3_column_int64(statement, 0);
    out->number = (uint32_t)sqlite3_column_int64(statement, 1);
    wr_database_text(statement, 2, out->name, sizeof out->name);
    wr_database_text(statement, 3, out->tenant, sizeof out->tenant);
    wr_database_text(statement, 4, out->plan, sizeof out->plan);
    wr_database_text(statement, 5, out->trial_plan, sizeof out->trial_plan);
    out->trial_until_ns = sqlite3_column_int64(statement, 6);
    out->anchor = (uint8_t)sqlite3_column_int(statement, 7);
    out->partner = sqlite3_column_int(statement, 8) != 0;
    out->suspended = sqlite3_column_int(statement, 9) != 0;
    out->from_file = sqlite3_column_int(statement, 10) != 0;
    out->wants_upgrade = sqlite3_column_int(statement, 11) != 0;
    out->created_ns = sqlite3_column_int64(statement, 12);
    out->ended_ns = sqlite3_column_int64(statement, 13);
    out->ended = sqlite3_column_type(statement, 13) != SQLITE_NULL;
}

const char *wr_customer_plan_at(const struct wr_customer *customer, int64_t now_ns)
{
    return customer->trial_plan[0] != '\0' && now_ns < customer->trial_until_ns
               ? customer->trial_plan
               : customer->plan;
}

static int one_customer(struct wr_database *database, sqlite3_stmt *statement,
                        struct wr_customer *out)
{
    int result = wr_database_step(database, statement);

    *out = (struct wr_customer){.id = 0};
    if (result == 0)
        return wr_database_refuse(database, WEIR_ENOENT, "there is no such customer");
    if (result < 0)
        return result;
    wr_customer_row(statement, out);
    (void)sqlite3_reset(statement);
    return 0;
}

int wr_customer_find(struct wr_database *database, const char *name, struct wr_customer *out)
{
    sqlite3_stmt *statement = wr_database_statement(
        database, "SELECT " WR_CUSTOMER_COLUMNS " FROM customer AS c WHERE c.name = ?1");

    if (statement != NULL)
        (void)sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
    return one_customer(database, statement, out);
}

int wr_customer_get(struct wr_database *database, int64_t id, struct wr_customer *out)
{
    sqlite3_stmt *statement = wr_database_statement(
        database, "SELECT " WR_CUSTOMER_COLUMNS " FROM customer AS c WHERE c.id = ?1");

    if (statement != NULL)
        (void)sqlite3_bind_int64(statement, 1, id);
    return one_customer(database, statement, out);
}

int wr_customer_of_key(struct wr_database *database,
                       const unsigned char digest[WR_CUSTOMER_DIGEST_BYTES],
                       struct wr_customer *out)
{
    sqlite3_stmt *statement = wr_database_statement(
        database, "SELECT " WR_CUSTOMER_COLUMNS " FROM key AS k JOIN customer AS c"
                  " ON c.id = k.customer WHERE k.digest = ?1 AND k.revoked IS NULL");

    if (statement != NULL)
        (void)sqlite3_bind_blob(statement, 1, digest, WR_CUSTOMER_DIGEST_BYTES, SQLITE_STATIC);
    return one_customer(database, statement, out);
}

static void bind_filter(sqlite3_stmt *statement, const struct wr_customer_filter *filter)
{
    if (filter->after != NULL)
        (void)sqlite3_bind_text(statement, 1, filter->after, -1, SQLITE_STATIC);
    if (filter->tenant != NULL)
        (void)sqlite3_bind_text(statement, 2, filter->tenant, -1, SQLITE_STATIC);
    if (filter->plan != NULL)
        (void)sqlite3_bind_text(statement, 3, filter->plan, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int(statement, 4, filter->with_ended);
    (void)sqlite3_bind_int64(statement, 5, filter->most > 0 ? filter->most : -1);
}

int wr_customers_each(struct wr_database *database, const struct wr_customer_filter *filter,
                      bool (*each)(void *context, const struct wr_customer *customer),
                      void *context)
{
    sqlite3_stmt *statement = wr_database_statement(
        database, "SELECT " WR_CUSTOMER_COLUMNS " FROM customer AS c"
                  " WHERE c.name > coalesce(?1, '') AND (?2 IS NULL OR c.tenant = ?2)"
                  " AND (?3 IS NULL OR c.plan = ?3) AND (?4 OR c.ended IS NULL)"
                  " ORDER BY c.name LIMIT ?5");
    struct wr_customer customer;
    int result;

    if (statement != NULL)
        bind_filter(statement, filter);
    while ((result = wr_database_step(database, statement)) == 1) {
        wr_customer_row(statement, &customer);
        if (!each(context, &customer))
            break;
    }
    if (result == 1)
        (void)sqlite3_reset(statement);
    return result < 0 ? result : 0;
}

int wr_customers_count(struct wr_database *database, int64_t *customers, int64_t *keys)
{
    sqlite3_stmt *statement = wr_database_statement(
        database, "SELECT (SELECT count(*) FROM customer WHERE ended IS NULL),"
                  " (SELECT count(*) FROM key WHERE revoked IS NULL)");
    int result = wr_database_step(database, statement);

    *customers = result == 1 ? sqlite3_column_int64(statement, 0) : 0;
    *keys = result == 1 ? sqlite3_column_int64(statement, 1) : 0;
    if (result == 1)
        (void)sqlite3_reset(statement);
    return result < 0 ? result : 0;
}

int wr_customers_plans(struct wr_database *database,
                       bool (*each)(void *context, const char *plan, int64_t customers),
                       void *context)
{
    sqlite3_stmt *statement = wr_database_statement(
        database,
        "SELECT plan, count(*) FROM (SELECT plan FROM customer WHERE ended IS NULL"
        " UNION ALL SELECT trial_plan FROM customer WHERE ended IS NULL"
        " AND trial_plan IS NOT NULL AND trial_plan <> plan) GROUP BY plan ORDER BY plan");
    char plan[WR_CUSTOMER_PLAN_MAX + 1];
    int result;

    while ((result = wr_database_step(database, statement)) == 1) {
        wr_database_text(statement, 0, plan, sizeof plan);
        if (!each(context, plan, sqlite3_column_int64(statement, 1)))
            break;
    }
    if (result == 1)
        (void)sqlite3_reset(statement);
    return result < 0 ? result : 0;
}

/* ---- keys ----------------------------------------------------------------------------------- */

void wr_customer_key_row(sqlite3_stmt *statement, struct wr_customer_key *out)
{
    const void *digest = sqlite3_column_blob(statement, 0);

    memset(out, 0, sizeof *out);
    if (digest != NULL && sqlite3_column_bytes(statement, 0) == WR_CUSTOMER_DIGEST_BYTES)
        memcpy(out->digest, digest, WR_CUSTOMER_DIGEST_BYTES);
    out->customer = sqlite3_column_int64(statement, 1);
    wr_database_text(statement, 2, out->identity, sizeof out->identity);
    wr_database_text(statement, 3, out->hint, sizeof out->hint);
    out->created_ns = sqlite3_column_int64(statement, 4);
    out->revoked_ns = sqlite3_column_int64(statement, 5);
}

int wr_customer_keys(struct wr_database *database, int64_t id,
                     bool (*each)(void *context, const struct wr_customer_key *key), void *context)
{
    sqlite3_stmt *statement =
        wr_database_statement(database, "SELECT " WR_KEY_COLUMNS
                                        " FROM key WHERE customer = ?1 ORDER BY created, digest");
    struct wr_customer_key key;
    int result;

    if (statement != NULL)
        (void)sqlite3_bind_int64(statement, 1, id);
    while ((result = wr_database_step(database, statement)) == 1) {
        wr_customer_key_row(statement, &key);
        if (!each(context, &key))
            break;
    }
    if (result == 1)
        (void)sqlite3_reset(statement);
    return result < 0 ? result : 0;
}

struct search {
    const char *text;
    struct wr_customer_key *out;
    unsigned found;
};

static bool compare_key(void *context, const struct wr_customer_key *key)
{
    struct search *search = context;
    char id[WR_KEY_ID_TEXT];

    wr_key_id(key->digest, id);
    if (strncmp(id, search->text, strlen(search->text)) == 0) {
        *search->out = *key;
        search->found++;
    }
    return true;
}

int wr_customer_find_key(struct wr_database *database, int64_t id, const char *text,
                         struct wr_customer_key *out)
{
    struct search search = {text, out, 0};
    int result;

    if (strlen(text) < 4)
        return wr_database_refuse(database, WEIR_EINVAL, "4 digits of a key's id at least");
    result = wr_customer_keys(database, id, compare_key, &search);
    if (result != 0)
        return result;
    if (search.found == 0)
        return wr_database_refuse(database, WEIR_ENOENT, "there is no such key");
    return search.found == 1
               ? 0
               : wr_database_refuse(database, WEIR_EINVAL, "several keys begin with %s", text);
}

/* ---- the audit log -------------------------------------------------------------------------- */

int wr_audit_add(struct wr_database *database, const struct wr_author *author,
                 const struct wr_audit_line *line)
{
    sqlite3_stmt *statement;

    if (!wr_is_label(author->who, WR_CUSTOMER_WHO_MAX))
        return wr_database_refuse(database, WEIR_EINVAL, "who makes a change has to be said");
    if (author->why != NULL && author->why[0] != '\0' &&
        !wr_is_label(author->why, WR_CUSTOMER_WHY_MAX))
        return wr_database_refuse(database, WEIR_EINVAL,
                                  "a reason is at most %d bytes of text, with no control or "
                                  "format characters",
                                  WR_CUSTOMER_WHY_MAX);
    statement = wr_database_statement(
        database, "INSERT INTO audit(at, who, what, customer, before, after, reason)"
                  " VALUES(?, ?, ?, ?, ?, ?, ?)");
    if (statement == NULL)
        return wr_database_fault(database)->error;
    (void)sqlite3_bind_int64(statement, 1, author->now_ns);
    (void)sqlite3_bind_text(statement, 2, author->who, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(statement, 3, line->what, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(statement, 4, line->customer);
    (void)sqlite3_bind_text(statement, 5, line->before, -1, SQLITE_STATIC); /* NULL is NULL */
    (void)sqlite3_bind_text(statement, 6, line->after, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(statement, 7, author->why != NULL ? author->why : "", -1,
                            SQLITE_STATIC);
    return wr_database_run(database, statement);
}

static void audit_row(sqlite3_stmt *statement, struct wr_audit *out)
{
    out->id = sqlite3_column_int64(statement, 0);
    out->at_ns = sqlite3_column_int64(statement, 1);
    wr_database_text(statement, 2, out->who, sizeof out->who);
    wr_database_text(statement, 3, out->what, sizeof out->what);
    out->customer = sqlite3_column_int64(statement, 4);
    wr_database_text(statement, 5, out->before, sizeof out->before);
    wr_database_text(statement, 6, out->after, sizeof out->after);
    wr_database_text(statement, 7, out->reason, sizeof out->reason);
}

int wr_audit_each(struct wr_database *database, int64_t customer, int64_t after,
                  bool (*each)(void *context, const struct wr_audit *audit), void *context)
{
    sqlite3_stmt *statement = wr_database_statement(
        database, customer != 0
                      ? "SELECT id, at, who, what, customer, before, after, reason FROM audit"
                        " WHERE customer = ?2 AND id > ?1 ORDER BY id"
                      : "SELECT id, at, who, what, customer, before, after, reason FROM audit"
                        " WHERE id > ?1 ORDER BY id");
    struct wr_audit audit;
    int result;

    if (statement != NULL)
        (void)sqlite3_bind_int64(statement, 1, after);
    if (statement != NULL && customer != 0)
        (void)sqlite3_bind_int64(statement, 2, customer);
    while ((result = wr_database_step(database, statement)) == 1) {
        audit_row(statement, &audit);
        if (!each(context, &audit))
            break;
    }
    if (result == 1)
        (void)sqlite3_reset(statement);
    return result < 0 ? result : 0;
}
