/* keys.c - the keys that lead to customers: made, added, revoked. Never kept.
 *
 * Of a key there is its digest, and its last bytes for people to tell their keys apart, where it is
 * long enough that these give nothing away. A generated key has 256 random bits, so that its
 * SHA-256 cannot be turned back by trying, and no salt is needed; that is what lets a key be found
 * by it.
 *
 * Rejected: a slow hash (scrypt, argon2), which is for secrets that people choose, and would be on
 * the path of each decision. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include <sqlite3.h>

#include "base/hex.h"
#include "meter/customers_parts.h"
#include "meter/recover.h"

#define RANDOM_BYTES 32
#define DIGITS 43       /* of base62 that hold 256 bits */
#define HINTED_BYTES 16 /* a key at least so long has a hint */

/* ---- making --------------------------------------------------------------------------------- */

void wr_key_digest(struct weir_slice identity, struct weir_slice value,
                   unsigned char out[WR_CUSTOMER_DIGEST_BYTES])
{
    unsigned char whole[WR_SHA256_BYTES];

    wr_customer_digest(identity, value, whole);
    memcpy(out, whole, WR_CUSTOMER_DIGEST_BYTES);
}

void wr_key_id(const unsigned char digest[WR_CUSTOMER_DIGEST_BYTES], char out[WR_KEY_ID_TEXT])
{
    wr_hex_write(out, digest, WR_KEY_ID_TEXT / 2);
    out[WR_KEY_ID_TEXT - 1] = '\0';
}

/* Divide the number by 62; the remainder. */
static unsigned next_digit(unsigned char number[RANDOM_BYTES])
{
    unsigned rest = 0;

    for (unsigned i = 0; i < RANDOM_BYTES; i++) {
        unsigned at = rest << 8 | number[i];
        number[i] = (unsigned char)(at / 62);
        rest = at % 62;
    }
    return rest;
}

int wr_key_make(const char *prefix, char out[WR_KEY_TEXT_MAX])
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    static const char allowed[] =
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-";
    unsigned char random[RANDOM_BYTES];
    size_t len = strlen(prefix);

    out[0] = '\0';
    if (len > WR_KEY_PREFIX_MAX || strspn(prefix, allowed) != len)
        return WEIR_EINVAL;
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return WEIR_EIO;
    memcpy(out, prefix, len);
    for (unsigned i = 0; i < DIGITS; i++)
        out[len + i] = digits[next_digit(random)];
    out[len + DIGITS] = '\0';
    explicit_bzero(random, sizeof random);
    return 0;
}

/* ---- adding --------------------------------------------------------------------------------- */

/* Printable ASCII only: a hint stands in lists and logs. */
static void make_hint(struct weir_slice value, char out[WR_KEY_HINT_MAX + 1])
{
    const char *end = value.ptr + value.len - WR_KEY_HINT_MAX;

    memset(out, 0, WR_KEY_HINT_MAX + 1);
    if (value.len < HINTED_BYTES)
        return;
    for (unsigned i = 0; i < WR_KEY_HINT_MAX; i++)
        if (end[i] <= ' ' || end[i] > '~')
            return;
    memcpy(out, end, WR_KEY_HINT_MAX);
}

struct owner {
    int64_t customer; /* 0: there is no such key */
    bool revoked;
    bool recovered; /* of the key no more than its digest is known */
};

static int find_owner(struct wr_database *database, const unsigned char *digest, struct owner *out)
{
    sqlite3_stmt *statement = wr_database_statement(
        database, "SELECT customer, revoked IS NOT NULL, identity = '" WR_RECOVERED_IDENTITY
                  "' FROM key WHERE digest = ?1");
    int result;

    *out = (struct owner){0};
    if (statement != NULL)
        (void)sqlite3_bind_blob(statement, 1, digest, WR_CUSTOMER_DIGEST_BYTES, SQLITE_STATIC);
    result = wr_database_step(database, statement);
    if (result != 1)
        return result;
    out->customer = sqlite3_column_int64(statement, 0);
    out->revoked = sqlite3_column_int(statement, 1) != 0;
    out->recovered = sqlite3_column_int(statement, 2) != 0;
    (void)sqlite3_reset(statement);
    return 0;
}

