/* roster.c - the customers' file, read.
 *
 * Idea. The YAML of a policy (its subset, its places), read into entries; each entry gets a digest
 * of what it says, by which it is known whether it has changed since it was last applied.
 *
 * Invariant: no message quotes a key or a value, which may be secrets. */
#include "meter/roster.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hex.h"
#include "meter/customers_parts.h"
#include "meter/roster_read.h"
#include "policy/policy.h"
#include "wire/logtime.h"

static const struct wr_yaml_bounds bounds = {"a file of customers", WR_ROSTER_BYTES_MAX,
                                             WR_ROSTER_NODES_MAX};

static void read_plan(struct wr_roster_reader *reader, const struct wr_yaml *value,
                      const char **out)
{
    (void)wr_roster_known(reader, value, "a plan", reader->names->plans, reader->names->plan_count,
                          out);
}

/* ---- a key ---------------------------------------------------------------------------------- */

struct key_text {
    const char *identity, *value, *hint;
    size_t value_len;
    unsigned char digest[WR_CUSTOMER_DIGEST_BYTES];
    bool has_digest;
};

static void on_identity(struct wr_roster_reader *reader, const struct wr_yaml *value, void *into)
{
    struct key_text *text = into;

    (void)wr_roster_known(reader, value, "an identity of customers.by", reader->names->identities,
                          reader->names->identity_count, &text->identity);
}

static void on_value(struct wr_roster_reader *reader, const struct wr_yaml *value, void *into)
{
    struct key_text *text = into;

    if (value->kind != WR_YAML_SCALAR || value->len == 0 || value->len > WR_KEY_VALUE_MAX) {
        WR_ROSTER_FAIL(reader, value, "expected a value of 1 to %d bytes", WR_KEY_VALUE_MAX);
        return;
    }
    text->value = value->text;
    text->value_len = value->len;
}

static void on_hint(struct wr_roster_reader *reader, const struct wr_yaml *value, void *into)
{
    (void)wr_roster_text(reader, value, WR_KEY_HINT_MAX, &((struct key_text *)into)->hint);
}

/* 64 digits of a SHA-256, of which the first half is kept; or that half. */
static void on_sha256(struct wr_roster_reader *reader, const struct wr_yaml *value, void *into)
{
    struct key_text *text = into;
    bool good = value->kind == WR_YAML_SCALAR && (value->len == 64 || value->len == 32);

    for (size_t i = 0; good && i < value->len; i++)
        good = wr_hex_digit(value->text[i]) >= 0;
    if (!good) {
        WR_ROSTER_FAIL(reader, value,
                       "expected 64 or 32 hexadecimal digits, as `weir customer hash` prints");
        return;
    }
    for (size_t i = 0; i < WR_CUSTOMER_DIGEST_BYTES; i++)
        text->digest[i] = (unsigned char)wr_hex_byte(value->text + 2 * i);
    text->has_digest = true;
}

static void copy_text(char *out, size_t size, const char *text)
{
    size_t len = strnlen(text, size - 1);

    memcpy(out, text, len);
    out[len] = '\0';
}

/* No key stands twice in the file. */
static void check_key(struct wr_roster_reader *reader, const struct wr_yaml *node,
                      const struct wr_roster_key *key)
{
    const struct weir_slice digest = {(const char *)key->key.digest, WR_CUSTOMER_DIGEST_BYTES};
    bool added;
    struct wr_table_entry *entry = wr_table_add(&reader->keys, &reader->roster->region,
                                                WR_ROSTER_KEY, digest, node->line, &added);

    if (entry != NULL && !added)
        WR_ROSTER_FAIL(reader, node, "this key stands in line %u already", entry->value);
}

static void read_key(struct wr_roster_reader *reader, const struct wr_yaml *node,
                     struct wr_roster_key *out)
{
    static const struct wr_roster_field fields[] = {{"identity", on_identity},
                                                    {"value", on_value},
                                                    {"sha256", on_sha256},
                                                    {"hint", on_hint},
                                                    {NULL, NULL}};
    struct key_text text = {0};

