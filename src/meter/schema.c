/* schema.c - the tables, and how older files become this build's.
 *
 * Idea. PRAGMA user_version counts the steps that were taken. A step, once released, is never
 * edited: a change of the tables is another step.
 *
 * Tables are STRICT: a text where a number belongs is an error, not a surprise. Those of usage are
 * clustered (WITHOUT ROWID) by node, quota and window first, so that what is written every second
 * lies together at the end of the tree, however many years lie before it. */
#include "meter/schema.h"

#include <stdio.h>

#include <sqlite3.h>

/* Times are nanoseconds since the epoch, days are days since 1970-01-01. */
static const char *const steps[] = {
    /* 1 */
    "CREATE TABLE setting(name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;"

    /* A host, by what its files are known by. batch: the last one written, at that moment. */
    "CREATE TABLE node(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, since INTEGER NOT NULL,"
    " batch INTEGER NOT NULL DEFAULT 0, at INTEGER NOT NULL DEFAULT 0) STRICT;"

    "CREATE TABLE customer(id INTEGER PRIMARY KEY,"
    " number INTEGER NOT NULL UNIQUE CHECK(number >= 0),"
    " name TEXT NOT NULL UNIQUE, tenant TEXT, plan TEXT NOT NULL,"
    " anchor INTEGER NOT NULL DEFAULT 0 CHECK(anchor BETWEEN 0 AND 31),"
    " partner INTEGER NOT NULL DEFAULT 0 CHECK(partner IN (0, 1)),"
    " suspended INTEGER NOT NULL DEFAULT 0 CHECK(suspended IN (0, 1)),"
    /* What the customers' file said of it when that was last applied; NULL: it is not in it. */
    " file_entry BLOB,"
    " wants_upgrade INTEGER NOT NULL DEFAULT 0 CHECK(wants_upgrade IN (0, 1)),"
    " trial_plan TEXT, trial_until INTEGER,"
    " created INTEGER NOT NULL, ended INTEGER) STRICT;"
    "CREATE INDEX customer_tenant ON customer(tenant) WHERE tenant IS NOT NULL;"
    "CREATE INDEX customer_trial ON customer(trial_until) WHERE trial_until IS NOT NULL;"
    "CREATE INDEX customer_file ON customer(id) WHERE file_entry IS NOT NULL;"

    "CREATE TABLE key(digest BLOB PRIMARY KEY CHECK(length(digest) = 16),"
    " customer INTEGER NOT NULL REFERENCES customer(id), identity TEXT NOT NULL,"
    " hint TEXT NOT NULL, created INTEGER NOT NULL, revoked INTEGER,"
    /* It is there because it stands in the customers' file. */
    " from_file INTEGER NOT NULL DEFAULT 0 CHECK(from_file IN (0, 1))) STRICT, WITHOUT ROWID;"
    "CREATE INDEX key_customer ON key(customer);"

    /* AUTOINCREMENT: a number is never used again, as mirrors remember the last one they saw. */
    "CREATE TABLE audit(id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL,"
    " who TEXT NOT NULL, what TEXT NOT NULL, customer INTEGER NOT NULL REFERENCES customer(id),"
    " before TEXT, after TEXT, reason TEXT NOT NULL) STRICT;"
    "CREATE INDEX audit_customer ON audit(customer);"

    "CREATE TABLE quota(id INTEGER PRIMARY KEY, name TEXT NOT NULL,"
    " per INTEGER NOT NULL CHECK(per BETWEEN 1 AND 3), zone TEXT NOT NULL,"
    " UNIQUE(name, per)) STRICT;"

    /* day, before: what is new is put down to |day|; |before| of |used| was used on days before. */
    "CREATE TABLE usage(node INTEGER NOT NULL REFERENCES node(id),"
    " quota INTEGER NOT NULL REFERENCES quota(id), window_day INTEGER NOT NULL,"
    " customer INTEGER NOT NULL REFERENCES customer(id),"
    " used INTEGER NOT NULL CHECK(used >= 0), over INTEGER NOT NULL CHECK(over BETWEEN 0 AND used),"
    " day INTEGER NOT NULL, before INTEGER NOT NULL DEFAULT 0, batch INTEGER NOT NULL,"
    " PRIMARY KEY(node, quota, window_day, customer)) STRICT, WITHOUT ROWID;"
    "CREATE INDEX usage_customer ON usage(customer, quota, window_day);"

    /* Of windows longer than a day, what each day added. */
    "CREATE TABLE usage_day(node INTEGER NOT NULL, quota INTEGER NOT NULL, day INTEGER NOT NULL,"
    " customer INTEGER NOT NULL, window_day INTEGER NOT NULL,"
    " used INTEGER NOT NULL CHECK(used >= 0),"
    " PRIMARY KEY(node, quota, day, customer, window_day)) STRICT, WITHOUT ROWID;"
    "CREATE INDEX usage_day_customer ON usage_day(customer, quota, window_day, day);",

    /* 2 */
    /* A threshold that was reached, once. state: enum wr_alert_state; said: it is in the log;
     * since: when sending it was begun; plan, used, units (the limit) as they were at that moment.
     */
    "CREATE TABLE alert(id INTEGER PRIMARY KEY, event TEXT NOT NULL,"
    " customer INTEGER NOT NULL REFERENCES customer(id),"
    " quota INTEGER NOT NULL REFERENCES quota(id), window_day INTEGER NOT NULL,"
    " percent INTEGER NOT NULL CHECK(percent BETWEEN 1 AND 200),"
    " plan TEXT NOT NULL, used INTEGER NOT NULL, units INTEGER NOT NULL,"
    " starts INTEGER NOT NULL, ends INTEGER NOT NULL, at INTEGER NOT NULL,"
    " said INTEGER NOT NULL DEFAULT 0 CHECK(said IN (0, 1)),"
    " state INTEGER NOT NULL CHECK(state BETWEEN 0 AND 6),"
    " tries INTEGER NOT NULL DEFAULT 0, next_at INTEGER NOT NULL, since INTEGER NOT NULL,"
    " last_error TEXT NOT NULL DEFAULT '', sent INTEGER,"
    " UNIQUE(customer, quota, window_day, percent)) STRICT;"
    "CREATE INDEX alert_due ON alert(state, tries, next_at) WHERE state < 2;"
    "CREATE INDEX alert_unsaid ON alert(id) WHERE said = 0;"
    "CREATE INDEX alert_dead ON alert(id) WHERE state = 3;"

    /* Usage of a shared quota that has changed: what all nodes used is to be asked for. */
    "CREATE TABLE alert_watch(customer INTEGER NOT NULL REFERENCES customer(id),"
    " quota INTEGER NOT NULL REFERENCES quota(id), window_day INTEGER NOT NULL,"
    " percents BLOB NOT NULL, plan TEXT NOT NULL, used INTEGER NOT NULL, units INTEGER NOT NULL,"
    " starts INTEGER NOT NULL, ends INTEGER NOT NULL, change INTEGER NOT NULL DEFAULT 0,"
    " next_at INTEGER NOT NULL DEFAULT 0,"
    " PRIMARY KEY(customer, quota, window_day)) STRICT, WITHOUT ROWID;"
    "CREATE INDEX alert_watch_due ON alert_watch(next_at);"

    /* An upgrade that is to be confirmed, or was refused: the last of each customer. */
    "CREATE TABLE upgrade(customer INTEGER PRIMARY KEY REFERENCES customer(id),"
    " event TEXT NOT NULL, before TEXT NOT NULL, after TEXT NOT NULL, at INTEGER NOT NULL,"
    " state INTEGER NOT NULL CHECK(state BETWEEN 0 AND 6),"
    " tries INTEGER NOT NULL DEFAULT 0, next_at INTEGER NOT NULL, since INTEGER NOT NULL,"
    " last_error TEXT NOT NULL DEFAULT '', sent INTEGER) STRICT;"
    "CREATE INDEX upgrade_due ON upgrade(state, tries, next_at) WHERE state < 2;",
};
#define STEPS ((int64_t)(sizeof steps / sizeof steps[0]))