/* The key leads to somebody already. Of one that was only known by its digest the rest is now. */
static int judge_owner(struct wr_database *database, const struct owner *owner,
                       const struct wr_customer *customer)
{
    struct wr_customer other;

    if (owner->customer == customer->id)
        return owner->recovered ? 0
                                : wr_database_refuse(database, WEIR_EAGAIN,
                                                     "%s has this key already", customer->name);
    if (owner->recovered && wr_customer_get(database, owner->customer, &other) == 0 &&
        strncmp(other.name, WR_RECOVERED_PREFIX, strlen(WR_RECOVERED_PREFIX)) == 0)
        return wr_database_refuse(
            database, WEIR_EAGAIN,
            "this key leads to %s, whose name was lost: create it by the name "
            "that it had",
            other.name);
    return wr_database_refuse(database, WEIR_EAGAIN, "this key leads to another customer");
}

static int put_key(struct wr_database *database, const struct wr_customer_key *key, int64_t now_ns)
{
    sqlite3_stmt *statement = wr_database_statement(
        database, "INSERT INTO key(digest, customer, identity, hint, created) VALUES(?, ?, ?, ?, ?)"
                  " ON CONFLICT(digest) DO UPDATE SET customer = excluded.customer,"
                  " identity = excluded.identity, hint = excluded.hint, created = "
                  "excluded.created, revoked = NULL");

    if (statement == NULL)
        return wr_database_fault(database)->error;
    (void)sqlite3_bind_blob(statement, 1, key->digest, WR_CUSTOMER_DIGEST_BYTES, SQLITE_STATIC);
    (void)sqlite3_bind_int64(statement, 2, key->customer);
    (void)sqlite3_bind_text(statement, 3, key->identity, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(statement, 4, key->hint, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(statement, 5, now_ns);
    return wr_database_run(database, statement);
}

/* "api_key 0123456789abcdef ...x7Qa" */
static void key_text(const struct wr_customer_key *key, char *out, size_t size)
{
    char id[WR_KEY_ID_TEXT];

    wr_key_id(key->digest, id);
    (void)snprintf(out, size, "%s %s%s%s", key->identity, id, key->hint[0] != '\0' ? " ..." : "",
                   key->hint);
}

static int add_in(struct wr_database *database, const struct wr_customer_key *key,
                  const struct wr_author *author)
{
    char text[160];
    const struct wr_audit_line line = {"key add", key->customer, NULL, text};
    struct wr_customer customer;
    struct owner owner;
    int result = wr_customer_get(database, key->customer, &customer);

    if (result == 0 && customer.ended)
        result =
            wr_database_refuse(database, WEIR_EINVAL,
                               "%s is a customer no more: resume it first (`weir customer resume`, "
                               "or PATCH with \"ended\": false)",
                               customer.name);
    if (result == 0)
        result = find_owner(database, key->digest, &owner);
    if (result == 0 && owner.customer != 0 && !owner.revoked)
        result = judge_owner(database, &owner, &customer);
    if (result == 0)
        result = put_key(database, key, author->now_ns);
    key_text(key, text, sizeof text);
    return result == 0 ? wr_audit_add(database, author, &line) : result;
}

int wr_customer_add_digest(struct wr_database *database, const struct wr_customer_key *key,
                           const struct wr_author *author)
{
    struct wr_own own;
    int result;

    if (!wr_is_plain_name(key->identity))
        return wr_database_refuse(database, WEIR_EINVAL, "an identity's name is of [A-Za-z0-9._-]");
    if (key->hint[0] != '\0' && !wr_is_label(key->hint, WR_KEY_HINT_MAX))
        return wr_database_refuse(database, WEIR_EINVAL, "a hint is at most %d characters",
                                  WR_KEY_HINT_MAX);
    result = wr_own_begin(&own, database);
    return result == 0 ? wr_own_end(&own, add_in(database, key, author)) : result;
}

int wr_customer_add_key(struct wr_database *database, int64_t id, struct weir_slice identity,
                        struct weir_slice value, const struct wr_author *author,
                        struct wr_customer_key *out)
{
    struct wr_customer_key key = {.customer = id, .created_ns = author->now_ns};
    struct wr_own own;
    int result;

    if (identity.len >= sizeof key.identity)
        return wr_database_refuse(database, WEIR_EINVAL, "an identity's name is of [A-Za-z0-9._-]");
    if (value.len == 0 || value.len > WR_KEY_VALUE_MAX)
        return wr_database_refuse(database, WEIR_EINVAL, "a key is 1 to %d bytes",
                                  WR_KEY_VALUE_MAX);
    memcpy(key.identity, identity.ptr, identity.len);
    wr_key_digest(identity, value, key.digest);
    make_hint(value, key.hint);
    result = wr_own_begin(&own, database);
    if (result != 0)
        return result;
    result = wr_room_for_key(database, id, key.digest);
    if (result == 0)
        result = wr_customer_add_digest(database, &key, author);
    result = wr_own_end(&own, result);
    if (result == 0 && out != NULL)
        *out = key;
    return result;
}

/* ---- revoking ------------------------------------------------------------------------------- */

static int write_revoked(struct wr_database *database, const struct wr_customer_key *key,
                         const struct wr_author *author)
{
    char text[160];
    const struct wr_audit_line line = {"key revoke", key->customer, text, NULL};
    sqlite3_stmt *statement =
        wr_database_statement(database, "UPDATE key SET revoked = ?2 WHERE digest = ?1");
    int result;

    if (statement == NULL)
        return wr_database_fault(database)->error;
    (void)sqlite3_bind_blob(statement, 1, key->digest, WR_CUSTOMER_DIGEST_BYTES, SQLITE_STATIC);
    (void)sqlite3_bind_int64(statement, 2, author->now_ns);
    result = wr_database_run(database, statement);
    key_text(key, text, sizeof text);
    return result == 0 ? wr_audit_add(database, author, &line) : result;
}

/* The first key that |statement| gives. 0, WEIR_ENOENT or an error. */
static int one_key(struct wr_database *database, sqlite3_stmt *statement,
                   struct wr_customer_key *out)
{
    int result = wr_database_step(database, statement);

    *out = (struct wr_customer_key){.customer = 0};
    if (result == 0)
        return wr_database_refuse(database, WEIR_ENOENT, "there is no such key");
    if (result < 0)
        return result;
    wr_customer_key_row(statement, out);
    (void)sqlite3_reset(statement);
    return 0;
}

int wr_customer_revoke_key(struct wr_database *database,
                           const unsigned char digest[WR_CUSTOMER_DIGEST_BYTES],
                           const struct wr_author *author)
{
    struct wr_customer_key key;
    struct wr_own own;
    int result = wr_own_begin(&own, database);
    sqlite3_stmt *statement;

    if (result != 0)
        return result;
    statement = wr_database_statement(database, "SELECT " WR_KEY_COLUMNS
                                                " FROM key WHERE digest = ?1 AND revoked IS NULL");
    if (statement != NULL)
        (void)sqlite3_bind_blob(statement, 1, digest, WR_CUSTOMER_DIGEST_BYTES, SQLITE_STATIC);
    result = one_key(database, statement, &key);
    if (result == 0)
        result = write_revoked(database, &key, author);
    return wr_own_end(&own, result);
}

int wr_customer_revoke_keys(struct wr_database *database, int64_t id,
                            const struct wr_author *author)
{
    int result = 0;

    while (result == 0) {
        sqlite3_stmt *statement = wr_database_statement(
            database,
            "SELECT " WR_KEY_COLUMNS " FROM key WHERE customer = ?1 AND revoked IS NULL LIMIT 1");
        struct wr_customer_key key;
        if (statement != NULL)
            (void)sqlite3_bind_int64(statement, 1, id);
        result = one_key(database, statement, &key);
        if (result == 0)
            result = write_revoked(database, &key, author);
    }
    return result == WEIR_ENOENT ? 0 : result;
}