    out->line = node->line;
    out->column = node->column;
    if (!wr_roster_map(reader, node, "a key", fields, &text))
        return;
    if (text.identity == NULL || (text.value != NULL) == text.has_digest) {
        WR_ROSTER_FAIL(reader, node, "expected an identity, and either its sha256 or its value");
        return;
    }
    copy_text(out->key.identity, sizeof out->key.identity, text.identity);
    copy_text(out->key.hint, sizeof out->key.hint, text.hint != NULL ? text.hint : "");
    if (text.has_digest)
        memcpy(out->key.digest, text.digest, sizeof out->key.digest);
    else
        wr_key_digest((struct weir_slice){text.identity, strlen(text.identity)},
                      (struct weir_slice){text.value, text.value_len}, out->key.digest);
    check_key(reader, node, out);
}

/* ---- a customer ----------------------------------------------------------------------------- */

static void on_name(struct wr_roster_reader *reader, const struct wr_yaml *value, void *into)
{
    (void)wr_roster_text(reader, value, WR_CUSTOMER_NAME_MAX,
                         &((struct wr_roster_entry *)into)->name);
}

static void on_tenant(struct wr_roster_reader *reader, const struct wr_yaml *value, void *into)
{
    (void)wr_roster_text(reader, value, WR_CUSTOMER_NAME_MAX,
                         &((struct wr_roster_entry *)into)->tenant);
}

static void on_plan(struct wr_roster_reader *reader, const struct wr_yaml *value, void *into)
{
    read_plan(reader, value, &((struct wr_roster_entry *)into)->plan);
}

static void on_partner(struct wr_roster_reader *reader, const struct wr_yaml *value, void *into)
{
    wr_roster_bool(reader, value, &((struct wr_roster_entry *)into)->partner);
}

static void on_suspended(struct wr_roster_reader *reader, const struct wr_yaml *value, void *into)
{
    wr_roster_bool(reader, value, &((struct wr_roster_entry *)into)->suspended);
}

static void on_anchor(struct wr_roster_reader *reader, const struct wr_yaml *value, void *into)
{
    wr_roster_anchor(reader, value, &((struct wr_roster_entry *)into)->anchor);
}

static void on_trial_plan(struct wr_roster_reader *reader, const struct wr_yaml *value, void *into)
{
    read_plan(reader, value, &((struct wr_roster_entry *)into)->trial_plan);
}

static void on_until(struct wr_roster_reader *reader, const struct wr_yaml *value, void *into)
{
    if (value->kind != WR_YAML_SCALAR ||
        !wr_logtime_until((struct weir_slice){value->text, value->len},
                          &((struct wr_roster_entry *)into)->trial_until_ns))
        WR_ROSTER_FAIL(reader, value,
                       "expected a day as 2026-12-31, or a moment as 2026-12-31T18:00:00Z");
}

static void on_trial(struct wr_roster_reader *reader, const struct wr_yaml *value, void *into)
{
    static const struct wr_roster_field fields[] = {
        {"plan", on_trial_plan}, {"until", on_until}, {NULL, NULL}};
    const struct wr_roster_entry *entry = into;

    if (wr_roster_map(reader, value, "a trial", fields, into) &&
        (entry->trial_plan == NULL || entry->trial_until_ns == 0))
        WR_ROSTER_FAIL(reader, value, "expected a plan and until in a trial");
}

static void on_keys(struct wr_roster_reader *reader, const struct wr_yaml *value, void *into)
{
    struct wr_roster_entry *entry = into;

    if (value->kind != WR_YAML_LIST) {
        WR_ROSTER_FAIL(reader, value, "expected a list of keys");
        return;
    }
    entry->keys = wr_region_take(&reader->roster->region, value->count, sizeof *entry->keys);
    if (entry->keys == NULL)
        return;
    for (const struct wr_yaml *item = value->first; item != NULL; item = item->next)
        read_key(reader, item, &entry->keys[entry->key_count++]);
}

