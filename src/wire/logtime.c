/* logtime.c - moments in logs.
 *
 * The problem. strptime and timegm follow the locale and the zone of the process, and cost a
 * microsecond; a double holds a moment of today to a quarter of a microsecond only. Hence by hand,
 * in integers. Days are counted by the usual trick of starting the year in March, so that the leap
 * day is its last.
 *
 * Source of the day count: Richards, "Mapping time", 1998, algorithm for the Gregorian calendar. */
#include "wire/logtime.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "base/units.h"

struct moment {
    int year, month, day, hour, minute, second;
    int zone_minutes; /* east of Greenwich */
    int64_t fraction_ns;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The number written by |n| digits at |p|, or -1. */
static int number(const char *p, int n)
{
    int value = 0;

    for (int i = 0; i < n; i++) {
        if (!is_digit(p[i]))
            return -1;
        value = value * 10 + (p[i] - '0');
    }
    return value;
}

static int days_in_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return days[month - 1] + (month == 2 && leap);
}

/* Days since 1970-01-01 of a day in 1970..2200. */
static int64_t days_since_epoch(int year, int month, int day)
{
    int from_march = (month + 9) % 12; /* March is 0 */
    int64_t y = year - (month <= 2);

    return y * 365 + y / 4 - y / 100 + y / 400 + (from_march * 153 + 2) / 5 + day - 1 - 719468;
}

static bool in_range(int value, int low, int high)
{
    return value >= low && value <= high;
}

static bool to_ns(const struct moment *m, int64_t *ns)
{
    int64_t s;

    if (!in_range(m->year, 1970, 2200) || !in_range(m->month, 1, 12) ||
        !in_range(m->day, 1, days_in_month(m->year, m->month)) || !in_range(m->hour, 0, 23) ||
        !in_range(m->minute, 0, 59) || !in_range(m->second, 0, 60))
        return false;
    s = days_since_epoch(m->year, m->month, m->day) * 86400 + INT64_C(3600) * m->hour +
        INT64_C(60) * (m->minute - m->zone_minutes) + m->second;
    if (s < 0 || s >= WR_TIME_MAX_NS / WR_NS_PER_S)
        return false;
    *ns = s * WR_NS_PER_S + m->fraction_ns;
    return true;
}

/* "+0200" or "+02:00" at |p|, to its end. */
static bool read_zone(const char *p, size_t len, int *minutes)
{
    bool colon = len == 6 && p[3] == ':';
    int hour, minute;

    if ((len != 5 && !colon) || (p[0] != '+' && p[0] != '-'))
        return false;
    hour = number(p + 1, 2);
    minute = number(p + (colon ? 4 : 3), 2);
    if (!in_range(hour, 0, 15) || !in_range(minute, 0, 59))
        return false;
    *minutes = (hour * 60 + minute) * (p[0] == '-' ? -1 : 1);
    return true;
}

static int month_named(const char *p)
{
    static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

    for (int i = 0; i < 12; i++)
        if (memcmp(names + (size_t)i * 3, p, 3) == 0)
            return i + 1;
    return -1;
}

bool wr_logtime_clf(const char *text, int64_t *ns)
{
    struct moment m = {.year = number(text + 7, 4),
                       .month = month_named(text + 3),
                       .day = number(text, 2),
                       .hour = number(text + 12, 2),
                       .minute = number(text + 15, 2),
                       .second = number(text + 18, 2)};

    if (text[2] != '/' || text[6] != '/' || text[11] != ':' || text[14] != ':' || text[17] != ':' ||
        text[20] != ' ')
        return false;
    return read_zone(text + 21, 5, &m.zone_minutes) && to_ns(&m, ns);
}

/* The fraction at |p|; returns how many bytes it takes, 0 where it is none. */
static size_t read_fraction(const char *p, size_t len, int64_t *ns)
{
    int64_t unit = WR_NS_PER_S / 10;
    size_t i = 1;

    *ns = 0;
    if (len < 2 || (p[0] != '.' && p[0] != ',') || !is_digit(p[1]))
        return 0;
    for (; i < len && is_digit(p[i]); i++) {
        *ns += (p[i] - '0') * unit;
        unit /= 10;
    }
    return i;
}

bool wr_logtime_rfc3339(struct weir_slice text, int64_t *ns)
{
    const char *p = text.ptr;
    struct moment m = {0};
    size_t at = 19;

    if (text.len < at || p[4] != '-' || p[7] != '-' || p[13] != ':' || p[16] != ':' ||
        (p[10] != 'T' && p[10] != 't' && p[10] != ' '))
        return false;
    m.year = number(p, 4);
    m.month = number(p + 5, 2);
    m.day = number(p + 8, 2);
    m.hour = number(p + 11, 2);
    m.minute = number(p + 14, 2);
    m.second = number(p + 17, 2);
    at += read_fraction(p + at, text.len - at, &m.fraction_ns);
    if (text.len - at == 1 && (p[at] == 'Z' || p[at] == 'z'))
        at++;
    else if (text.len > at && !read_zone(p + at, text.len - at, &m.zone_minutes))
        return false;
    return to_ns(&m, ns);
}

bool wr_logtime_until(struct weir_slice text, int64_t *ns)
{
    struct moment m = {0};
    int64_t start;

    if (text.len != 10)
        return wr_logtime_rfc3339(text, ns);
    if (text.ptr[4] != '-' || text.ptr[7] != '-')
        return false;
    m.year = number(text.ptr, 4);
    m.month = number(text.ptr + 5, 2);
    m.day = number(text.ptr + 8, 2);
    if (!to_ns(&m, &start))
        return false;
    *ns = start + WR_NS_PER_DAY;
    return true;
}

