/* azure_mend.c - policy documents as Azure's portal shows them, made XML.
 *
 * Problem. Expressions stand in documents as they are in C#:
 *
 *     counter-key="@(context.Request.Headers.GetValueOrDefault("X-Tenant", ""))"
 *     <value>@(a < b && c)</value>
 *
 * The portal, its API (format rawxml) and most repositories have them so, and no XML parser reads
 * them.
 *
 * Idea. An expression, @( or @{ at the beginning of an attribute's value or of a text, ends where
 * its brackets do, strings and characters of C# aside. Within it the bytes that XML has other uses
 * for are written as entities; whatever is written so already stays. Lines stay where they were.
 *
 * Invariants: what has no expression is copied as it is; one that does not end, and
 * what is behind it, is left alone, for the parser to say so. Linear in the length. */
#include "import/azure_mend.h"

#include <stdlib.h>
#include <string.h>

/* One past the string or character that begins at |at|; |end|: it does not end. */
static const char *skip_string(const char *at, const char *end)
{
    char quote = *at++;

    while (at < end && *at != quote)
        at += *at == '\\' && at + 1 < end ? 2 : 1;
    return at < end ? at + 1 : end;
}

/* One past the bracket that closes the one at |at|; NULL: none does. */
static const char *skip_brackets(const char *at, const char *end)
{
    unsigned depth = 0;

    while (at < end) {
        char c = *at;
        if (c == '"' || c == '\'') {
            at = skip_string(at, end);
            continue;
        }
        if (c == '(' || c == '{' || c == '[')
            depth++;
        else if ((c == ')' || c == '}' || c == ']') && --depth == 0)
            return at + 1;
        at++;
    }
    return NULL;
}

static bool is_entity(const char *at, const char *end)
{
    static const char *const known[] = {"&quot;", "&amp;", "&lt;", "&gt;", "&apos;", "&#"};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        size_t len = strlen(known[i]);
        if ((size_t)(end - at) >= len && memcmp(at, known[i], len) == 0)
            return true;
    }
    return false;
}

static char *put(char *out, const char *text)
{
    while (*text != '\0')
        *out++ = *text++;
    return out;
}

/* |from|..|to| with entities. */
static char *put_expression(char *out, const char *from, const char *to)
{
    for (; from < to; from++) {
        if (*from == '"')
            out = put(out, "&quot;");
        else if (*from == '\'')
            out = put(out, "&apos;");
        else if (*from == '<')
            out = put(out, "&lt;");
        else if (*from == '&' && !is_entity(from, to))
            out = put(out, "&amp;");
        else
            *out++ = *from;
    }
    return out;
}

/* Does an expression begin at |at|, in the beginning of an attribute or of a text? */
static bool is_expression(const char *text, const char *at, const char *end)
{
    const char *before = at;

    if (end - at < 2 || at[0] != '@' || (at[1] != '(' && at[1] != '{'))
        return false;
    while (before > text && strchr(" \t\r\n", before[-1]) != NULL)
        before--;
    return before > text &&
           (before[-1] == '>' || (before == at && (before[-1] == '"' || before[-1] == '\'')));
}

char *wr_azure_mend(const char *text, size_t len, size_t *mended_len)
{
    const char *at = text, *end = text + len;
    char *mended = malloc(len * 6 + 1), *out = mended;
    bool whole = true; /* every expression so far has an end */

    *mended_len = 0;
    if (mended == NULL)
        return NULL;
    while (at < end) {
        const char *stop = NULL;
        if (whole && is_expression(text, at, end)) {
            stop = skip_brackets(at + 1, end);
            whole = stop != NULL; /* not tried again at each one that follows */
        }
        if (stop == NULL) {
            *out++ = *at++;
        } else {
            out = put_expression(out, at, stop);
            at = stop;
        }
    }
    *out = '\0';
    *mended_len = (size_t)(out - mended);
    return mended;
}
