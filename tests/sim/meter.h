/* meter.h - how much may pass under a limit: the bound of its algorithm, told as simply as can be,
 * and independent of src/algo. Charges come in the order of time. */
#ifndef TEST_SIM_METER_H
#define TEST_SIM_METER_H

#include <stdbool.h>
#include <stdint.h>

#include "algo/limit.h"

#define METER_ROWS 256U /* of lists: more than a limit has units */

struct meter_row {
    int64_t at_ns;
    int64_t cost;
    uint64_t number; /* of the request; 0: none, or taken back */
};

struct meter {
    int64_t index, count, before; /* windows */
    int64_t debt, at_ns;          /* bucket: in units * window_ns */
    struct meter_row *row;        /* lists: a ring */
    unsigned next;
};

void meter_reset(struct meter *meter);
void meter_free(struct meter *meter);

/* |cost| passes at |at_ns|, and departs |delay_ns| later. False: more than the limit lets through.
 */
bool meter_pass(struct meter *meter, const struct wr_limit *limit, int64_t at_ns, int64_t cost,
                int64_t delay_ns, uint64_t number);

/* It did not pass after all, or not all of it. */
void meter_back(struct meter *meter, const struct wr_limit *limit, int64_t passed_ns,
                int64_t now_ns, int64_t cost, uint64_t number);

/* Fixed windows: what was counted in the window of |at_ns|. */
int64_t meter_count(const struct meter *meter, const struct wr_limit *limit, int64_t at_ns);

#endif
