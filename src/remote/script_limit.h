/* script_limit.h - what a limit is at the store; internal to script*.c. */
#ifndef WR_REMOTE_SCRIPT_LIMIT_H
#define WR_REMOTE_SCRIPT_LIMIT_H

#include "algo/limit.h"
#include "engine/backend.h"

/* Moments of the store's. */
#define WR_SCRIPT_NOW_MAX_US (WR_TIME_MAX_NS / WR_NS_PER_US)

/* Fields of a charge's answer, at most; the first is -1 or what was granted. */
#define WR_SCRIPT_FIELDS_MAX 5

/* A leaky bucket's window, or as much of it as is exact at the store. */
struct wr_ticks;
int64_t wr_script_window_ticks(const struct wr_limit *limit, const struct wr_ticks *ticks);

/* The raw state |field|, from which |charge| was decided at |now_us|, into what |charge| is
 * answered. False where that is not what the script would have decided. */
bool wr_script_bucket(struct wr_remote_charge *charge, const int64_t *field, int64_t now_us);
bool wr_script_window(struct wr_remote_charge *charge, const int64_t *field, int64_t now_us);
bool wr_script_stamps(struct wr_remote_charge *charge, const int64_t *field, int64_t now_us);

#endif
