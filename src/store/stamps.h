/* stamps.h - what log.c needs of stamps.c. */
#ifndef WR_STORE_STAMPS_H
#define WR_STORE_STAMPS_H

#include "store/list.h"
#include "store/log.h"

/* The list as it will be committed. */
struct wr_list wr_stamps_list(const struct wr_log *log);

/* Append one stamp, a multiple of the tick and not before the newest. False: no node is left. */
bool wr_stamps_push(struct wr_log *log, int64_t stamp_ns);

#endif
