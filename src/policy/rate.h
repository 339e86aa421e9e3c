/* rate.h - the numbers that a person writes in a policy: rates, durations, sizes. */
#ifndef WR_POLICY_RATE_H
#define WR_POLICY_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/weir.h"

struct wr_rate {
    bool unlimited;
    int64_t units;     /* N, >= 0 */
    int64_t window_ns; /* W, > 0 */
    int64_t burst;     /* -1: not given */
    int64_t queue;     /* -1: not given */
};

/* Each parses all of |text|. On success returns NULL; else a static text "expected ..., found ..."
 * or what else is wrong, with |*at| the offset in |text| of what it speaks of. |out| is written in
 * full either way. */

/* N/UNIT or N/DURATION, then "burst N" or "queue N"; or "unlimited". */
const char *wr_rate_parse(struct weir_slice text, struct wr_rate *out, size_t *at);

/* 250ms 30s 15m 1h 2d 1w; more than 0. */
const char *wr_duration_parse(struct weir_slice text, int64_t *ns, size_t *at);

/* 64MiB, 1GiB, 65536. */
const char *wr_size_parse(struct weir_slice text, uint64_t *bytes, size_t *at);

/* Digits only, at most |max|. */
const char *wr_count_parse(struct weir_slice text, int64_t max, int64_t *out, size_t *at);

/* "100 per minute", "5 per 250ms", as in summaries; terminated. */
void wr_rate_words(int64_t units, int64_t window_ns, char *out, size_t size);

#endif
