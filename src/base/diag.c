/* diag.c - a bounded list of messages about one file and those it names. */
#include "base/diag.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void wr_diag_init(struct wr_diag *diag, const char *file)
{
    diag->file = file;
    diag->another = NULL;
    diag->kept = 0;
    diag->errors = 0;
    diag->warnings = 0;
}

/* Copy |from| so that no byte of it can command a terminal; UTF-8 passes. */
static void copy_printable(char *to, size_t size, const char *from)
{
    size_t at = 0;

    for (; *from != '\0' && at + 5 < size; from++) {
        unsigned char c = (unsigned char)*from;
        if (c < 0x20 || c == 0x7f)
            at += (size_t)snprintf(to + at, size - at, "\\x%02x", c);
        else
            to[at++] = (char)c;
    }
    to[at] = '\0';
}

void wr_diag_add(struct wr_diag *diag, enum wr_severity severity, unsigned line, unsigned column,
                 const char *format, ...)
{
    char raw[WR_DIAG_TEXT_MAX];
    struct wr_diag_item *item;
    va_list args;

    if (diag == NULL)
        return;
    if (severity == WR_ERROR)
        diag->errors++;
    else
        diag->warnings++;
    if (diag->kept == WR_DIAG_MAX)
        return;
    item = &diag->items[diag->kept++];
    item->severity = severity;
    item->line = line;
    item->column = column;
    (void)snprintf(item->file, sizeof item->file, "%s", diag->another != NULL ? diag->another : "");
    va_start(args, format);
    (void)vsnprintf(raw, sizeof raw, format, args);
    va_end(args);
    copy_printable(item->text, sizeof item->text, raw);
}

/* Append to |out| of |size| bytes, of which |at| are used or wanted; returns the new wanted length.
 */
static size_t append(char *out, size_t size, size_t at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static size_t append(char *out, size_t size, size_t at, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(at < size ? out + at : NULL, at < size ? size - at : 0, format, args);
    va_end(args);
    return n > 0 ? at + (size_t)n : at;
}

static size_t format_item(const struct wr_diag *diag, const struct wr_diag_item *item, char *out,
                          size_t size, size_t at)
{
    const char *file = item->file[0] != '\0' ? item->file : diag->file;

    at = append(out, size, at, "%s", file != NULL ? file : "-");
    if (item->line > 0)
        at = append(out, size, at, ":%u", item->line);
    if (item->line > 0 && item->column > 0)
        at = append(out, size, at, ":%u", item->column);
    return append(out, size, at, ": %s: %s\n", item->severity == WR_ERROR ? "error" : "warning",
                  item->text);
}

static bool before(const struct wr_diag_item *a, const struct wr_diag_item *b)
{
    int order = strcmp(a->file, b->file);

    if (order != 0)
        return order < 0;
    return a->line != b->line ? a->line < b->line : a->column < b->column;
}

size_t wr_diag_format(const struct wr_diag *diag, char *out, size_t size)
{
    unsigned char order[WR_DIAG_MAX] = {0};
    size_t at = 0;

    _Static_assert(WR_DIAG_MAX <= 256, "order[] holds indexes in bytes");
    if (size > 0)
        out[0] = '\0';
    for (size_t i = 0; i < diag->kept; i++) { /* insertion sort, stable */
        size_t j = i;
        for (; j > 0 && before(&diag->items[i], &diag->items[order[j - 1]]); j--)
            order[j] = order[j - 1];
        order[j] = (unsigned char)i;
    }
    for (size_t i = 0; i < diag->kept; i++)
        at = format_item(diag, &diag->items[order[i]], out, size, at);
    if (diag->errors + diag->warnings > diag->kept)
        at = append(out, size, at, "%s: and %zu more\n", diag->file != NULL ? diag->file : "-",
                    diag->errors + diag->warnings - diag->kept);
    return at;
}
