/* refused.h - refused requests in the log: the first of each second a line each, the rest as
 * numbers, so that a flood of them fills no disk. */
#ifndef WR_SERVE_REFUSED_H
#define WR_SERVE_REFUSED_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "serve/metrics.h"

struct wr_loop;

#define WR_REFUSED_NAMES 16 /* limits whose suppressed lines are told apart, in a second */

/* Of one loop, used in its thread alone. */
struct wr_refused {
    int64_t second;   /* the last one that something was refused in */
    unsigned written; /* in it */
    unsigned names;
    struct {
        const char *limit; /* borrowed from the policy */
        uint64_t count;
    } suppressed[WR_REFUSED_NAMES + 1]; /* the last: of all other limits */
    uv_timer_t timer;                   /* until what is suppressed is told */
};

/* ---- of a loop ----------------------------------------------------------------------------- */

void wr_refused_open(struct wr_loop *loop);
void wr_refused_close(struct wr_loop *loop); /* tells what is suppressed */

/* Tell what is suppressed: before the loop's policy goes, whose names are borrowed. */
void wr_refused_forget(struct wr_loop *loop);

/* A refusal, whether of a request by the policy or of something else. */
struct wr_refusal {
    enum wr_door_id door;
    bool shadow;
    const char *limit; /* lives as long as the policy; "": none (a ban) */
    const char *reason;
    const char *plan;                   /* NULL: none */
    const struct weir_request *request; /* NULL: it has none */
    int64_t retry_after_ns;             /* WEIR_NEVER: never */
    int64_t cost_units;
};
void wr_refused_tell(struct wr_loop *loop, const struct wr_refusal *refusal);

/* Count what the policy said of |request|, and log it if it was refused. Looks count nowhere. */
void wr_refused_answer(struct wr_loop *loop, enum wr_door_id door,
                       const struct weir_request *request, const struct weir_answer *answer);

/* ---- for tests ----------------------------------------------------------------------------- */

/* May a refusal by |limit| at |now_ns| have a line, if there may be |per_second|? It is counted as
 * written or as suppressed. */
bool wr_refused_admit(struct wr_refused *refused, const char *limit, int64_t now_ns,
                      unsigned per_second);
void wr_refused_suppress(struct wr_refused *refused, const char *limit);

#endif
