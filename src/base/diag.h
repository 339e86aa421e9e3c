/* diag.h - what is wrong with something a person wrote: where, what was found, what was expected.
 */
#ifndef WR_BASE_DIAG_H
#define WR_BASE_DIAG_H

#include <stdbool.h>
#include <stddef.h>

enum wr_severity { WR_ERROR, WR_WARNING };

#define WR_DIAG_TEXT_MAX 512 /* bytes of one message, with its terminator; longer is cut */
#define WR_DIAG_MAX 64       /* messages kept; more are only counted */
#define WR_DIAG_FILE_MAX 256 /* bytes of another file's name */

struct wr_diag_item {
    enum wr_severity severity;
    unsigned line;               /* from 1; 0: the file as a whole */
    unsigned column;             /* from 1; 0: the line as a whole */
    char file[WR_DIAG_FILE_MAX]; /* "": the list's own */
    char text[WR_DIAG_TEXT_MAX];
};

/* A list of messages about one file and those it names, in the caller's memory. About 50 KiB: not
 * for small stacks. */
struct wr_diag {
    const char *file;    /* borrowed */
    const char *another; /* borrowed: what is added now is about this file instead; or NULL */
    size_t kept;
    size_t errors;
    size_t warnings;
    struct wr_diag_item items[WR_DIAG_MAX];
};

void wr_diag_init(struct wr_diag *diag, const char *file);

/* Add a message. Control characters in it are written as \xNN, so that a hostile file cannot write
 * to a terminal. |diag| may be NULL: the message is dropped. */
void wr_diag_add(struct wr_diag *diag, enum wr_severity severity, unsigned line, unsigned column,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Write the messages, one a line, "file:line:column: error: text\n", in the order of their places,
 * then how many were left out. Returns the length it would have; writes at most |size| bytes,
 * always terminated when |size| > 0. */
size_t wr_diag_format(const struct wr_diag *diag, char *out, size_t size);

#endif
