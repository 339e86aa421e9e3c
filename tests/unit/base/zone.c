/* zone.c - files of zones, made by hand; rules; days that begin late, twice or not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/zone_changes.h"

#define HOUR 3600
#define DAY_S INT64_C(86400)

/* ---- a file ---------------------------------------------------------------------------------- */

struct file {
    unsigned char bytes[4096];
    size_t len;
};

static void put(struct file *f, const void *bytes, size_t len)
{
    memcpy(f->bytes + f->len, bytes, len);
    f->len += len;
}

static void put_be(struct file *f, uint64_t value, unsigned bytes)
{
    while (bytes-- > 0) {
        unsigned char byte = (unsigned char)(value >> (8 * bytes));
        put(f, &byte, 1);
    }
}

static void put_header(struct file *f, char version, uint32_t times, uint32_t types)
{
    const char reserved[15] = {0};

    put(f, "TZif", 4);
    put(f, &version, 1);
    put(f, reserved, sizeof reserved);
    for (int i = 0; i < 3; i++)
        put_be(f, 0, 4);
    put_be(f, times, 4);
    put_be(f, types, 4);
    put_be(f, 4, 4);
}

static void put_type(struct file *f, int32_t offset_s)
{
    put_be(f, (uint32_t)offset_s, 4);
    put_be(f, 0, 2);
}

/* Two types, |offsets|; changes at |at| to type 1, 0, 1, ...; then |rule|. */
static struct file file_of(const int32_t offsets[2], const int64_t *at, uint32_t count,
                           const char *rule)
{
    struct file f = {.len = 0};

    put_header(&f, '2', 0, 1);
    put_type(&f, 0);
    put(&f, "LMT", 4);
    put_header(&f, '2', count, 2);
    for (uint32_t i = 0; i < count; i++)
        put_be(&f, (uint64_t)at[i], 8);
    for (uint32_t i = 0; i < count; i++)
        put_be(&f, (i + 1) % 2, 1);
    put_type(&f, offsets[0]);
    put_type(&f, offsets[1]);
    put(&f, "LMT", 4);
    put(&f, "\n", 1);
    put(&f, rule, strlen(rule));
    put(&f, "\n", 1);
    return f;
}

static struct wr_zone *zone_of(const struct file *f)
{
    const char *why;
    struct wr_zone *zone = wr_zone_parse(f->bytes, f->len, &why);

    if (zone == NULL)
        fail_msg("%s", why);
    return zone;
}

static void changes_of_a_file(void **state)
{
    const int32_t offsets[] = {2 * HOUR, 3 * HOUR};
    const int64_t at[] = {1000000, 2000000};
    struct file f = file_of(offsets, at, 2, "XXX-2");
    struct wr_zone *zone = zone_of(&f);
    (void)state;

    assert_int_equal(wr_zone_offset_s(zone, -5), 2 * HOUR);
    assert_int_equal(wr_zone_offset_s(zone, 999999), 2 * HOUR);
    assert_int_equal(wr_zone_offset_s(zone, 1000000), 3 * HOUR);
    assert_int_equal(wr_zone_offset_s(zone, 1999999), 3 * HOUR);
    assert_int_equal(wr_zone_offset_s(zone, 2000000), 2 * HOUR);
    assert_int_equal(wr_zone_offset_s(zone, INT64_C(7000000000)), 2 * HOUR);
    wr_zone_free(zone);
}

/* 2024: summer time from March 10 02:00 to November 3 02:00 local, days 19792 and 20030. */
static void a_rule_for_the_years_to_come(void **state)
{
    const int32_t offsets[] = {-5 * HOUR, -4 * HOUR};
    struct file f = file_of(offsets, NULL, 0, "EST5EDT,M3.2.0,M11.1.0");
    struct wr_zone *zone = zone_of(&f);
    (void)state;

    assert_int_equal(wr_zone_offset_s(zone, 19792 * DAY_S + 7 * HOUR - 1), -5 * HOUR);
    assert_int_equal(wr_zone_offset_s(zone, 19792 * DAY_S + 7 * HOUR), -4 * HOUR);
    assert_int_equal(wr_zone_offset_s(zone, 20030 * DAY_S + 6 * HOUR - 1), -4 * HOUR);
    assert_int_equal(wr_zone_offset_s(zone, 20030 * DAY_S + 6 * HOUR), -5 * HOUR);
    /* 2150-07-01 is day 65926. */
    assert_int_equal(wr_zone_offset_s(zone, 65926 * DAY_S), -4 * HOUR);
    wr_zone_free(zone);
}

