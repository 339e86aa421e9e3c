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
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "meter/customers_parts.h"
#include "meter/roster_parts.h"
#include "policy/policy.h"
#include "policy/yaml.h"

enum { TAG_NAME = 1, TAG_KEY };

struct reader {
    struct wr_roster *roster;
    const struct wr_roster_names *names;
    struct wr_diag *diag;
    struct wr_table keys; /* digests */
};

#define FAIL(reader, at, ...) \
    wr_diag_add((reader)->diag, WR_ERROR, (at)->line, (at)->column, __VA_ARGS__)

/* ---- scalars -------------------------------------------------------------------------------- */

static bool read_text(struct reader *reader, const struct wr_yaml *value, size_t max,
                      const char **out)
{
    if (value->kind != WR_YAML_SCALAR || !wr_is_label(value->text, max)) {
        FAIL(reader, value, "expected text of 1 to %zu bytes, without blanks at its ends", max);
        return false;
    }
    *out = wr_region_text(&reader->roster->region, value->text, value->len);
    return *out != NULL;
}

/* One of |names|. */
static bool read_known(struct reader *reader, const struct wr_yaml *value, const char *what,
                       const char *const *names, size_t count, const char **out)
{
    for (size_t i = 0; value->kind == WR_YAML_SCALAR && i < count; i++)
        if (strcmp(names[i], value->text) == 0)
            return read_text(reader, value, WR_CUSTOMER_PLAN_MAX, out);
    FAIL(reader, value, "expected %s of the policy, found %s", what,
         value->kind == WR_YAML_SCALAR && wr_is_plain_name(value->text) ? value->text
                                                                        : "something else");
    return false;
}

static void read_plan(struct reader *reader, const struct wr_yaml *value, const char **out)
{
    (void)read_known(reader, value, "a plan", reader->names->plans, reader->names->plan_count, out);
}

static void read_bool(struct reader *reader, const struct wr_yaml *value, bool *out)
{
    bool yes = value->kind == WR_YAML_SCALAR && strcmp(value->text, "true") == 0;

    if (!yes && (value->kind != WR_YAML_SCALAR || strcmp(value->text, "false") != 0))
        FAIL(reader, value, "expected true or false");
    *out = yes;
}

static void read_anchor(struct reader *reader, const struct wr_yaml *value, int64_t *out)
{
    char *end = NULL;
    long number = value->kind == WR_YAML_SCALAR ? strtol(value->text, &end, 10) : 0;

    if (number < 1 || number > 31 || end == NULL || *end != '\0')
        FAIL(reader, value, "expected a day of the month, 1 to 31");
    else
        *out = number;
}

/* A day, whose end in UTC it is, or a moment. */
static bool parse_until(const char *text, int64_t *out_ns)
{
    struct tm tm = {0};
    const char *end = strptime(text, "%Y-%m-%d", &tm);
    bool whole = end != NULL && *end == '\0';
    time_t seconds;

    if (!whole) {
        tm = (struct tm){0};
        end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    }
    if (end == NULL || *end != '\0' || tm.tm_year < 70 || tm.tm_year >= 300)
        return false;
    tm.tm_mday += whole ? 1 : 0;
    seconds = timegm(&tm);
    *out_ns = (int64_t)seconds * WR_NS_PER_S;
    return seconds > 0;
}

/* ---- maps ----------------------------------------------------------------------------------- */

struct field {
    const char *name;
    void (*read)(struct reader *reader, const struct wr_yaml *value, void *into);
};

static bool read_map(struct reader *reader, const struct wr_yaml *node, const char *what,
                     const struct field *fields, void *into)
{
    size_t errors = reader->diag->errors;

    if (node->kind != WR_YAML_MAP) {
        FAIL(reader, node, "expected a map: %s", what);
        return false;
    }
    for (const struct wr_yaml *value = node->first; value != NULL; value = value->next) {
        const struct field *field = fields;
        while (field->name != NULL && strcmp(field->name, value->key->text) != 0)
            field++;
        if (field->name != NULL)
            field->read(reader, value, into);
        else
            FAIL(reader, value->key, "unknown key in %s", what);
    }
    return reader->diag->errors == errors;
}

/* ---- a key ---------------------------------------------------------------------------------- */

struct key_text {
    const char *identity, *value, *hint;
    size_t value_len;
    unsigned char digest[WR_CUSTOMER_DIGEST_BYTES];
    bool has_digest;
};

