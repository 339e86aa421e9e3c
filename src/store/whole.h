/* whole.h - files that are opened, or made whole or not at all. */
#ifndef WR_STORE_WHOLE_H
#define WR_STORE_WHOLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/diag.h"
#include "weir/weir.h"

struct wr_whole {
    const char *path;
    const char *what; /* "an arena": for messages */
    bool must_exist;  /* do not make it */
    bool read_only;   /* likewise */
    /* Make the empty file |fd| what it is to be. Returns 0 or an error that |diag| explains. */
    int (*fill)(int fd, const void *context, struct wr_diag *diag);
    const void *context;
};

/* Open the file, making it where there is none. |*fd| is the caller's to close, -1 on error.
 * Returns 0, WEIR_ENOENT (there is none, and it is not to be made), WEIR_EIO, WEIR_EFORMAT (no
 * regular file), or what fill returns. */
int wr_whole_open(const struct wr_whole *whole, int *fd, struct wr_diag *diag);

/* Reserve |bytes| of blocks: a file system that is full later is SIGBUS for who has it mapped. */
int wr_whole_reserve(int fd, uint64_t bytes, struct wr_diag *diag);

#endif
