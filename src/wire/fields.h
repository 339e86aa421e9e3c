/* fields.h - response fields that tell a caller where it stands, in every shape that clients read.
 *
 * Source: draft-ietf-httpapi-ratelimit-headers -03, -06, -07, -11; RFC 9651 (structured fields);
 * RFC 9110 section 10.2.3 (Retry-After). Facts and choices: docs/headers.md. */
#ifndef WR_WIRE_FIELDS_H
#define WR_WIRE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/weir.h"

/* One limit's standing, ready to be written. */
struct wr_standing {
    const char *name;    /* [A-Za-z0-9._-] */
    int64_t quota_units; /* what can be remaining at most */
    int64_t remaining_units;
    int64_t window_ns; /* 0: not a window (buckets with another burst than N, concurrency) */
    int64_t next_ns;   /* until one unit more; 0: nothing used */
    int64_t reset_ns;  /* until all; 0: nothing used */
    bool concurrent;   /* qu="concurrent-requests" */
    bool violated;
};

struct wr_standings {
    struct wr_standing item[WEIR_LIMITS_MAX];
    size_t count;
    size_t decisive; /* index of the one to speak of, < count where count > 0 */
    int64_t now_ns;  /* since the Unix epoch, for epoch resets */
    bool denied;
    int64_t retry_after_ns; /* denied: > 0 or WEIR_NEVER */
    bool expose;            /* add Access-Control-Expose-Headers */
};

/* Render into |out| (WEIR_HEADERS_MAX) and |buffer|; values point into it. Returns their number or
 * WEIR_EFULL. Numbers are integers of at most 15 digits; seconds are rounded up, never 0 when
 * denied. */
int wr_fields_write(const struct wr_standings *standings, unsigned families,
                    struct weir_header *out, char *buffer, size_t size);

#endif