static void add_text(struct wr_sha256 *sha, const char *text)
{
    wr_sha256_add(sha, text, strlen(text) + 1);
}

static void make_digest(struct wr_roster_entry *entry)
{
    const int64_t numbers[] = {entry->trial_until_ns, entry->anchor, entry->partner,
                               entry->suspended};
    unsigned char digest[WR_SHA256_BYTES];
    struct wr_sha256 sha;

    wr_sha256_init(&sha);
    add_text(&sha, entry->tenant);
    add_text(&sha, entry->plan);
    add_text(&sha, entry->trial_plan);
    wr_sha256_add(&sha, numbers, sizeof numbers);
    for (size_t i = 0; i < entry->key_count; i++) {
        wr_sha256_add(&sha, entry->keys[i].key.digest, WR_CUSTOMER_DIGEST_BYTES);
        add_text(&sha, entry->keys[i].key.hint);
    }
    wr_sha256_finish(&sha, digest);
    memcpy(entry->digest, digest, sizeof entry->digest);
}

static void read_entry(struct wr_roster_reader *reader, const struct wr_yaml *node, size_t index)
{
    static const struct wr_roster_field fields[] = {
        {"name", on_name},       {"plan", on_plan},     {"tenant", on_tenant},
        {"partner", on_partner}, {"anchor", on_anchor}, {"suspended", on_suspended},
        {"trial", on_trial},     {"keys", on_keys},     {NULL, NULL}};
    struct wr_roster_entry *entry = &reader->roster->entries[index];
    struct wr_table_entry *known;
    bool added;

    entry->line = node->line;
    entry->column = node->column;
    if (!wr_roster_map(reader, node, "a customer", fields, entry) || reader->roster->region.failed)
        return;
    if (entry->name == NULL || entry->plan == NULL) {
        WR_ROSTER_FAIL(reader, node, "expected a name and a plan of each customer");
        return;
    }
    entry->tenant = entry->tenant != NULL ? entry->tenant : "";
    entry->trial_plan = entry->trial_plan != NULL ? entry->trial_plan : "";
    known = wr_table_add(&reader->roster->names, &reader->roster->region, WR_ROSTER_NAME,
                         (struct weir_slice){entry->name, strlen(entry->name)}, (uint32_t)index,
                         &added);
    if (known != NULL && !added)
        WR_ROSTER_FAIL(reader, node, "this customer stands in line %u already",
                       reader->roster->entries[known->value].line);
    make_digest(entry);
}

/* ---- the file ------------------------------------------------------------------------------- */

/* Which keys the file has. */
struct root {
    bool versioned, listed;
};

static void on_version(struct wr_roster_reader *reader, const struct wr_yaml *value, void *into)
{
    ((struct root *)into)->versioned = true;
    if (value->kind != WR_YAML_SCALAR || strcmp(value->text, "1") != 0)
        WR_ROSTER_FAIL(reader, value, "version: expected 1");
}

static void on_customers(struct wr_roster_reader *reader, const struct wr_yaml *value, void *into)
{
    struct wr_roster *roster = reader->roster;

    ((struct root *)into)->listed = true;
    if (value->kind != WR_YAML_LIST) { /* nothing at all may be a file that was cut off */
        WR_ROSTER_FAIL(reader, value, "expected a list of customers; customers: [] is none");
        return;
    }
    roster->entries = wr_region_take(&roster->region, value->count, sizeof *roster->entries);
    if (roster->entries == NULL)
        return;
    for (const struct wr_yaml *item = value->first; item != NULL; item = item->next)
        read_entry(reader, item, roster->count++);
}

