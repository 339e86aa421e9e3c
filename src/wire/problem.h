/* problem.h - the body of a refusal: RFC 9457 application/problem+json. */
#ifndef WR_WIRE_PROBLEM_H
#define WR_WIRE_PROBLEM_H

#include <stddef.h>
#include <stdint.h>

#include "weir/weir.h"

struct wr_problem {
    int status;
    enum weir_reason reason;
    const char *limit;      /* the decisive limit's name; NULL: none (bans) */
    int64_t quota_units;    /* of that limit */
    int64_t window_ns;      /* 0: none to speak of */
    const char *period;     /* "month": what a window is called; NULL: its length */
    int64_t retry_after_ns; /* > 0, or WEIR_NEVER */
    const char *plan;       /* NULL where the policy has no plans */
    const char *upgrade_to; /* the plan that would help; NULL: none is known */
    const char *violated[WEIR_LIMITS_MAX];
    size_t violated_count;
    const char *documentation_url; /* NULL: left out */
    const char *upgrade_url;
};

/* Write the body, without a final newline, terminated. Returns its length, or WEIR_EFULL. */
int wr_problem_write(const struct wr_problem *problem, char *buffer, size_t size);

#endif
