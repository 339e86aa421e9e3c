/* roster_apply.c - the database made what a customers' file says.
 *
 * Idea. An entry is applied when it differs from what it was when it was last applied; what people
 * changed by hand in between (a suspension, an upgrade) stays until then. Two passes in one
 * transaction: first what is taken away, then what is given, so that a key can move from one
 * customer to another in one edit. */
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "meter/customers_parts.h"
#include "meter/roster_parts.h"

#define MANY 10 /* customers: to end fewer of them is nothing unusual */

struct apply {
    const struct wr_roster *roster;
    struct wr_database *database;
    uint32_t first, room; /* numbers for new customers */
    const struct wr_author *author;
    struct wr_diag *diag;
    struct wr_roster_done *done;
};

/* A refusal that is the file's fault, with its line; other errors as they are. */
static int explain(struct apply *apply, unsigned line, unsigned column, int result)
{
    const struct wr_fault *fault = wr_database_fault(apply->database);

    if (result != WEIR_EAGAIN && result != WEIR_EINVAL && result != WEIR_EFULL)
        return result;
    wr_diag_add(apply->diag, WR_ERROR, line, column, "%s", fault->text);
    return WEIR_EPOLICY;
}

/* ---- what was there ------------------------------------------------------------------------- */

enum before { ABSENT, SAME, OTHER };

/* Has the entry been applied as it is? */
static int look(struct apply *apply, const struct wr_roster_entry *entry, enum before *out)
{
    sqlite3_stmt *statement = wr_database_statement(
        apply->database, "SELECT file_entry, ended FROM customer WHERE name = ?1");
    const void *digest;
    int result;

    *out = ABSENT;
    if (statement != NULL)
        (void)sqlite3_bind_text(statement, 1, entry->name, -1, SQLITE_STATIC);
    result = wr_database_step(apply->database, statement);
    if (result != 1)
        return result;
    digest = sqlite3_column_blob(statement, 0);
    *out = digest != NULL && sqlite3_column_bytes(statement, 0) == WR_ROSTER_ENTRY_BYTES &&
                   memcmp(digest, entry->digest, WR_ROSTER_ENTRY_BYTES) == 0
               ? SAME
               : OTHER;
    (void)sqlite3_reset(statement);
    return 0;
}

static int set_entry(struct apply *apply, int64_t id, const unsigned char *digest)
{
    sqlite3_stmt *statement =
        wr_database_statement(apply->database, "UPDATE customer SET file_entry = ?2 WHERE id = ?1");

    if (statement == NULL)
        return wr_database_fault(apply->database)->error;
    (void)sqlite3_bind_int64(statement, 1, id);
    if (digest != NULL)
        (void)sqlite3_bind_blob(statement, 2, digest, WR_ROSTER_ENTRY_BYTES, SQLITE_STATIC);
    return wr_database_run(apply->database, statement);
}

/* ---- taken away ----------------------------------------------------------------------------- */

static bool has_key(const struct wr_roster_entry *entry, const unsigned char *digest)
{
    for (size_t i = 0; i < entry->key_count; i++)
        if (memcmp(entry->keys[i].key.digest, digest, WR_CUSTOMER_DIGEST_BYTES) == 0)
            return true;
    return false;
}

/* Keys that the file had given |entry|'s customer, and has no more. One at a time: the table is
 * changed under whoever reads it. */
static int revoke_keys(struct apply *apply, const struct wr_roster_entry *entry)
{
    unsigned char digest[WR_CUSTOMER_DIGEST_BYTES];
    bool found = true;
    int result = 0;

    while (result == 0 && found) {
        sqlite3_stmt *statement = wr_database_statement(
            apply->database, "SELECT digest FROM key WHERE customer = ?1 AND from_file = 1"
                             " AND revoked IS NULL");
        if (statement != NULL)
            (void)sqlite3_bind_int64(statement, 1, wr_customer_id(entry->name));
        found = false;
        while (!found && (result = wr_database_step(apply->database, statement)) == 1) {
            memcpy(digest, sqlite3_column_blob(statement, 0), sizeof digest);
            found = !has_key(entry, digest);
        }
        if (result == 1)
            (void)sqlite3_reset(statement);
        result = result < 0 ? result : 0;
        if (result == 0 && found)
            result = wr_customer_revoke_key(apply->database, digest, apply->author);
    }
    return result;
}

/* The next customer of an earlier file, behind |after|, whom this one does not have. 1: |*id|. */
static int next_missing(struct apply *apply, int64_t after, int64_t *id)
{
    sqlite3_stmt *statement = wr_database_statement(
        apply->database,
        "SELECT id, name FROM customer WHERE file_entry IS NOT NULL AND id > ?1 ORDER BY id");
    int result;

    if (statement != NULL)
        (void)sqlite3_bind_int64(statement, 1, after);
    while ((result = wr_database_step(apply->database, statement)) == 1) {
        const char *name = (const char *)sqlite3_column_text(statement, 1);
        struct weir_slice slice = {name != NULL ? name : "", name != NULL ? strlen(name) : 0};
        *id = sqlite3_column_int64(statement, 0);
        if (wr_table_find(&apply->roster->names, WR_ROSTER_NAME, slice) == NULL)
            break;
    }
    if (result == 1)
        (void)sqlite3_reset(statement);
    return result;
}

