/* loader.c - what all readers of sections share.
 *
 * Problem. A person who wrote a policy wants to know everything that is wrong with it at once, each
 * with its place, what was found and what would be right; and a message must not give away an API
 * key.
 *
 * Invariants:
 *   1. Readers go on after an error, with a value in range in place of the wrong one: no error is
 *      hidden by another, and none crashes a later reader.
 *   2. A message quotes at most 40 bytes of what was found, and nothing where keys may stand. */
#include "policy/loader.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "policy/rate.h"

#define QUOTED_BYTES 40U

/* ---- messages ---------------------------------------------------------------------------- */

static void report(struct wr_loader *ld, enum wr_severity severity, const struct wr_yaml *at,
                   size_t offset, const char *text)
{
    unsigned line = at != NULL ? at->line : 0;
    unsigned column = at != NULL ? at->column : 0;

    if (at != NULL && at->kind == WR_YAML_SCALAR && at->plain)
        column += (unsigned)offset;
    wr_diag_add(ld->diag, severity, line, column, "%s", text);
}

void wr_error(struct wr_loader *ld, const struct wr_yaml *at, const char *format, ...)
{
    char text[WR_DIAG_TEXT_MAX];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    report(ld, WR_ERROR, at, 0, text);
}

void wr_warning(struct wr_loader *ld, const struct wr_yaml *at, const char *format, ...)
{
    char text[WR_DIAG_TEXT_MAX];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    report(ld, WR_WARNING, at, 0, text);
}

void wr_error_in(struct wr_loader *ld, const struct wr_yaml *at, size_t offset, const char *format,
                 ...)
{
    char text[WR_DIAG_TEXT_MAX];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    report(ld, WR_ERROR, at, offset, text);
}

const char *wr_found_kind(const struct wr_yaml *node)
{
    switch (node->kind) {
    case WR_YAML_LIST:
        return node->count == 0 ? "an empty list" : "a list";
    case WR_YAML_MAP:
        return "a map";
    case WR_YAML_SCALAR:
    default:
        return node->len == 0 ? "nothing" : "a text";
    }
}

struct wr_found wr_found(const struct wr_yaml *node)
{
    struct wr_found found;
    size_t len = node->len;

    if (node->kind != WR_YAML_SCALAR || len == 0) {
        (void)snprintf(found.text, sizeof found.text, "%s", wr_found_kind(node));
        return found;
    }
    if (len > QUOTED_BYTES) {
        len = QUOTED_BYTES;
        while (len > 0 && ((unsigned char)node->text[len] & 0xc0) == 0x80)
            len--; /* not in the middle of a character */
    }
    (void)snprintf(found.text, sizeof found.text, "\"%.*s%s\"", (int)len, node->text,
                   len < node->len ? "..." : "");
    return found;
}

/* ---- maps and lists ---------------------------------------------------------------------- */

#define NEAREST_BYTES 24U /* longer names are not compared */

/* Levenshtein's distance with transpositions, of texts up to NEAREST_BYTES. */
static unsigned distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    unsigned rows[3][NEAREST_BYTES + 1];

    for (size_t j = 0; j <= b_len; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= a_len; i++) {
        unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_len; j++) {
            unsigned least = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < least)
                least = above[j] + 1;
            if (row[j - 1] + 1 < least)
                least = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                above2[j - 2] + 1 < least)
                least = above2[j - 2] + 1;
            row[j] = least;
        }
    }
    return rows[a_len % 3][b_len];
}

const char *wr_nearest(const char *text, const char *const *names, size_t count, size_t stride)
{
    const char *best = NULL;
    size_t len = strlen(text);
    unsigned least = len < 4 ? 2 : 3; /* one or two slips of the finger */

    if (len > NEAREST_BYTES)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        const char *name = *(const char *const *)(const void *)((const char *)names + i * stride);
        unsigned d;
        if (strlen(name) > NEAREST_BYTES)
            continue;
        d = distance(text, len, name, strlen(name));
        if (d < least) {
            least = d;
            best = name;
        }
    }
    return best;
}

/* "a, b or c" of names that lie |stride| bytes apart. */
static void join_names(char *out, size_t size, const char *const *names, size_t count,
                       size_t stride)
{
    size_t at = 0;

    out[0] = '\0';
    for (size_t i = 0; i < count && at < size; i++) {
        const char *name = *(const char *const *)(const void *)((const char *)names + i * stride);
        int n = snprintf(out + at, size - at, "%s%s",
                         i == 0           ? ""
                         : i + 1 == count ? " or "
                                          : ", ",
                         name);
        at += n > 0 ? (size_t)n : 0;
    }
}

static void unknown_key(struct wr_loader *ld, const struct wr_yaml *key,
                        const struct wr_map_spec *spec)
{
    char known[256];
    const char *near =
        wr_nearest(key->text, &spec->keys[0].name, spec->count, sizeof spec->keys[0]);

    join_names(known, sizeof known, &spec->keys[0].name, spec->count, sizeof spec->keys[0]);
    if (near != NULL)
        wr_error(ld, key, "unknown key %s in %s: did you mean \"%s\"? (expected %s)",
                 wr_found(key).text, spec->what, near, known);
    else if (spec->secretive)
        wr_error(ld, key, "unknown key in %s: expected %s", spec->what, known);
    else
        wr_error(ld, key, "unknown key %s in %s: expected %s", wr_found(key).text, spec->what,
                 known);
}