static void on_identity(struct reader *reader, const struct wr_yaml *value, void *into)
{
    struct key_text *text = into;

    (void)read_known(reader, value, "an identity of customers.by", reader->names->identities,
                     reader->names->identity_count, &text->identity);
}

static void on_value(struct reader *reader, const struct wr_yaml *value, void *into)
{
    struct key_text *text = into;

    if (value->kind != WR_YAML_SCALAR || value->len == 0 || value->len > WR_KEY_VALUE_MAX) {
        FAIL(reader, value, "expected a value of 1 to %d bytes", WR_KEY_VALUE_MAX);
        return;
    }
    text->value = value->text;
    text->value_len = value->len;
}

static void on_hint(struct reader *reader, const struct wr_yaml *value, void *into)
{
    (void)read_text(reader, value, WR_KEY_HINT_MAX, &((struct key_text *)into)->hint);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* 64 digits of a SHA-256, of which the first half is kept; or that half. */
static void on_sha256(struct reader *reader, const struct wr_yaml *value, void *into)
{
    struct key_text *text = into;
    bool good = value->kind == WR_YAML_SCALAR && (value->len == 64 || value->len == 32);

    for (size_t i = 0; good && i < value->len; i++)
        good = hex_digit(value->text[i]) >= 0;
    if (!good) {
        FAIL(reader, value, "expected 64 or 32 hexadecimal digits, as `weir customer hash` prints");
        return;
    }
    for (size_t i = 0; i < WR_CUSTOMER_DIGEST_BYTES; i++)
        text->digest[i] =
            (unsigned char)(hex_digit(value->text[2 * i]) << 4 | hex_digit(value->text[2 * i + 1]));
    text->has_digest = true;
}

static void copy_text(char *out, size_t size, const char *text)
{
    size_t len = strnlen(text, size - 1);

    memcpy(out, text, len);
    out[len] = '\0';
}

/* No key stands twice in the file. */
static void check_key(struct reader *reader, const struct wr_yaml *node,
                      const struct wr_roster_key *key)
{
    const struct weir_slice digest = {(const char *)key->key.digest, WR_CUSTOMER_DIGEST_BYTES};
    bool added;
    struct wr_table_entry *entry =
        wr_table_add(&reader->keys, &reader->roster->region, TAG_KEY, digest, node->line, &added);

    if (entry != NULL && !added)
        FAIL(reader, node, "this key stands in line %u already", entry->value);
}

static void read_key(struct reader *reader, const struct wr_yaml *node, struct wr_roster_key *out)
{
    static const struct field fields[] = {{"identity", on_identity},
                                          {"value", on_value},
                                          {"sha256", on_sha256},
                                          {"hint", on_hint},
                                          {NULL, NULL}};
    struct key_text text = {0};

    out->line = node->line;
    out->column = node->column;
    if (!read_map(reader, node, "a key", fields, &text))
        return;
    if (text.identity == NULL || (text.value != NULL) == text.has_digest) {
        FAIL(reader, node, "expected an identity, and either its sha256 or its value");
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

static void on_name(struct reader *reader, const struct wr_yaml *value, void *into)
{
    (void)read_text(reader, value, WR_CUSTOMER_NAME_MAX, &((struct wr_roster_entry *)into)->name);
}

static void on_tenant(struct reader *reader, const struct wr_yaml *value, void *into)
{
    (void)read_text(reader, value, WR_CUSTOMER_NAME_MAX, &((struct wr_roster_entry *)into)->tenant);
}

static void on_plan(struct reader *reader, const struct wr_yaml *value, void *into)
{
    read_plan(reader, value, &((struct wr_roster_entry *)into)->plan);
}

static void on_partner(struct reader *reader, const struct wr_yaml *value, void *into)
{
    read_bool(reader, value, &((struct wr_roster_entry *)into)->partner);
}

static void on_suspended(struct reader *reader, const struct wr_yaml *value, void *into)
{
    read_bool(reader, value, &((struct wr_roster_entry *)into)->suspended);
}

static void on_anchor(struct reader *reader, const struct wr_yaml *value, void *into)
{
    read_anchor(reader, value, &((struct wr_roster_entry *)into)->anchor);
}

static void on_trial_plan(struct reader *reader, const struct wr_yaml *value, void *into)
{
    read_plan(reader, value, &((struct wr_roster_entry *)into)->trial_plan);
}

static void on_until(struct reader *reader, const struct wr_yaml *value, void *into)
{
    if (value->kind != WR_YAML_SCALAR ||
        !parse_until(value->text, &((struct wr_roster_entry *)into)->trial_until_ns))
        FAIL(reader, value, "expected a day as 2026-12-31, or a moment as 2026-12-31T18:00:00Z");
}

static void on_trial(struct reader *reader, const struct wr_yaml *value, void *into)
{
    static const struct field fields[] = {
        {"plan", on_trial_plan}, {"until", on_until}, {NULL, NULL}};
    const struct wr_roster_entry *entry = into;

    if (read_map(reader, value, "a trial", fields, into) &&
        (entry->trial_plan == NULL || entry->trial_until_ns == 0))
        FAIL(reader, value, "expected a plan and until in a trial");
}

static void on_keys(struct reader *reader, const struct wr_yaml *value, void *into)
{
    struct wr_roster_entry *entry = into;

    if (value->kind != WR_YAML_LIST) {
        FAIL(reader, value, "expected a list of keys");
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

static void read_entry(struct reader *reader, const struct wr_yaml *node, size_t index)
{
    static const struct field fields[] = {
        {"name", on_name},       {"plan", on_plan},     {"tenant", on_tenant},
        {"partner", on_partner}, {"anchor", on_anchor}, {"suspended", on_suspended},
        {"trial", on_trial},     {"keys", on_keys},     {NULL, NULL}};
    struct wr_roster_entry *entry = &reader->roster->entries[index];
    struct wr_table_entry *known;
    bool added;

    entry->line = node->line;
    entry->column = node->column;
    if (!read_map(reader, node, "a customer", fields, entry) || reader->roster->region.failed)
        return;
    if (entry->name == NULL || entry->plan == NULL) {
        FAIL(reader, node, "expected a name and a plan of each customer");
        return;
    }
    entry->tenant = entry->tenant != NULL ? entry->tenant : "";
    entry->trial_plan = entry->trial_plan != NULL ? entry->trial_plan : "";
    known = wr_table_add(&reader->roster->names, &reader->roster->region, TAG_NAME,
                         (struct weir_slice){entry->name, strlen(entry->name)}, (uint32_t)index,
                         &added);
    if (known != NULL && !added)
        FAIL(reader, node, "this customer stands in line %u already",
             reader->roster->entries[known->value].line);
    make_digest(entry);
}

/* ---- the file ------------------------------------------------------------------------------- */

static void on_version(struct reader *reader, const struct wr_yaml *value, void *into)
{
    *(bool *)into = true;
    if (value->kind != WR_YAML_SCALAR || strcmp(value->text, "1") != 0)
        FAIL(reader, value, "version: expected 1");
}

static void on_customers(struct reader *reader, const struct wr_yaml *value, void *into)
{
    struct wr_roster *roster = reader->roster;

    (void)into;
    if (value->kind != WR_YAML_LIST) {
        if (value->kind != WR_YAML_SCALAR || value->len > 0)
            FAIL(reader, value, "expected a list of customers");
        return;
    }
    roster->entries = wr_region_take(&roster->region, value->count, sizeof *roster->entries);
    if (roster->entries == NULL)
        return;
    for (const struct wr_yaml *item = value->first; item != NULL; item = item->next)
        read_entry(reader, item, roster->count++);
}

static void read_root(struct reader *reader, const struct wr_yaml *root)
{
    static const struct field fields[] = {
        {"version", on_version}, {"customers", on_customers}, {NULL, NULL}};
    bool versioned = false;

    if (root == NULL)
        wr_diag_add(reader->diag, WR_ERROR, 1, 1,
                    "expected version: 1 and customers, found nothing");
    else if (read_map(reader, root, "a customers' file", fields, &versioned) && !versioned)
        FAIL(reader, root, "expected version: 1, found none");
}

static int load(struct wr_roster *roster, const char *text, size_t len,
                const struct wr_roster_names *names, struct wr_diag *diag)
{
    struct reader reader = {.roster = roster, .names = names, .diag = diag};
    struct wr_region scratch = {0};
    const struct wr_yaml *root;
    size_t errors = diag->errors;
    bool parsed, failed;

    if (getrandom(&roster->names.secret, sizeof roster->names.secret, GRND_NONBLOCK) < 0)
        roster->names.secret.k[0] = (uint64_t)(uintptr_t)roster; /* early boot */
    reader.keys.secret = roster->names.secret;
    parsed = wr_yaml_parse(&root, text, len, &scratch, diag);
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
    *text = malloc(WR_POLICY_BYTES_MAX + 1);
    while (*text != NULL && *len <= WR_POLICY_BYTES_MAX &&
           (n = read(fd, *text + *len, WR_POLICY_BYTES_MAX + 1 - *len)) > 0)
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
