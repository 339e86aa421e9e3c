/* window.c - when a window of the ledger ends.
 *
 * Idea. A row has the window's first day and whether it is of a day, a week or a month; which day
 * months begin on was known to who counted. It is read off the first day. Only where that is the
 * last of its month there are several anchors to choose from, as the 30th of November is of 30 and
 * of 31: the customer's, if it is one of them, otherwise the latest, so that no window is ever said
 * to be over before it is. All of them end in the same month. */
#include "meter/window.h"

#include <sqlite3.h>

#include "algo/civil.h"
#include "base/units.h"
#include "base/zone.h"

static uint8_t anchor_of(int32_t day, uint8_t customers)
{
    int year;
    unsigned month, date, after;

    wr_civil_date(day + 1, &year, &month, &after);
    wr_civil_date(day, &year, &month, &date);
    if (after != 1)
        return (uint8_t)date;
    return customers >= date ? customers : 31;
}

int32_t wr_window_last_day(uint8_t per, int32_t day, uint8_t anchor)
{
    struct wr_civil civil = {.zone = WR_ZONE_UTC, .per = WR_PER_MONTH, .anchor = 1};

    if (per == WR_PER_WEEK)
        return day + 6;
    if (per != WR_PER_MONTH)
        return day;
    civil.anchor = anchor_of(day, anchor);
    return wr_civil_window(&civil, wr_civil_index(&civil, day) + 1).day - 1;
}

int64_t wr_window_end_ns(int32_t last, const char *zone)
{
    char why[128];
    const struct wr_zone *found = wr_zone_find(zone, why, sizeof why);

    if (found == NULL)
        found = wr_zone_by_id(WR_ZONE_UTC);
    return wr_zone_day_start_s(found, (int64_t)last + 1) * WR_NS_PER_S;
}

static void last_day(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count;
    sqlite3_result_int(context, wr_window_last_day((uint8_t)sqlite3_value_int(values[0]),
                                                   sqlite3_value_int(values[1]),
                                                   (uint8_t)sqlite3_value_int(values[2])));
}

int wr_window_register(struct sqlite3 *sqlite)
{
    return sqlite3_create_function(sqlite, "weir_last_day", 3, SQLITE_UTF8 | SQLITE_DETERMINISTIC,
                                   NULL, last_day, NULL, NULL);
}
