/* bans.c - bans in words: ends, moments, ids. By hand. */
#include "doors/bans.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define S INT64_C(1000000000)
#define ARENA (1000 * S)
#define WALL (INT64_C(1767225600) * S) /* 2026-01-01T00:00:00Z */

static const struct wr_ban_clock clock_of_now = {ARENA, WALL};

static struct weir_slice slice(const char *text)
{
    return (struct weir_slice){text, text != NULL ? strlen(text) : 0};
}

static const char *end(const char *lasts, const char *until, int64_t *ns)
{
    return wr_ban_end(slice(lasts), slice(until), clock_of_now, ns);
}

static void test_ends(void **state)
{
    int64_t ns;
    (void)state;

    assert_null(end(NULL, NULL, &ns));
    assert_int_equal(ns, WEIR_BAN_FOREVER);
    assert_null(end("90s", NULL, &ns));
    assert_int_equal(ns, ARENA + 90 * S);
    assert_null(end(NULL, "2026-01-01T01:00:00Z", &ns));
    assert_int_equal(ns, ARENA + 3600 * S);
    assert_null(end(NULL, "2026-01-01T02:30:00+01:00", &ns));
    assert_int_equal(ns, ARENA + 5400 * S);
    assert_non_null(end("", NULL, &ns));
    assert_int_equal(ns, WEIR_BAN_FOREVER);
    assert_non_null(end("0s", NULL, &ns));
    assert_non_null(end("an hour", NULL, &ns));
    assert_non_null(end("99999999999w", NULL, &ns));
    assert_non_null(end(NULL, "tomorrow", &ns));
    assert_string_equal(end(NULL, "2026-01-01T00:00:00Z", &ns),
                        "expected a moment that is yet to come");
    assert_string_equal(end(NULL, "2025-12-31T23:59:59Z", &ns),
                        "expected a moment that is yet to come");
}

static void test_moments(void **state)
{
    char text[WR_LOGTIME_TEXT_MAX];
    (void)state;

    wr_ban_moment(ARENA + 3600 * S, clock_of_now, text);
    assert_string_equal(text, "2026-01-01T01:00:00Z");
    wr_ban_moment(ARENA - 1, clock_of_now, text); /* to the ms */
    assert_string_equal(text, "2026-01-01T00:00:00Z");
    wr_ban_moment(ARENA + 1500000, clock_of_now, text);
    assert_string_equal(text, "2026-01-01T00:00:00.002Z");
    wr_ban_moment(INT64_C(-9000000000000000000), (struct wr_ban_clock){0, 0}, text);
    assert_string_equal(text, "1970-01-01T00:00:00Z"); /* of a damaged file */
}

static void test_ids(void **state)
{
    char text[WR_BAN_ID_MAX];
    uint64_t id;
    (void)state;

    wr_ban_id_write(UINT64_C(0x0123456789abcdef), text);
    assert_string_equal(text, "0123456789abcdef");
    assert_true(wr_ban_id_read(slice(text), &id));
    assert_true(id == UINT64_C(0x0123456789abcdef));
    assert_false(wr_ban_id_read(slice("0123456789abcde"), &id));
    assert_false(wr_ban_id_read(slice("0123456789abcdeg"), &id));
    assert_false(wr_ban_id_read(slice("0123456789ABCDEF"), &id));
    assert_false(wr_ban_id_read(slice("0123456789abcdef0"), &id));
}

static void test_as_json(void **state)
{
    struct weir_banned ban = {.id = 10,
                              .since_ns = ARENA,
                              .until_ns = ARENA + S + 1,
                              .identity = "ip",
                              .value = "192.0.2.0/24",
                              .reason = "a \"reason\""};
    struct wr_page page = {.full = false};
    struct weir_slice text;
    (void)state;

    wr_put_ban(&page, &ban, clock_of_now);
    text = wr_page_text(&page);
    assert_int_equal(text.len, strlen("{\"id\":\"000000000000000a\",\"identity\":\"ip\",\"value\":"
                                      "\"192.0.2.0/24\",\"reason\":\"a \\\"reason\\\"\",\"since\":"
                                      "\"2026-01-01T00:00:00Z\",\"until\":\"2026-01-01T00:00:01Z\","
                                      "\"left_ms\":1001}"));
    wr_page_clear(&page);
    ban = (struct weir_banned){.id = 1, .since_ns = ARENA, .identity = "user"};
    wr_put_ban(&page, &ban, clock_of_now);
    text = wr_page_text(&page);
    assert_memory_equal(text.ptr,
                        "{\"id\":\"0000000000000001\",\"identity\":\"user\",\"value\":null,"
                        "\"reason\":\"\",\"since\":\"2026-01-01T00:00:00Z\",\"until\":null,"
                        "\"left_ms\":null}",
                        text.len);
    wr_page_free(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ends), cmocka_unit_test(test_moments),
                                       cmocka_unit_test(test_ids), cmocka_unit_test(test_as_json)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
