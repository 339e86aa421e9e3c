/* zone_rule.c - rules of summer time, as POSIX writes them in TZ, with RFC 9636's longer times.
 *
 * Names of zones are skipped: nobody here tells people the time. */
#include <string.h>

#include "base/zone_changes.h"

#define HOUR_S 3600
#define HOURS_MAX 167 /* RFC 9636, 3.3.2: -167..167 */
#define S_PER_DAY INT64_C(86400)

/* What is left to be read. */
struct text {
    const char *at, *end;
};

static bool take(struct text *t, char c)
{
    if (t->at == t->end || *t->at != c)
        return false;
    t->at++;
    return true;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* EST, or <+03>. */
static bool skip_name(struct text *t)
{
    const char *begin = t->at;

    if (take(t, '<')) {
        const char *close = memchr(t->at, '>', (size_t)(t->end - t->at));
        if (close == NULL || close == t->at)
            return false;
        t->at = close + 1;
        return true;
    }
    while (t->at < t->end && is_letter(*t->at))
        t->at++;
    return t->at - begin >= 3;
}

static bool number(struct text *t, int max, int *out)
{
    const char *begin = t->at;
    int value = 0;

    while (t->at < t->end && *t->at >= '0' && *t->at <= '9' && value <= max)
        value = value * 10 + (*t->at++ - '0');
    *out = value;
    return t->at > begin && value <= max;
}

/* [+-]h[h[h]][:mm[:ss]], in seconds. */
static bool hours(struct text *t, int32_t *out)
{
    bool negative = take(t, '-');
    int h, m = 0, s = 0;

    if (!negative)
        (void)take(t, '+');
    if (!number(t, HOURS_MAX, &h) ||
        (take(t, ':') && (!number(t, 59, &m) || (take(t, ':') && !number(t, 59, &s)))))
        return false;
    *out = h * HOUR_S + m * 60 + s;
    if (negative)
        *out = -*out;
    return true;
}

static bool turn(struct text *t, struct wr_zone_turn *out)
{
    bool ok;

    *out = (struct wr_zone_turn){.kind = WR_TURN_DAY, .time_s = 2 * HOUR_S};
    if (take(t, 'M')) {
        out->kind = WR_TURN_MONTH;
        ok = number(t, 12, &out->month) && out->month >= 1 && take(t, '.') &&
             number(t, 5, &out->week) && out->week >= 1 && take(t, '.') &&
             number(t, 6, &out->weekday);
    } else if (take(t, 'J')) {
        out->kind = WR_TURN_JULIAN;
        ok = number(t, 365, &out->day) && out->day >= 1;
    } else {
        ok = number(t, 365, &out->day);
    }
    return ok && (!take(t, '/') || hours(t, &out->time_s));
}

bool wr_zone_rule_parse(const char *text, size_t len, struct wr_zone_rule *out)
{
    struct text t = {text, text + len};
    int32_t west_s;

    *out = (struct wr_zone_rule){0};
    if (!skip_name(&t) || !hours(&t, &west_s) || west_s < -25 * HOUR_S || west_s > 25 * HOUR_S)
        return false;
    out->standard_s = -west_s; /* POSIX counts westwards */
    if (t.at == t.end)
        return true;
    out->has_summer = true;
    if (!skip_name(&t))
        return false;
    out->summer_s = out->standard_s + HOUR_S;
    if (t.at < t.end && *t.at != ',') {
        if (!hours(&t, &west_s) || west_s < -26 * HOUR_S || west_s > 26 * HOUR_S)
            return false;
        out->summer_s = -west_s;
    }
    return take(&t, ',') && turn(&t, &out->start) && take(&t, ',') && turn(&t, &out->end) &&
           t.at == t.end;
}

static bool is_leap(int year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* Days from 1970-01-01 to the first of January of |year|, 1..9999. */
static int64_t new_year(int year)
{
    int64_t before = year - 1;

    return 365 * before + before / 4 - before / 100 + before / 400 - 719162;
}

static int64_t day_of_month_rule(const struct wr_zone_turn *rule, int year)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int length = days[rule->month - 1] + (rule->month == 2 && is_leap(year));
    int64_t first = new_year(year), day;

    for (int m = 1; m < rule->month; m++)
        first += days[m - 1] + (m == 2 && is_leap(year));
    /* 1970-01-01 was a Thursday, 4. Week 5 is the last one. */
    day = (rule->weekday - (first + 4) % 7 + 7) % 7 + (int64_t)(rule->week - 1) * 7;
    return first + (day >= length ? day - 7 : day);
}

int64_t wr_zone_rule_turn_s(const struct wr_zone_rule *rule, int year, bool start)
{
    const struct wr_zone_turn *turn = start ? &rule->start : &rule->end;
    int64_t day;

    if (turn->kind == WR_TURN_MONTH)
        day = day_of_month_rule(turn, year);
    else if (turn->kind == WR_TURN_DAY)
        day = new_year(year) + turn->day;
    else /* the 60th is the first of March, always */
        day = new_year(year) + turn->day - 1 + (turn->day >= 60 && is_leap(year));
    return day * S_PER_DAY + turn->time_s - (start ? rule->standard_s : rule->summer_s);
}
