/* The meta protocol of memcached, by hand from its protocol.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/memcached.h"

static char bytes[2048];
static struct wr_mc_out out;
static struct wr_mc_reply reply;

static struct weir_slice text(const char *value)
{
    return (struct weir_slice){value, strlen(value)};
}

static void fresh(size_t size)
{
    out = (struct wr_mc_out){.bytes = bytes, .size = size};
}

static void must_say(const char *expected)
{
    assert_false(out.full);
    assert_int_equal(out.len, strlen(expected));
    assert_memory_equal(out.bytes, expected, out.len);
}

static void commands(void **state)
{
    (void)state;
    fresh(sizeof bytes);
    wr_mc_get(&out, text("weir:a:per-key"));
    must_say("mg weir:a:per-key v c\r\n");
    fresh(sizeof bytes);
    wr_mc_subtract(&out, text("k"), 7);
    must_say("ma k MD D7 v\r\n");
    fresh(sizeof bytes);
    wr_mc_set(&out, text("k"), text("w1 1"), 0, (struct wr_mc_ttl){60, 1000});
    must_say("ms k 4 T60 ME\r\nw1 1\r\n");
    fresh(sizeof bytes);
    wr_mc_set(&out, text("k"), text("w1 1"), 19, (struct wr_mc_ttl){60, 1000});
    must_say("ms k 4 T60 C19\r\nw1 1\r\n");
    fresh(sizeof bytes);
    wr_mc_delete(&out, text("k"));
    wr_mc_noop(&out);
    must_say("md k\r\nmn\r\n");
}

/* protocol.txt: more than 60*60*24*30 seconds is taken for a moment since 1970. */
static void a_month_is_told_as_a_moment(void **state)
{
    (void)state;
    fresh(sizeof bytes);
    wr_mc_add(&out, text("k"), 3, (struct wr_mc_ttl){2592000, 1000000000});
    must_say("ma k N2592000 J3 D3 v\r\n");
    fresh(sizeof bytes);
    wr_mc_add(&out, text("k"), 3, (struct wr_mc_ttl){2592001, 1000000000});
    must_say("ma k N1002592001 J3 D3 v\r\n");
    fresh(sizeof bytes); /* and it reads moments as 32 bits */
    wr_mc_add(&out, text("k"), 3, (struct wr_mc_ttl){1147483648, 1000000000});
    must_say("ma k N2147483647 J3 D3 v\r\n");
}

static void what_does_not_fit_is_left_out(void **state)
{
    (void)state;
    fresh(10);
    wr_mc_get(&out, text("0123456789"));
    assert_true(out.full);
    assert_int_equal(out.len, 0);
}

static enum wr_mc_step parse(const char *line)
{
    return wr_mc_parse(line, strlen(line), &reply);
}

static void replies(void **state)
{
    (void)state;
    assert_int_equal(parse("HD\r\n"), WR_MC_STORED);
    assert_int_equal(reply.consumed, 4);
    assert_int_equal(parse("EN\r\nHD\r\n"), WR_MC_MISS);
    assert_int_equal(reply.consumed, 4);
    assert_int_equal(parse("NF\r\n"), WR_MC_NOT_FOUND);
    assert_int_equal(parse("NS\r\n"), WR_MC_NOT_STORED);
    assert_int_equal(parse("EX c12\r\n"), WR_MC_EXISTS);
    assert_int_equal(reply.cas, 12);
    assert_int_equal(parse("MN\r\n"), WR_MC_NOOP);
    assert_int_equal(parse("VA 2 c77 t59\r\n42\r\n"), WR_MC_VALUE);
    assert_int_equal(reply.cas, 77);
    assert_int_equal(reply.value.len, 2);
    assert_memory_equal(reply.value.ptr, "42", 2);
    assert_int_equal(reply.consumed, 18);
    assert_int_equal(parse("SERVER_ERROR out of memory storing object\r\n"), WR_MC_REFUSED);
    assert_int_equal(reply.value.len, 41);
    assert_int_equal(parse("CLIENT_ERROR bad data chunk\r\n"), WR_MC_REFUSED);
    assert_int_equal(parse("ERROR\r\n"), WR_MC_REFUSED);
}

static void in_pieces(void **state)
{
    static const char whole[] = "VA 3 c5\r\n100\r\n";

    (void)state;
    for (size_t len = 0; len < sizeof whole - 1; len++)
        assert_int_equal(wr_mc_parse(whole, len, &reply), WR_MC_MORE);
    assert_int_equal(parse(whole), WR_MC_VALUE);
}

static void nonsense(void **state)
{
    char line[600];

    (void)state;
    assert_int_equal(parse("\r\n"), WR_MC_BAD);
    assert_int_equal(parse("HD\n"), WR_MC_BAD);
    assert_int_equal(parse("-NOAUTH x\r\n"), WR_MC_BAD);
    assert_int_equal(parse("VA 1025 c5\r\n"), WR_MC_BAD); /* longer than anything of ours */
    assert_int_equal(parse("VA x c5\r\n"), WR_MC_BAD);
    assert_int_equal(parse("VA 1 cx\r\n1\r\n"), WR_MC_BAD);
    assert_int_equal(parse("VA 1 c5\r\n12\r\n"), WR_MC_BAD);
    assert_int_equal(parse("VA 18446744073709551616 c5\r\n"), WR_MC_BAD);
    memset(line, 'x', sizeof line);
    assert_int_equal(wr_mc_parse(line, 511, &reply), WR_MC_MORE);
    assert_int_equal(wr_mc_parse(line, sizeof line, &reply), WR_MC_BAD);
}

static void numbers(void **state)
{
    uint64_t value;

    (void)state;
    assert_true(wr_mc_number(text("18446744073709551615"), &value));
    assert_true(value == UINT64_MAX);
    assert_true(wr_mc_number(text("9 "), &value)); /* was 10, less one */
    assert_int_equal(value, 9);
    assert_false(wr_mc_number(text("18446744073709551616"), &value));
    assert_false(wr_mc_number(text(""), &value));
    assert_false(wr_mc_number(text(" "), &value));
    assert_false(wr_mc_number(text("-1"), &value));
    assert_false(wr_mc_number(text("1 2"), &value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands),
        cmocka_unit_test(a_month_is_told_as_a_moment),
        cmocka_unit_test(what_does_not_fit_is_left_out),
        cmocka_unit_test(replies),
        cmocka_unit_test(in_pieces),
        cmocka_unit_test(nonsense),
        cmocka_unit_test(numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