/* Day 100 begins at 00:00 local; local time is 2 h ahead, then 3. */
static void where_days_begin(void **state)
{
    const int32_t offsets[] = {2 * HOUR, 3 * HOUR};
    const int64_t midnight = 100 * DAY_S - 2 * HOUR;
    static const struct {
        int64_t change, start; /* seconds from that midnight */
    } cases[] = {
        {-HOUR, -HOUR},         /* 23:00 -> 00:00: the day begins with the change */
        {-HOUR / 2, -HOUR / 2}, /* 23:30 -> 00:30: and without its first half hour */
        {0, 0},                 /* 00:00 -> 01:00 */
        {1, 0},
        {-2 * HOUR, -HOUR}, /* 22:00 -> 23:00: an hour before what would have been */
    };
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t at = midnight + cases[i].change;
        struct file f = file_of(offsets, &at, 1, "XXX-3");
        struct wr_zone *zone = zone_of(&f);
        assert_int_equal(wr_zone_day_start_s(zone, 100), midnight + cases[i].start);
        wr_zone_free(zone);
    }
}

/* 00:30 -> 23:30: day 100 begins twice, and the first time counts. */
static void a_midnight_that_comes_twice(void **state)
{
    const int32_t offsets[] = {3 * HOUR, 2 * HOUR};
    const int64_t at = 100 * DAY_S - 3 * HOUR + HOUR / 2;
    struct file f = file_of(offsets, &at, 1, "XXX-2");
    struct wr_zone *zone = zone_of(&f);
    (void)state;

    assert_int_equal(wr_zone_day_start_s(zone, 100), 100 * DAY_S - 3 * HOUR);
    assert_int_equal(wr_zone_day_start_s(zone, 101), 101 * DAY_S - 2 * HOUR);
    wr_zone_free(zone);
}

/* As in Samoa at the end of 2011: from 24:00 of day 99 at -10 h on, it is day 101 at +14 h. */
static void a_day_that_is_skipped(void **state)
{
    const int32_t offsets[] = {-10 * HOUR, 14 * HOUR};
    const int64_t at = 100 * DAY_S + 10 * HOUR;
    struct file f = file_of(offsets, &at, 1, "XXX-14");
    struct wr_zone *zone = zone_of(&f);
    (void)state;

    assert_int_equal(wr_zone_day_start_s(zone, 99), 99 * DAY_S + 10 * HOUR);
    assert_int_equal(wr_zone_day_start_s(zone, 100), at);
    assert_int_equal(wr_zone_day_start_s(zone, 101), at);
    assert_int_equal(wr_zone_day_start_s(zone, 102), at + DAY_S);
    wr_zone_free(zone);
}

/* ---- rules ----------------------------------------------------------------------------------- */

static struct wr_zone_rule rule_of(const char *text)
{
    struct wr_zone_rule rule;

    if (!wr_zone_rule_parse(text, strlen(text), &rule))
        fail_msg("%s", text);
    return rule;
}

static void turns(void **state)
{
    struct wr_zone_rule rule = rule_of("<-02>2<-01>,M3.5.0/-1,M10.5.0/0"); /* Nuuk */
    (void)state;

    /* 2024-03-31 is day 19813; an hour before its 00:00 at -2 h, 01:00 UTC. */
    assert_int_equal(wr_zone_rule_turn_s(&rule, 2024, true), 19813 * DAY_S + HOUR);
    /* 2024-10-27, day 20023, 00:00 at -1 h. */
    assert_int_equal(wr_zone_rule_turn_s(&rule, 2024, false), 20023 * DAY_S + HOUR);
    rule = rule_of("AAA0BBB,J60/0,59/0");
    /* J60 is March 1 always: 19783 in 2024, 20148 in 2025. 59 counts from 0: February 29, March 1.
     */
    assert_int_equal(wr_zone_rule_turn_s(&rule, 2024, true), 19783 * DAY_S);
    assert_int_equal(wr_zone_rule_turn_s(&rule, 2025, true), 20148 * DAY_S);
    assert_int_equal(wr_zone_rule_turn_s(&rule, 2024, false), 19782 * DAY_S - HOUR);
    assert_int_equal(wr_zone_rule_turn_s(&rule, 2025, false), 20148 * DAY_S - HOUR);
}