bool wr_roster_ends_most(uint64_t ended, uint64_t before)
{
    return ended >= MANY && ended > before / 2;
}

static int count_before(struct wr_database *database, uint64_t *out)
{
    sqlite3_stmt *statement = wr_database_statement(
        database, "SELECT count(*) FROM customer WHERE file_entry IS NOT NULL");
    int result = wr_database_step(database, statement);

    *out = result == 1 ? (uint64_t)sqlite3_column_int64(statement, 0) : 0;
    if (result == 1)
        (void)sqlite3_reset(statement);
    return result < 0 ? result : 0;
}

static int end_missing(struct apply *apply)
{
    int64_t id = INT64_MIN;
    int result = count_before(apply->database, &apply->done->before);

    if (result != 0)
        return result;
    while ((result = next_missing(apply, id, &id)) == 1) {
        result = wr_customer_end(apply->database, id, apply->author);
        if (result == 0)
            result = set_entry(apply, id, NULL);
        if (result != 0)
            return result;
        apply->done->ended++;
    }
    return result;
}

/* ---- given ---------------------------------------------------------------------------------- */

static int mark_key(struct apply *apply, const struct wr_customer_key *key)
{
    sqlite3_stmt *statement =
        wr_database_statement(apply->database, "UPDATE key SET from_file = 1 WHERE digest = ?1");

    if (statement == NULL)
        return wr_database_fault(apply->database)->error;
    (void)sqlite3_bind_blob(statement, 1, key->digest, WR_CUSTOMER_DIGEST_BYTES, SQLITE_STATIC);
    return wr_database_run(apply->database, statement);
}

/* Who writes the file may know all customers; who adds a key by a door is not told. */
static int refuse_taken(struct wr_diag *diag, const struct wr_roster_key *key,
                        const struct wr_customer *owner)
{
    wr_diag_add(diag, WR_ERROR, key->line, key->column, "this key leads to another customer, %s",
                owner->name);
    return WEIR_EPOLICY;
}

static int add_keys(struct apply *apply, const struct wr_roster_entry *entry, int64_t id)
{
    int result = 0;

    for (size_t i = 0; result == 0 && i < entry->key_count; i++) {
        struct wr_customer_key key = entry->keys[i].key;
        struct wr_customer owner;
        key.customer = id;
        result = wr_customer_of_key(apply->database, key.digest, &owner);
        if (result == WEIR_ENOENT)
            result = explain(apply, entry->keys[i].line, entry->keys[i].column,
                             wr_customer_add_digest(apply->database, &key, apply->author));
        else if (result == 0 && owner.id != id)
            result = refuse_taken(apply->diag, &entry->keys[i], &owner);
        if (result == 0)
            result = mark_key(apply, &key);
    }
    return result;
}

static int create(struct apply *apply, const struct wr_roster_entry *entry)
{
    bool trial = entry->trial_until_ns > apply->author->now_ns;
    const struct wr_customer_new made = {.name = entry->name,
                                         .tenant = entry->tenant[0] != '\0' ? entry->tenant : NULL,
                                         .plan = entry->plan,
                                         .anchor = (uint8_t)entry->anchor,
                                         .partner = entry->partner,
                                         .suspended = entry->suspended,
                                         .trial_plan = trial ? entry->trial_plan : NULL,
                                         .trial_until_ns = entry->trial_until_ns,
                                         .first = apply->first,
                                         .room = apply->room};

    apply->done->created++;
    return wr_customer_create(apply->database, &made, apply->author, NULL);
}

static int change(struct apply *apply, const struct wr_roster_entry *entry)
{
    bool trial = entry->trial_until_ns > apply->author->now_ns;
    const struct wr_customer_change change = {.tenant = entry->tenant,
                                              .plan = entry->plan,
                                              .anchor = (int)entry->anchor,
                                              .partner = entry->partner,
                                              .suspended = entry->suspended,
                                              .trial_plan = trial ? entry->trial_plan : "",
                                              .trial_until_ns = entry->trial_until_ns,
                                              .wants_upgrade = -1};
    int64_t id = wr_customer_id(entry->name);
    int result = wr_customer_resume(apply->database, id, apply->author);

    apply->done->changed++;
    return result == 0 ? wr_customer_change(apply->database, id, &change, apply->author, NULL)
                       : result;
}

static int give(struct apply *apply, const struct wr_roster_entry *entry, enum before before)
{
    int64_t id = wr_customer_id(entry->name);
    int result = before == ABSENT ? create(apply, entry) : change(apply, entry);

    result = explain(apply, entry->line, entry->column, result);
    if (result == 0)
        result = add_keys(apply, entry, id);
    return result == 0 ? set_entry(apply, id, entry->digest) : result;
}