/* ---- numbers ------------------------------------------------------------------------------ */

#define DIGITS_KEPT 36 /* significant ones; more cannot matter to a ns */

/* 0.d1 d2 d3 ... times 10^point */
struct decimal {
    uint8_t digit[DIGITS_KEPT];
    int count;
    int64_t point;
};

static void add_digit(struct decimal *d, char c)
{
    if ((d->count > 0 || c != '0') && d->count < DIGITS_KEPT)
        d->digit[d->count++] = (uint8_t)(c - '0');
}

static bool read_exponent(const char *p, const char *end, int64_t *exponent)
{
    bool negative = p < end && *p == '-';

    *exponent = 0;
    if (p < end && (*p == '+' || *p == '-'))
        p++;
    if (p == end)
        return false;
    for (; p < end; p++) {
        if (!is_digit(*p))
            return false;
        *exponent = wr_min_i64(*exponent * 10 + (*p - '0'), 100000);
    }
    if (negative)
        *exponent = -*exponent;
    return true;
}

static bool read_decimal(struct weir_slice text, struct decimal *d)
{
    const char *p = text.ptr, *end = text.ptr + text.len;
    bool any = false, after_point = false;
    int64_t exponent = 0;

    d->count = 0;
    d->point = 0;
    for (; p < end && (is_digit(*p) || (*p == '.' && any && !after_point)); p++) {
        if (*p == '.') {
            after_point = true;
            continue;
        }
        any = true;
        add_digit(d, *p);
        if (!after_point && d->count > 0)
            d->point++;
        else if (after_point && d->count == 0)
            d->point--;
    }
    if (!any || (p < end && *p != 'e' && *p != 'E'))
        return false;
    if (p < end && !read_exponent(p + 1, end, &exponent))
        return false;
    d->point += exponent;
    return true;
}

static uint64_t digit_at(const struct decimal *d, int64_t index)
{
    return index >= 0 && index < d->count ? d->digit[index] : 0;
}

/* floor(|d| * unit), or false where that does not fit. 19 digits before the point times a unit of
 * up to 10^18, and 18 digits behind it (more cannot reach one ns), stay within 128 bits. */
static bool scale(const struct decimal *d, int64_t unit_ns, int64_t *ns)
{
    const wr_u128 unit = (wr_u128)unit_ns;
    wr_u128 whole = 0, behind = 0;

    if (d->count == 0) {
        *ns = 0;
        return true;
    }
    if (d->point > 19)
        return false;
    for (int64_t i = 0; i < d->point; i++)
        whole = whole * 10 + digit_at(d, i);
    for (int64_t i = d->point; i < d->point + 18; i++)
        behind = behind * 10 + digit_at(d, i);
    whole = whole * unit + behind * unit / (wr_u128)UINT64_C(1000000000000000000);
    if (whole > INT64_MAX)
        return false;
    *ns = (int64_t)whole;
    return true;
}

bool wr_logtime_scaled(struct weir_slice text, int64_t unit_ns, int64_t *ns)
{
    struct decimal d;
    int64_t value;

    if (!read_decimal(text, &d) || !scale(&d, unit_ns, &value))
        return false;
    *ns = value;
    return true;
}

bool wr_logtime_epoch(struct weir_slice text, int64_t *ns)
{
    int64_t value;

    if (!wr_logtime_scaled(text, WR_NS_PER_S, &value) || value >= WR_TIME_MAX_NS)
        return false;
    *ns = value;
    return true;
}

/* ---- writing ------------------------------------------------------------------------------ */

size_t wr_logtime_format(int64_t ns, char out[WR_LOGTIME_TEXT_MAX])
{
    int64_t s = ns / WR_NS_PER_S, fraction = ns % WR_NS_PER_S, day, of_day;
    int64_t z, era, doe, yoe, doy, mp, year;
    int n;

    if (fraction < 0) {
        fraction += WR_NS_PER_S;
        s--;
    }
    day = s / 86400 - (s % 86400 < 0);
    of_day = s - day * 86400;
    z = day + 719468; /* days since 0000-03-01 */
    era = z / 146097 - (z % 146097 < 0);
    doe = z - era * 146097;
    yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    mp = (5 * doy + 2) / 153;
    year = yoe + era * 400 + (mp >= 10);
    n = snprintf(out, WR_LOGTIME_TEXT_MAX, "%04d-%02d-%02dT%02d:%02d:%02d", (int)year,
                 (int)(mp < 10 ? mp + 3 : mp - 9), (int)(doy - (153 * mp + 2) / 5 + 1),
                 (int)(of_day / 3600), (int)(of_day / 60 % 60), (int)(of_day % 60));
    if (fraction % WR_NS_PER_MS == 0 && fraction > 0)
        n += snprintf(out + n, WR_LOGTIME_TEXT_MAX - (size_t)n, ".%03d",
                      (int)(fraction / WR_NS_PER_MS));
    else if (fraction % WR_NS_PER_US == 0 && fraction > 0)
        n += snprintf(out + n, WR_LOGTIME_TEXT_MAX - (size_t)n, ".%06d",
                      (int)(fraction / WR_NS_PER_US));
    else if (fraction > 0)
        n += snprintf(out + n, WR_LOGTIME_TEXT_MAX - (size_t)n, ".%09d", (int)fraction);
    out[n] = 'Z';
    out[n + 1] = '\0';
    return (size_t)n + 1;
}