static int ask(struct wr_database *database, const char *pragma, int64_t *out)
{
    sqlite3_stmt *statement = wr_database_statement(database, pragma);
    int result = wr_database_step(database, statement);

    *out = result == 1 ? sqlite3_column_int64(statement, 0) : 0;
    if (statement != NULL)
        (void)sqlite3_reset(statement);
    return result < 0 ? result : 0;
}

/* How many steps the file has taken; an empty one none. */
static int look(struct wr_database *database, int64_t *taken)
{
    int64_t application = 0, tables = 0;
    int result = ask(database, "PRAGMA application_id", &application);

    *taken = 0;
    if (result == 0)
        result = ask(database, "PRAGMA user_version", taken);
    if (result == 0)
        result = ask(database, "SELECT count(*) FROM sqlite_master", &tables);
    if (result != 0)
        return result;
    if (application != WR_SCHEMA_APPLICATION && (tables > 0 || *taken > 0))
        return wr_database_foreign(database, "it is a database of another program");
    if (*taken > STEPS)
        return wr_database_foreign(database, "a newer weir has made it: use that one");
    return 0;
}

bool wr_schema_is_empty(struct wr_database *database)
{
    int64_t taken;

    return look(database, &taken) == 0 && taken == 0;
}

int wr_schema_check(struct wr_database *database)
{
    int64_t taken;
    int result = look(database, &taken);

    if (result == 0 && taken < STEPS)
        result =
            wr_database_foreign(database, "an older weir has made it: start `weir serve` once");
    return result;
}

static int take_step(struct wr_database *database, int64_t number)
{
    char version[96];

    (void)snprintf(version, sizeof version,
                   "PRAGMA application_id = %d; PRAGMA user_version = %lld;", WR_SCHEMA_APPLICATION,
                   (long long)(number + 1));
    return wr_database_exec(database, steps[number]) == 0 ? wr_database_exec(database, version)
                                                          : wr_database_fault(database)->error;
}

int wr_schema_migrate(struct wr_database *database)
{
    int64_t taken;
    int result = look(database, &taken);

    if (result == 0)
        result = wr_database_exec(database, "PRAGMA journal_mode = WAL");
    if (result != 0 || taken == STEPS)
        return result;
    result = wr_database_begin(database);
    if (result != 0)
        return result;
    result = look(database, &taken); /* another process may have been first */
    while (result == 0 && taken < STEPS)
        result = take_step(database, taken++);
    if (result == 0)
        return wr_database_commit(database);
    wr_database_rollback(database);
    return result;
}
