/* civil_windows.c - for civil.py: the windows of src/algo/civil.c, printed.
 *
 *   civil_windows < lines of "ZONE day|week|month ANCHOR FROM UNTIL", seconds since the epoch
 *
 * prints "= ZONE PER ANCHOR" and for each window from the one that holds FROM to the one that holds
 * UNTIL "DAY START END". What the functions say of each other is checked here. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/civil.h"
#include "base/units.h"
#include "base/zone.h"

static void die(const char *what, const char *name, int64_t moment_ns)
{
    (void)fprintf(stderr, "%s: %s at %" PRId64 "\n", name, what, moment_ns);
    exit(1);
}

static bool same(const struct wr_civil_window *a, const struct wr_civil_window *b)
{
    return a->index == b->index && a->day == b->day && a->start_ns == b->start_ns &&
           a->end_ns == b->end_ns;
}

static void expect_in(const struct wr_civil *civil, const char *name, int64_t moment_ns,
                      const struct wr_civil_window *window)
{
    struct wr_civil_window found = wr_civil_at(civil, moment_ns);

    if (!same(&found, window))
        die("another window", name, moment_ns);
}

static void print(const struct wr_civil *civil, const char *name, int64_t from_s, int64_t until_s)
{
    struct wr_civil_window w = wr_civil_at(civil, from_s * WR_NS_PER_S), next;

    for (;;) {
        struct wr_civil_window by_number = wr_civil_window(civil, w.index);
        if (!same(&by_number, &w) || wr_civil_index(civil, w.day) != w.index)
            die("its number leads elsewhere", name, w.start_ns);
        expect_in(civil, name, w.start_ns, &w);
        expect_in(civil, name, w.start_ns + (w.end_ns - w.start_ns) / 2, &w);
        expect_in(civil, name, w.end_ns - 1, &w);
        (void)printf("%" PRId32 " %" PRId64 " %" PRId64 "\n", w.day, w.start_ns / WR_NS_PER_S,
                     w.end_ns / WR_NS_PER_S);
        if (w.end_ns > until_s * WR_NS_PER_S)
            return;
        next = wr_civil_at(civil, w.end_ns);
        for (uint64_t i = w.index + 1; i < next.index; i++) { /* a day that was skipped */
            struct wr_civil_window empty = wr_civil_window(civil, i);
            if (empty.start_ns != w.end_ns || empty.end_ns != w.end_ns)
                die("a window between two is not empty", name, w.end_ns);
        }
        if (next.start_ns != w.end_ns || next.index <= w.index)
            die("the next window does not follow", name, w.end_ns);
        w = next;
    }
}

int main(void)
{
    char name[WR_ZONE_NAME_MAX + 1], per[8], why[100];
    unsigned anchor;
    int64_t from_s, until_s;

    while (scanf("%64s %7s %u %" SCNd64 " %" SCNd64, name, per, &anchor, &from_s, &until_s) == 5) {
        const struct wr_zone *zone = wr_zone_find(name, why, sizeof why);
        struct wr_civil civil = {.anchor = (uint8_t)anchor};
        if (zone == NULL)
            die(why, name, 0);
        civil.zone = wr_zone_id(zone);
        civil.per = per[0] == 'd' ? WR_PER_DAY : per[0] == 'w' ? WR_PER_WEEK : WR_PER_MONTH;
        if (!wr_civil_valid(&civil))
            die("no such windows", per, 0);
        (void)printf("= %s %s %u\n", name, per, anchor);
        print(&civil, name, from_s, until_s);
    }
    return 0;
}
