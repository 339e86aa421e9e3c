/* roster_parts.h - a customers' file that was read. Internal to src/meter. */
#ifndef WR_METER_ROSTER_PARTS_H
#define WR_METER_ROSTER_PARTS_H

#include "meter/roster.h"
#include "policy/region.h"
#include "policy/table.h"

#define WR_ROSTER_ENTRY_BYTES 16 /* of an entry's digest */

/* Tags in tables. */
enum { WR_ROSTER_NAME = 1, WR_ROSTER_KEY };

struct wr_roster_key {
    unsigned line, column;
    struct wr_customer_key key; /* digest, identity, hint */
};

struct wr_roster_entry {
    unsigned line, column;
    const char *name, *tenant, *plan, *trial_plan; /* tenant, trial_plan: "" where not given */
    int64_t trial_until_ns;
    int64_t anchor; /* 0: not given */
    bool partner, suspended;
    size_t key_count;
    struct wr_roster_key *keys;
    unsigned char digest[WR_ROSTER_ENTRY_BYTES]; /* of all of it */
};

struct wr_roster {
    struct wr_region region;
    const char *path; /* NULL: it is in no file */
    size_t count;
    struct wr_roster_entry *entries;
    struct wr_table names; /* -> index in entries */
};

#endif