static void what_is_no_rule(void **state)
{
    static const char *const bad[] = {
        "",
        "AB3",
        "ABC",
        "ABC26",
        "<AB3",
        "<>3",
        "ABC3DEF",
        "ABC3DEF,M3.2.0",
        "ABC3DEF,M0.1.0,M10.1.0",
        "ABC3DEF,M13.1.0,M1.1.1",
        "ABC3DEF,M3.6.0,M10.1.0",
        "ABC3DEF,M3.0.0,M10.1.0",
        "ABC3DEF,M3.1.7,M10.1.0",
        "ABC3DEF,J0,J3",
        "ABC3DEF,366,3",
        "ABC3DEF,1/168,3",
        "ABC3DEF,1,3 ",
        "ABC3:60",
        "ABC3DEF,M3.2.0,M11.1.0,",
        "ABC99999999999999999999",
    };
    struct wr_zone_rule rule;
    (void)state;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (wr_zone_rule_parse(bad[i], strlen(bad[i]), &rule))
            fail_msg("\"%s\" was taken for a rule", bad[i]);
}

/* ---- bad files ------------------------------------------------------------------------------- */

static void expect_none(const struct file *f)
{
    const char *why = NULL;

    assert_null(wr_zone_parse(f->bytes, f->len, &why));
    assert_non_null(why);
}

static void damaged_files(void **state)
{
    const int32_t offsets[] = {2 * HOUR, 3 * HOUR}, far[] = {0, 27 * HOUR};
    const int64_t at[] = {1000000, 2000000}, back[] = {2000000, 1000000};
    struct file good = file_of(offsets, at, 2, "XXX-2"), f;
    (void)state;

    for (size_t len = 0; len < good.len; len++) { /* cut anywhere */
        f = good;
        f.len = len;
        expect_none(&f);
    }
    f = file_of(offsets, back, 2, "XXX-2");
    expect_none(&f);
    f = file_of(far, at, 1, "XXX0");
    expect_none(&f);
    f = file_of(offsets, at, 2, "nonsense");
    expect_none(&f);
    f = file_of(offsets, at, 2, "XXX-3"); /* the last change was to +2 */
    expect_none(&f);
    for (size_t i = 0; i < good.len * 8; i++) { /* one bit: whatever comes of it, no crash */
        const char *why;
        f = good;
        f.bytes[i / 8] ^= (unsigned char)(1U << i % 8);
        wr_zone_free(wr_zone_parse(f.bytes, f.len, &why));
    }
}

/* ---- names ----------------------------------------------------------------------------------- */

static void zones_by_name(void **state)
{
    const struct wr_zone *istanbul, *utc;
    char why[100];
    (void)state;

    utc = wr_zone_find("UTC", why, sizeof why);
    assert_int_equal(wr_zone_id(utc), WR_ZONE_UTC);
    assert_int_equal(wr_zone_offset_s(utc, 1234567890), 0);
    assert_int_equal(wr_zone_day_start_s(utc, 19676), 19676 * DAY_S);
    istanbul = wr_zone_find("Europe/Istanbul", why, sizeof why);
    assert_non_null(istanbul);
    assert_string_equal(wr_zone_name(istanbul), "Europe/Istanbul");
    assert_ptr_equal(wr_zone_find("Europe/Istanbul", why, sizeof why), istanbul);
    assert_ptr_equal(wr_zone_by_id(wr_zone_id(istanbul)), istanbul);
    assert_ptr_equal(wr_zone_by_id(12345), utc);
    /* Until September 2016 +2 h in winter; since then +3 h all the year. */
    assert_int_equal(wr_zone_offset_s(istanbul, 16801 * DAY_S), 2 * HOUR); /* 2016-01-01 */
    assert_int_equal(wr_zone_offset_s(istanbul, 19723 * DAY_S), 3 * HOUR); /* 2024-01-01 */
}

static void names_that_are_none(void **state)
{
    static const char *const bad[] = {
        "",       "Europe/Istambul", "/etc/passwd", "../../etc/passwd",
        "Europe", "Europe/../UTC",   "a\nb",        "tzdata.zi"};
    char why[100];
    (void)state;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        why[0] = '\0';
        assert_null(wr_zone_find(bad[i], why, sizeof why));
        assert_true(strlen(why) > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_of_a_file),     cmocka_unit_test(a_rule_for_the_years_to_come),
        cmocka_unit_test(where_days_begin),      cmocka_unit_test(a_midnight_that_comes_twice),
        cmocka_unit_test(a_day_that_is_skipped), cmocka_unit_test(turns),
        cmocka_unit_test(what_is_no_rule),       cmocka_unit_test(damaged_files),
        cmocka_unit_test(zones_by_name),         cmocka_unit_test(names_that_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
