/* rls.c - messages of the rate limit service, as bytes worked out by hand (and once by protoc). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/rls.h"

static struct wr_rls_space space;
static struct wr_rate_request request;
static const char *why;

#define DECODE(text) \
    wr_rls_decode((const uint8_t *)(text), sizeof(text) - 1, &space, &request, &why)

static void expect_text(struct weir_slice have, const char *want)
{
    assert_int_equal(have.len, strlen(want));
    assert_memory_equal(have.ptr, want, have.len);
}

/* domain api, one descriptor remote_address=10.0.0.9, hits_addend 2. */
static void a_request(void **state)
{
    (void)state;
    assert_int_equal(DECODE("\x0a\x03"
                            "api"
                            "\x12\x20"
                            "\x0a\x1a"
                            "\x0a\x0e"
                            "remote_address"
                            "\x12\x08"
                            "10.0.0.9"
                            "\x1a\x02\x08\x02"),
                     0);
    expect_text(request.domain, "api");
    assert_int_equal(request.count, 1);
    assert_int_equal(request.hits, 0);
    assert_int_equal(request.descriptors[0].count, 1);
    expect_text(request.descriptors[0].entries[0].key, "remote_address");
    expect_text(request.descriptors[0].entries[0].value, "10.0.0.9");
    assert_true(request.descriptors[0].has_hits);
    assert_int_equal(request.descriptors[0].hits, 2);
    assert_false(request.descriptors[0].has_limit || request.descriptors[0].negative);
}

/* OVER_LIMIT, 5/MINUTE, reset in 41 s: 16 bytes. */
static void a_response(void **state)
{
    static struct wr_rate_response response = {
        .code = WR_RATE_OVER_LIMIT,
        .count = 1,
        .statuses = {{.code = WR_RATE_OVER_LIMIT,
                      .has_limit = true,
                      .units = 5,
                      .unit = WR_UNIT_MINUTE,
                      .reset_s = 41}},
    };
    uint8_t out[64];

    (void)state;
    assert_int_equal(wr_rls_encode(&response, out, sizeof out), 18 - 2);
    assert_memory_equal(out, "\x08\x02\x12\x0c\x08\x02\x12\x04\x08\x05\x10\x02\x22\x02\x08\x29",
                        16);
    assert_int_equal(wr_rls_encode(&response, out, 15), WEIR_EFULL);
}

static void every_field_of_a_response(void **state)
{
    static struct wr_rate_response response = {
        .code = WR_RATE_OK,
        .count = 2,
        .statuses = {{.code = WR_RATE_OK,
                      .has_limit = true,
                      .units = 300,
                      .unit = WR_UNIT_WEEK,
                      .name = {"n", 1},
                      .remaining = 299,
                      .reset_s = 1},
                     {.code = WR_RATE_OK, .remaining = UINT32_MAX}},
        .header_count = 1,
        .headers = {{{"k", 1}, {"vv", 2}}},
        .body = {"{}", 2},
    };
    uint8_t out[128];
    static const char want[] = "\x08\x01"
                               "\x12\x13\x08\x01\x12\x08\x08\xac\x02\x10\x07\x1a\x01n"
                               "\x18\xab\x02\x22\x02\x08\x01"
                               "\x12\x08\x08\x01\x18\xff\xff\xff\xff\x0f"
                               "\x1a\x07\x0a\x01k\x12\x02vv"
                               "\x2a\x02{}";

    (void)state;
    assert_int_equal(wr_rls_encode(&response, out, sizeof out), sizeof want - 1);
    assert_memory_equal(out, want, sizeof want - 1);
}