static void read_root(struct wr_roster_reader *reader, const struct wr_yaml *root)
{
    static const struct wr_roster_field fields[] = {
        {"version", on_version}, {"customers", on_customers}, {NULL, NULL}};
    struct root has = {false, false};

    if (root == NULL) {
        wr_diag_add(reader->diag, WR_ERROR, 1, 1,
                    "expected version: 1 and customers, found nothing");
        return;
    }
    if (!wr_roster_map(reader, root, "a customers' file", fields, &has))
        return;
    if (!has.versioned)
        WR_ROSTER_FAIL(reader, root, "expected version: 1, found none");
    if (!has.listed)
        WR_ROSTER_FAIL(reader, root,
                       "expected customers, found none; without a customer it is customers: []");
}

static int load(struct wr_roster *roster, const char *text, size_t len,
                const struct wr_roster_names *names, struct wr_diag *diag)
{
    struct wr_roster_reader reader = {.roster = roster, .names = names, .diag = diag};
    struct wr_region scratch = {0};
    const struct wr_yaml *root;
    size_t errors = diag->errors;
    bool parsed, failed;

    if (getrandom(&roster->names.secret, sizeof roster->names.secret, GRND_NONBLOCK) < 0)
        roster->names.secret.k[0] = (uint64_t)(uintptr_t)roster; /* early boot */
    reader.keys.secret = roster->names.secret;
    parsed = wr_yaml_parse_within(&root, text, len, &bounds, &scratch, diag);
    if (parsed)
        read_root(&reader, root);
    failed = scratch.failed || roster->region.failed;
    wr_region_fini(&scratch);
    return failed ? WEIR_ENOMEM : diag->errors > errors ? WEIR_EPOLICY : 0;
}

int wr_roster_load_text(struct wr_roster **out, const char *text, size_t len,
                        const struct wr_roster_names *names, struct wr_diag *diag)
{
    struct wr_roster *roster = calloc(1, sizeof *roster);
    int result;

    *out = NULL;
    if (roster == NULL)
        return WEIR_ENOMEM;
    result = load(roster, text, len, names, diag);
    if (result == 0)
        *out = roster;
    else
        wr_roster_free(roster);
    return result;
}

/* A regular file, so that nobody waits for who writes a pipe. */
static int read_file(const char *path, char **text, size_t *len, struct wr_diag *diag)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    ssize_t n = 0;

    *text = NULL;
    *len = 0;
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "expected a file of customers to read: %s",
                    fd < 0 ? strerror(errno) : "it is no regular file");
        if (fd >= 0)
            (void)close(fd);
        return WEIR_EIO;
    }
    *text = malloc(WR_ROSTER_BYTES_MAX + 1); /* of which memory is what is read into */
    while (*text != NULL && *len <= WR_ROSTER_BYTES_MAX &&
           (n = read(fd, *text + *len, WR_ROSTER_BYTES_MAX + 1 - *len)) > 0)
        *len += (size_t)n;
    if (n < 0)
        wr_diag_add(diag, WR_ERROR, 0, 0, "expected a file of customers to read: %s",
                    strerror(errno));
    (void)close(fd);
    return *text == NULL ? WEIR_ENOMEM : n < 0 ? WEIR_EIO : 0;
}

int wr_roster_load(struct wr_roster **out, const char *path, const struct wr_roster_names *names,
                   struct wr_diag *diag)
{
    const char *before = diag->another;
    char *text;
    size_t len;
    int result;

    *out = NULL;
    diag->another = path;
    result = read_file(path, &text, &len, diag);
    if (result == 0)
        result = wr_roster_load_text(out, text, len, names, diag);
    diag->another = before;
    free(text);
    if (result == 0 &&
        ((*out)->path = wr_region_text(&(*out)->region, path, strlen(path))) == NULL) {
        wr_roster_free(*out);
        *out = NULL;
        return WEIR_ENOMEM;
    }
    return result;
}

void wr_roster_free(struct wr_roster *roster)
{
    if (roster == NULL)
        return;
    wr_region_fini(&roster->region);
    free(roster);
}
