/* sliding_log.h - exactly N in any window, from the stamps of what was admitted. */
#ifndef WR_ALGO_SLIDING_LOG_H
#define WR_ALGO_SLIDING_LOG_H

#include "algo/limit.h"

/* Decide |cost| with |live| stamps in (now - W, now]. On a refusal that waiting can cure,
 * |*must_age| says how many of the oldest stamps must age out: retry_after is then
 * wr_sliding_log_retry of the last of them (out->retry_after_ns is left 0). With count_denied it
 * may be more than |live|: those behind are what the refusal itself adds, stamps of now or of the
 * newest if that is later. out->state is 0. */
void wr_sliding_log_take(const struct wr_limit *limit, uint32_t live, int64_t cost,
                         struct wr_take *out, uint32_t *must_age);

/* How many stamps charging |cost| whether it fits or not adds: at most twice the limit are ever
 * held, so that memory stays bounded. */
int64_t wr_sliding_log_forced(const struct wr_limit *limit, uint32_t live, int64_t cost);

/* From |now_ns| until a stamp no longer counts, at least 1: a stamp exactly W old does not count.
 */
int64_t wr_sliding_log_retry(const struct wr_limit *limit, int64_t stamp_ns, int64_t now_ns);

/* The same, to be told to people: a stamp made at |now_ns| is a window away, not a part of a tick
 * more, which would be a millisecond or a second more by the time it is rounded up. */
int64_t wr_sliding_log_left(const struct wr_limit *limit, int64_t stamp_ns, int64_t now_ns);

#endif