static void presence_and_overrides(void **state)
{
    (void)state;
    /* limit {10 per HOUR}, hits_addend present and 0, is_negative_hits */
    assert_int_equal(DECODE("\x12\x10"
                            "\x0a\x04\x0a\x02"
                            "ab"
                            "\x12\x04\x08\x0a\x10\x03"
                            "\x1a\x00"
                            "\x20\x01"),
                     0);
    assert_true(request.descriptors[0].has_limit && request.descriptors[0].has_hits &&
                request.descriptors[0].negative);
    assert_int_equal(request.descriptors[0].limit_units, 10);
    assert_int_equal(request.descriptors[0].limit_unit, WR_UNIT_HOUR);
    assert_int_equal(request.descriptors[0].hits, 0);
    expect_text(request.descriptors[0].entries[0].value, "");
    expect_text(request.domain, "");
    /* A week is not a unit of overrides (7), nor is UNKNOWN (0), nor -1. */
    assert_int_equal(DECODE("\x12\x06\x12\x04\x08\x0a\x10\x07"), WEIR_EINVAL);
    assert_int_equal(DECODE("\x12\x04\x12\x02\x08\x0a"), WEIR_EINVAL);
    assert_int_equal(DECODE("\x12\x0d\x12\x0b\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
                     WEIR_EINVAL);
    assert_string_equal(why, "a limit override has no unit of time");
}

static void as_protobuf_demands(void **state)
{
    (void)state;
    assert_int_equal(DECODE(""), 0);
    assert_int_equal(request.count, 0);
    /* The last scalar wins; unknown fields of wire types 0, 1, 2 and 5 are skipped. */
    assert_int_equal(DECODE("\x18\x05\x0a\x01"
                            "a\x18\x07\x0a\x01"
                            "b"
                            "\x50\x01"
                            "\x51"
                            "12345678"
                            "\x52\x02"
                            "xx"
                            "\x55"
                            "1234"),
                     0);
    assert_int_equal(request.hits, 7);
    expect_text(request.domain, "b");
    /* A repeated singular message is merged: 10 from the first, MINUTE from the second. */
    assert_int_equal(DECODE("\x12\x08\x12\x02\x08\x0a\x12\x02\x10\x02"), 0);
    assert_int_equal(request.descriptors[0].limit_units, 10);
    assert_int_equal(request.descriptors[0].limit_unit, WR_UNIT_MINUTE);
}

static void what_is_no_message(void **state)
{
    (void)state;
    assert_int_equal(DECODE("\x0a"), WEIR_EINVAL); /* no length */
    assert_int_equal(DECODE("\x0a\x05"
                            "api"),
                     WEIR_EINVAL);                     /* cut */
    assert_int_equal(DECODE("\x18"), WEIR_EINVAL);     /* no value */
    assert_int_equal(DECODE("\x18\x80"), WEIR_EINVAL); /* a varint that goes on */
    assert_int_equal(DECODE("\x18\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"), WEIR_EINVAL);
    assert_int_equal(DECODE("\x53\x54"), WEIR_EINVAL);  /* a group */
    assert_int_equal(DECODE("\x02\x01x"), WEIR_EINVAL); /* field 0 */
    assert_int_equal(DECODE("\x12\x03\x02\x01x"), WEIR_EINVAL);
    assert_int_equal(DECODE("\x12\x05\x0a\x03\x02\x01x"), WEIR_EINVAL);
    assert_int_equal(DECODE("\x57\x00"), WEIR_EINVAL);         /* wire type 7 */
    assert_int_equal(DECODE("\x82\x00\x01x"), WEIR_EINVAL);    /* field 0, in two bytes */
    assert_int_equal(DECODE("\x12\x02\x22\x00"), WEIR_EINVAL); /* a bool in bytes */
    assert_int_equal(DECODE("\x1a\x01\x05"), WEIR_EINVAL);     /* a packed number */
    assert_int_equal(DECODE("\x0a\xff\xff\xff\xff\x0f"
                            "a"),
                     WEIR_EINVAL);
    assert_int_equal(DECODE("\x12\x04\x0a\x02\x12\x00"), WEIR_EINVAL); /* an empty key */
    assert_string_equal(why, "a descriptor entry has an empty key");
}

static void text_is_utf8(void **state)
{
    static const struct {
        const char *text;
        bool valid;
    } cases[] = {
        {"", true},
        {"plain", true},
        {"\xc3\xa9", true},
        {"\xe2\x82\xac", true},
        {"\xf0\x9f\x98\x80", true},
        {"\xf4\x8f\xbf\xbf", true},
        {"\xed\x9f\xbf", true},
        {"\x80", false},
        {"\xc3", false},
        {"\xc0\x80", false},
        {"\xc1\xbf", false},
        {"\xe0\x80\x80", false},
        {"\xed\xa0\x80", false},
        {"\xf0\x80\x80\x80", false},
        {"\xf4\x90\x80\x80", false},
        {"\xf5\x80\x80\x80", false},
        {"\xff", false},
        {"\xe2\x82", false},
        {"\xe2\x28\xa1", false},
        {"a\xe2\x82", false},
        {"eight by\xc3\xa9", true},
        {"eight by\xc3", false},
        {"\xe2\x82\xac and more of it", true},
        {"seven b\xe2\x82\xac", true},
        {"seven b\x80 eight by", false},
        {"sixteen bytes he\xff", false},
        {"sixteen bytes he\xff more of it", false},
        {"more than eight", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct weir_slice text = {cases[i].text, strlen(cases[i].text)};
        assert_int_equal(wr_utf8_valid(text), cases[i].valid);
    }
    assert_int_equal(DECODE("\x0a\x01\x80"), WEIR_EINVAL);
    assert_string_equal(why, "the domain is not UTF-8");
    assert_int_equal(DECODE("\x12\x08\x0a\x06\x0a\x01"
                            "a\x12\x01\xff"),
                     WEIR_EINVAL);
    /* A NUL is a character; it does not end the text. */
    assert_int_equal(DECODE("\x0a\x03"
                            "a\0b"),
                     0);
    assert_int_equal(request.domain.len, 3);
}

static void bounds(void **state)
{
    uint8_t bytes[4096];
    size_t n = 0;

    (void)state;
    for (int i = 0; i < WR_DESCRIPTORS_MAX; i++, n += 2)
        memcpy(bytes + n, "\x12\x00", 2);
    assert_int_equal(wr_rls_decode(bytes, n, &space, &request, &why), 0);
    assert_int_equal(request.count, WR_DESCRIPTORS_MAX);
    memcpy(bytes + n, "\x12\x00", 2);
    assert_int_equal(wr_rls_decode(bytes, n + 2, &space, &request, &why), WEIR_EFULL);
    assert_string_equal(why, "the request has more than 64 descriptors");
    assert_int_equal(request.count, 0);
    for (n = 0; n + 2 <= sizeof bytes; n += 2) /* 2048 of them, and what is no message behind */
        memcpy(bytes + n, "\x12\x00", 2);
    assert_int_equal(wr_rls_decode(bytes, n, &space, &request, &why), WEIR_EFULL);
    assert_string_equal(why, "the request has more than 64 descriptors");
    bytes[n - 1] = 1;
    assert_int_equal(wr_rls_decode(bytes, n, &space, &request, &why), WEIR_EINVAL);
    /* 17 entries in one descriptor: 17 * 5 = 85 bytes */
    bytes[0] = 0x12;
    bytes[1] = 17 * 5;
    for (n = 2; n < 2 + 17 * 5; n += 5)
        memcpy(bytes + n, "\x0a\x03\x0a\x01k", 5);
    assert_int_equal(wr_rls_decode(bytes, n, &space, &request, &why), WEIR_EFULL);
    assert_string_equal(why, "a descriptor has more than 16 entries");
    bytes[1] = 16 * 5;
    assert_int_equal(wr_rls_decode(bytes, 2 + 16 * 5, &space, &request, &why), 0);
}

static void health(void **state)
{
    struct weir_slice service;
    uint8_t out[WR_HEALTH_BYTES];

    (void)state;
    assert_int_equal(wr_health_decode((const uint8_t *)"\x0a\x02hi", 4, &service), 0);
    expect_text(service, "hi");
    assert_int_equal(wr_health_decode((const uint8_t *)"", 0, &service), 0);
    assert_int_equal(service.len, 0);
    assert_int_equal(wr_health_decode((const uint8_t *)"\x0a\x02h", 3, &service), WEIR_EINVAL);
    wr_health_encode(WR_HEALTH_NOT_SERVING, out);
    assert_memory_equal(out, "\x08\x02", 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request),
        cmocka_unit_test(a_response),
        cmocka_unit_test(every_field_of_a_response),
        cmocka_unit_test(presence_and_overrides),
        cmocka_unit_test(as_protobuf_demands),
        cmocka_unit_test(what_is_no_message),
        cmocka_unit_test(text_is_utf8),
        cmocka_unit_test(bounds),
        cmocka_unit_test(health),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