/* ---- both passes ---------------------------------------------------------------------------- */

/* One bad entry does not hide the next: errors of the file are all told. */
static int run(struct apply *apply)
{
    enum before *before = calloc(apply->roster->count + 1, sizeof *before);
    size_t errors = apply->diag->errors;
    int result = before == NULL ? WEIR_ENOMEM : 0;

    for (size_t i = 0; result == 0 && i < apply->roster->count; i++) {
        result = look(apply, &apply->roster->entries[i], &before[i]);
        if (result == 0 && before[i] == OTHER)
            result = revoke_keys(apply, &apply->roster->entries[i]);
    }
    if (result == 0)
        result = end_missing(apply);
    for (size_t i = 0; result == 0 && i < apply->roster->count; i++) {
        if (before[i] != SAME)
            result = give(apply, &apply->roster->entries[i], before[i]);
        result = result == WEIR_EPOLICY ? 0 : result;
    }
    free(before);
    return result == 0 && apply->diag->errors > errors ? WEIR_EPOLICY : result;
}

int wr_roster_apply(const struct wr_roster *roster, struct wr_database *database, uint32_t room,
                    const struct wr_author *author, struct wr_diag *diag,
                    struct wr_roster_done *done)
{
    const struct wr_customers_place place = wr_customers_place_for(database, room);
    struct apply apply = {.roster = roster,
                          .database = database,
                          .first = place.first,
                          .room = place.room,
                          .author = author,
                          .diag = diag,
                          .done = done};
    const char *another = diag->another;
    struct wr_own own;
    int result = wr_own_begin(&own, database);

    *done = (struct wr_roster_done){0};
    if (result != 0)
        return result;
    diag->another = roster->path;
    result = wr_own_end(&own, run(&apply));
    diag->another = another;
    if (result != 0)
        *done = (struct wr_roster_done){0};
    return result;
}

/* ---- beforehand ----------------------------------------------------------------------------- */

/* Was the key given by a file before? 1, 0, or an error. */
static int is_of_file(struct wr_database *database, const unsigned char *digest)
{
    sqlite3_stmt *statement =
        wr_database_statement(database, "SELECT from_file FROM key WHERE digest = ?1");
    int result, is = 0;

    if (statement != NULL)
        (void)sqlite3_bind_blob(statement, 1, digest, WR_CUSTOMER_DIGEST_BYTES, SQLITE_STATIC);
    result = wr_database_step(database, statement);
    if (result == 1) {
        is = sqlite3_column_int(statement, 0) != 0;
        (void)sqlite3_reset(statement);
    }
    return result < 0 ? result : is;
}

/* Will |owner|, who has the key, lose it to |entry|? He does if the file does not have him any
 * more, or had given him the key. 1, 0, or an error. */
static int gives_way(const struct wr_roster *roster, struct wr_database *database,
                     const struct wr_customer *owner, const struct wr_roster_key *key)
{
    const struct weir_slice name = {owner->name, strlen(owner->name)};

    if (owner->from_file && wr_table_find(&roster->names, WR_ROSTER_NAME, name) == NULL)
        return 1;
    return owner->from_file ? is_of_file(database, key->key.digest) : 0;
}

static int check_key(const struct wr_roster *roster, struct wr_database *database,
                     const struct wr_roster_entry *entry, const struct wr_roster_key *key,
                     struct wr_diag *diag)
{
    struct wr_customer owner;
    int result = wr_customer_of_key(database, key->key.digest, &owner);

    if (result == WEIR_ENOENT || (result == 0 && strcmp(owner.name, entry->name) == 0))
        return 0;
    if (result == 0)
        result = gives_way(roster, database, &owner, key);
    if (result == 0)
        (void)refuse_taken(diag, key, &owner);
    return result < 0 ? result : 0;
}

static int check_missing(const struct wr_roster *roster, struct wr_database *database,
                         struct wr_diag *diag)
{
    struct apply apply = {.roster = roster, .database = database};
    uint64_t before, missing = 0;
    int64_t id = INT64_MIN;
    int result = count_before(database, &before);

    if (result != 0)
        return result;
    while ((result = next_missing(&apply, id, &id)) == 1)
        missing++;
    if (result == 0 && wr_roster_ends_most(missing, before))
        wr_diag_add(diag, WR_WARNING, 0, 0,
                    "%llu of the %llu customers that it had are not in it, and end: is it whole? "
                    "Write it beside and rename it",
                    (unsigned long long)missing, (unsigned long long)before);
    return result;
}

int wr_roster_check(const struct wr_roster *roster, struct wr_database *database,
                    struct wr_diag *diag)
{
    const char *another = diag->another;
    int result;

    diag->another = roster->path;
    result = check_missing(roster, database, diag);
    for (size_t i = 0; result == 0 && i < roster->count; i++)
        for (size_t k = 0; result == 0 && k < roster->entries[i].key_count; k++)
            result =
                check_key(roster, database, &roster->entries[i], &roster->entries[i].keys[k], diag);
    diag->another = another;
    return result;
}
