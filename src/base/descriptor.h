/* descriptor.h - a question and an answer of the Envoy Rate Limit Service, as its codec, the engine
 * and the doors pass them on. Nothing of the wire is left in them. */
#ifndef WR_BASE_DESCRIPTOR_H
#define WR_BASE_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/weir.h"

#define WR_DESCRIPTORS_MAX 64 /* of one question */
#define WR_ENTRIES_MAX 16     /* of one descriptor */
#define WR_RATE_HEADERS_MAX WEIR_HEADERS_MAX

/* RateLimit.Unit of the protocol; its override knows no week. */
enum wr_unit {
    WR_UNIT_UNKNOWN = 0,
    WR_UNIT_SECOND = 1,
    WR_UNIT_MINUTE = 2,
    WR_UNIT_HOUR = 3,
    WR_UNIT_DAY = 4,
    WR_UNIT_MONTH = 5,
    WR_UNIT_YEAR = 6,
    WR_UNIT_WEEK = 7,
    WR_UNITS
};

enum wr_rate_code { WR_RATE_OK = 1, WR_RATE_OVER_LIMIT = 2 };

struct wr_entry {
    struct weir_slice key, value; /* UTF-8, as sent */
};

struct wr_descriptor {
    const struct wr_entry *entries;
    size_t count;
    bool has_limit; /* the question brings its own limit */
    bool has_hits;
    bool negative;      /* give back instead of taking */
    uint8_t limit_unit; /* enum wr_unit */
    uint32_t limit_units;
    uint64_t hits;
};

struct wr_rate_request {
    struct weir_slice domain;
    const struct wr_descriptor *descriptors;
    size_t count;  /* at most WR_DESCRIPTORS_MAX */
    uint32_t hits; /* 0: not said */
};

/* What is said of one descriptor. */
struct wr_rate_status {
    uint8_t code; /* enum wr_rate_code */
    uint8_t unit; /* enum wr_unit; UNKNOWN: no window of the protocol */
    bool has_limit;
    struct weir_slice name; /* of the limit; may be empty */
    const char *rule;       /* where the limit is written, "shop.plan_free"; NULL: nowhere */
    uint32_t units;         /* requests per unit */
    uint32_t remaining;
    int64_t reset_s; /* 0: not said */
};

struct wr_rate_header {
    struct weir_slice key, value;
};

struct wr_rate_response {
    uint8_t code; /* enum wr_rate_code, of all */
    size_t count; /* as many as descriptors, in their order */
    struct wr_rate_status statuses[WR_DESCRIPTORS_MAX];
    size_t header_count; /* for the caller of the API */
    struct wr_rate_header headers[WR_RATE_HEADERS_MAX];
    struct weir_slice body; /* of the refusal; may be empty */
};

/* Seconds of |unit| as Envoy counts it; 0 of UNKNOWN. */
static inline int64_t wr_unit_seconds(enum wr_unit unit)
{
    static const int64_t seconds[WR_UNITS] = {0, 1, 60, 3600, 86400, 2592000, 31536000, 604800};

    return (unsigned)unit < WR_UNITS ? seconds[unit] : 0;
}

#endif
