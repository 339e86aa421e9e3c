/* grpc.c - frames, deadlines, content types and messages of gRPC, by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"
#include "wire/grpc.h"

static struct weir_slice slice(const char *text)
{
    return (struct weir_slice){text, strlen(text)};
}

static void frames(void **state)
{
    uint8_t bytes[WR_GRPC_FRAME];
    struct wr_grpc_frame frame;

    (void)state;
    wr_grpc_frame_write(bytes, 0x27);
    assert_memory_equal(bytes, "\0\0\0\0\x27", 5);
    assert_true(wr_grpc_frame_read((const uint8_t *)"\1\xff\0\1\2", &frame));
    assert_true(frame.compressed);
    assert_int_equal(frame.len, 0xff000102);
    assert_false(wr_grpc_frame_read((const uint8_t *)"\2\0\0\0\0", &frame));
}

static void expect_timeout(const char *text, int64_t want)
{
    int64_t ns;

    assert_int_equal(wr_grpc_timeout(slice(text), &ns), want >= 0);
    if (want >= 0)
        assert_int_equal(ns, want);
}

static void timeouts(void **state)
{
    (void)state;
    expect_timeout("20m", 20 * WR_NS_PER_MS);
    expect_timeout("0n", 0);
    expect_timeout("1S", WR_NS_PER_S);
    expect_timeout("2M", 2 * WR_NS_PER_MINUTE);
    expect_timeout("1H", WR_NS_PER_HOUR);
    expect_timeout("15u", 15 * WR_NS_PER_US);
    expect_timeout("99999999n", 99999999);
    expect_timeout("99999999H", INT64_MAX);
    expect_timeout("123456789n", -1);
    expect_timeout("n", -1);
    expect_timeout("", -1);
    expect_timeout("5", -1);
    expect_timeout("5s", -1);
    expect_timeout("-5S", -1);
    expect_timeout("1.5S", -1);
}

static void content_types(void **state)
{
    (void)state;
    assert_true(wr_grpc_content_type(slice("application/grpc")));
    assert_true(wr_grpc_content_type(slice("application/grpc+proto")));
    assert_true(wr_grpc_content_type(slice("application/grpc;charset=utf-8")));
    assert_false(wr_grpc_content_type(slice("application/grpc-web")));
    assert_false(wr_grpc_content_type(slice("application/json")));
    assert_false(wr_grpc_content_type(slice("application/grp")));
}

static void expect_message(const char *text, size_t room, const char *want)
{
    char out[64];
    size_t len = wr_grpc_message(text, out, room);

    assert_int_equal(len, strlen(want));
    assert_memory_equal(out, want, len);
}

static void messages(void **state)
{
    (void)state;
    expect_message("no such method", 64, "no such method");
    expect_message("100% \xc3\xa9\n", 64, "100%25 %C3%A9%0A");
    expect_message("a%b", 3, "a"); /* never half a code */
    expect_message("", 64, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames),
        cmocka_unit_test(timeouts),
        cmocka_unit_test(content_types),
        cmocka_unit_test(messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