bool wr_read_map(struct wr_loader *ld, const struct wr_yaml *node, const struct wr_map_spec *spec,
                 void *into)
{
    char known[256];

    if (node->kind != WR_YAML_MAP) {
        join_names(known, sizeof known, &spec->keys[0].name, spec->count, sizeof spec->keys[0]);
        wr_error(ld, node, "%s: expected a map with %s, found %s", spec->what, known,
                 spec->secretive ? wr_found_kind(node) : wr_found(node).text);
        return false;
    }
    for (const struct wr_yaml *value = node->first; value != NULL; value = value->next) {
        size_t i = 0;
        while (i < spec->count && strcmp(value->key->text, spec->keys[i].name) != 0)
            i++;
        if (i < spec->count)
            spec->keys[i].read(ld, value, into);
        else
            unknown_key(ld, value->key, spec);
    }
    return true;
}

const struct wr_yaml *wr_first_item(const struct wr_yaml *node)
{
    return node->kind == WR_YAML_LIST ? node->first : node;
}

const struct wr_yaml *wr_next_item(const struct wr_yaml *node, const struct wr_yaml *item)
{
    return node->kind == WR_YAML_LIST ? item->next : NULL;
}

/* ---- scalars ----------------------------------------------------------------------------- */

struct weir_slice wr_slice_of(const struct wr_yaml *scalar)
{
    return (struct weir_slice){scalar->text, scalar->len};
}

const char *wr_keep(struct wr_loader *ld, const struct wr_yaml *scalar)
{
    return wr_region_text(ld->region, scalar->text, scalar->len);
}

bool wr_is_text(const struct wr_yaml *node)
{
    return node->kind == WR_YAML_SCALAR && node->len > 0;
}

bool wr_read_text(struct wr_loader *ld, const struct wr_yaml *node, const char *expected,
                  const char **out)
{
    if (!wr_is_text(node)) {
        wr_error(ld, node, "expected %s, found %s", expected, wr_found_kind(node));
        return false;
    }
    *out = wr_keep(ld, node);
    return *out != NULL;
}

struct wr_place wr_place_of(const struct wr_yaml *node)
{
    return (struct wr_place){node->line, node->column};
}

/* Standard input, or what a shell hands over as <(...): in no folder. */
static bool is_handed_over(const char *path)
{
    return strcmp(path, "/dev/stdin") == 0 || strncmp(path, "/dev/fd/", 8) == 0;
}

const char *wr_path_of(const struct wr_loader *ld, const char *name, struct wr_region *region)
{
    const char *slash = ld->path != NULL ? strrchr(ld->path, '/') : NULL;
    bool here = name[0] == '/' || slash == NULL || is_handed_over(ld->path);
    size_t folder = here ? 0 : (size_t)(slash - ld->path) + 1;
    size_t len = strlen(name);
    char *path = wr_region_take(region, folder + len + 1, 1);

    if (path == NULL)
        return NULL;
    if (folder > 0)
        memcpy(path, ld->path, folder);
    memcpy(path + folder, name, len + 1);
    return path;
}

bool wr_read_file(struct wr_loader *ld, const struct wr_yaml *node, const char *expected,
                  const char **out, struct wr_place *at)
{
    if (!wr_read_text(ld, node, expected, out))
        return false;
    *out = wr_path_of(ld, *out, ld->region);
    if (at != NULL)
        *at = wr_place_of(node);
    return *out != NULL;
}

bool wr_read_bool(struct wr_loader *ld, const struct wr_yaml *node, const char *what, bool *out)
{
    if (node->kind == WR_YAML_SCALAR && strcmp(node->text, "true") == 0) {
        *out = true;
        return true;
    }
    if (node->kind == WR_YAML_SCALAR && strcmp(node->text, "false") == 0) {
        *out = false;
        return true;
    }
    wr_error(ld, node, "%s: expected true or false, found %s", what, wr_found(node).text);
    return false;
}

bool wr_read_int(struct wr_loader *ld, const struct wr_yaml *node, const char *what, int64_t min,
                 int64_t max, int64_t *out)
{
    int64_t value;
    size_t at;

    if (!wr_is_text(node) || wr_count_parse(wr_slice_of(node), max, &value, &at) != NULL ||
        value < min) {
        wr_error(ld, node, "%s: expected a whole number from %lld to %lld, found %s", what,
                 (long long)min, (long long)max, wr_found(node).text);
        return false;
    }
    *out = value;
    return true;
}

bool wr_read_choice(struct wr_loader *ld, const struct wr_yaml *node, const char *what,
                    const char *const *choices, size_t count, size_t *out)
{
    char known[256];
    const char *near = NULL;

    if (node->kind == WR_YAML_SCALAR) {
        for (size_t i = 0; i < count; i++) {
            if (strcmp(node->text, choices[i]) == 0) {
                *out = i;
                return true;
            }
        }
        near = wr_nearest(node->text, choices, count, sizeof choices[0]);
    }
    join_names(known, sizeof known, choices, count, sizeof choices[0]);
    wr_error(ld, node, "%s: expected %s, found %s%s%s%s", what, known, wr_found(node).text,
             near != NULL ? " (did you mean " : "", near != NULL ? near : "",
             near != NULL ? "?)" : "");
    return false;
}

bool wr_is_name(struct weir_slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '.' || c == '_' || c == '-'))
            return false;
    }
    return text.len > 0 && text.len <= WR_NAME_MAX;
}

bool wr_read_name(struct wr_loader *ld, const struct wr_yaml *node, const char *what,
                  const char **out)
{
    if (node->kind != WR_YAML_SCALAR || !wr_is_name(wr_slice_of(node))) {
        wr_error(ld, node, "%s: expected 1 to %d letters, digits, '.', '_' or '-', found %s", what,
                 WR_NAME_MAX, wr_found(node).text);
        return false;
    }
    *out = wr_keep(ld, node);
    return *out != NULL;
}
