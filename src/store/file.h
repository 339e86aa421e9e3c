/* file.h - the arena's file: opened, or made whole or not at all. */
#ifndef WR_STORE_FILE_H
#define WR_STORE_FILE_H

#include <stdint.h>

#include "store/arena.h"

/* Open the file for |options|, making it where there is none. |*fd| is the caller's to close, -1 on
 * error. Returns 0, WEIR_EIO, WEIR_EFORMAT (no regular file). */
int wr_file_open(const struct wr_arena_options *options, int *fd, struct wr_diag *diag);

#endif
