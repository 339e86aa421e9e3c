/* zone_changes.h - what a zone is, for zone.c and those who read it from a file. */
#ifndef WR_BASE_ZONE_CHANGES_H
#define WR_BASE_ZONE_CHANGES_H

#include "base/zone.h"

#define WR_ZONE_CHANGES_MAX 4096

/* From this moment on local time is so far ahead of UTC. */
struct wr_zone_change {
    int64_t at_s;
    int32_t offset_s;
};

struct wr_zone {
    uint64_t id;
    char name[WR_ZONE_NAME_MAX];
    int32_t first_offset_s; /* before all changes */
    size_t count;
    struct wr_zone_change *changes; /* ascending, all moments different */
};

/* A rule as in POSIX's TZ ("EST5EDT,M3.2.0,M11.1.0"): the changes of every year after the last one
 * that stands in the file. */
struct wr_zone_rule {
    int32_t standard_s, summer_s;
    bool has_summer;
    struct wr_zone_turn {
        enum { WR_TURN_MONTH, WR_TURN_JULIAN, WR_TURN_DAY } kind;
        int month, week, weekday; /* Mm.w.d */
        int day;                  /* Jn: 1..365, no leap day counted; n: 0..365 */
        int32_t time_s;           /* of local time, -167 h .. 167 h */
    } start, end;                 /* of summer time */
};

/* Read all of |text|. False: it is none. */
bool wr_zone_rule_parse(const char *text, size_t len, struct wr_zone_rule *out);

/* The change to summer time (|start|) or back in |year|, seconds since the epoch. */
int64_t wr_zone_rule_turn_s(const struct wr_zone_rule *rule, int year, bool start);

#endif
