/* json_load.c - the library, and what servers write that it refuses.
 *
 * Invariants:
 *   1. What the library takes is never touched. What it refuses is tried once more in two cases:
 *      strings that are not UTF-8 (json_mend.c), and integers beyond 64 bits (then all numbers are
 *      doubles, which are whole up to 2^53; some log identifiers so).
 *   2. A place is one of the text as it was logged.
 *
 * Rejected: JSON_DECODE_INT_AS_REAL for all (a key of 17 digits would become another). */
#include "wire/json_load.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/json_mend.h"

static json_t *load(struct weir_slice text, json_error_t *error)
{
    json_t *tree = json_loadb(text.ptr, text.len, JSON_ALLOW_NUL, error);

    if (tree == NULL && json_error_code(error) == json_error_numeric_overflow)
        tree = json_loadb(text.ptr, text.len, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, error);
    return tree;
}

/* The library's words, without what it cites of the line. */
static void set_reason(struct wr_json_error *out, const json_error_t *error)
{
    const char *cited = strstr(error->text, " near ");
    int len = cited != NULL ? (int)(cited - error->text) : (int)strlen(error->text);

    if (len == 0)
        (void)snprintf(out->reason, sizeof out->reason, "out of memory");
    else
        (void)snprintf(out->reason, sizeof out->reason, "not JSON: %.*s", len, error->text);
}

/* The library says how many bytes it has taken. */
static size_t offset_of(const json_error_t *error, size_t len)
{
    if (json_error_code(error) == json_error_premature_end_of_input)
        return len;
    return error->position > 0 && (size_t)error->position <= len ? (size_t)error->position - 1 : 0;
}

json_t *wr_json_load(struct weir_slice text, bool *mended, struct wr_json_error *error)
{
    json_error_t found;
    json_t *tree = load(text, &found);
    size_t len;
    char *other;

    *mended = false;
    error->reason[0] = '\0';
    error->at = 0;
    if (tree != NULL)
        return tree;
    error->at = offset_of(&found, text.len);
    other = wr_json_mend(text, &len);
    if (other != NULL) {
        *mended = true;
        tree = load((struct weir_slice){other, len}, &found);
        if (tree == NULL)
            error->at = wr_json_mend_origin(text, offset_of(&found, len));
        free(other);
    }
    if (tree == NULL)
        set_reason(error, &found);
    return tree;
}

/* The library does not say. A name in quotes before a colon is a name, as quotes within strings are
 * escaped. */
const char *wr_json_locate(struct weir_slice text, const char *name)
{
    const char *p = text.ptr + 1, *end = text.ptr + text.len;
    size_t len = strlen(name);

    while (p < end && (p = memmem(p, (size_t)(end - p), name, len)) != NULL) {
        const char *after = p + len;
        bool quoted = p[-1] == '"' && after < end && *after++ == '"';
        while (quoted && after < end && (*after == ' ' || *after == '\t'))
            after++;
        if (quoted && after < end && *after == ':')
            return after + 1;
        p += len;
    }
    return NULL;
}
