/* Messages of a ring: there and back, and what is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/ring.h"

static char bytes[WR_RING_ASK_BYTES + WR_RING_ITEM_BYTES];

static struct weir_slice slice(const char *text)
{
    return (struct weir_slice){text, strlen(text)};
}

static struct wr_ring_key key_of(const char *name, unsigned char tag)
{
    struct wr_ring_key key = {.name = slice(name)};

    memset(key.tag, tag, sizeof key.tag);
    memset(key.limit, 0xab, sizeof key.limit);
    return key;
}

static struct wr_ring_ask ask_of(unsigned count)
{
    struct wr_ring_ask ask = {.op = WR_RING_TAKE, .nodes = 3, .count = count};

    for (unsigned i = 0; i < count; i++)
        ask.charge[i] = (struct wr_ring_charge){
            key_of("per-key", (unsigned char)i), 1, 20, 300, {UINT64_MAX, 4}, i == 1};
    return ask;
}

static void asks_come_back(void **state)
{
    struct wr_ring_ask ask = ask_of(WEIR_LIMITS_MAX), back;
    size_t len = wr_ring_ask_write(bytes, sizeof bytes, &ask);

    (void)state;
    assert_true(len > 0 && len <= WR_RING_ASK_BYTES);
    assert_true(wr_ring_ask_read((struct weir_slice){bytes, len}, &back));
    assert_true(back.op == WR_RING_TAKE && back.nodes == 3 && back.count == WEIR_LIMITS_MAX);
    assert_int_equal(back.charge[2].key.name.len, 7);
    assert_memory_equal(back.charge[2].key.name.ptr, "per-key", 7);
    assert_int_equal(back.charge[2].key.tag[15], 2);
    assert_int_equal(back.charge[2].key.limit[63], 0xab);
    assert_true(back.charge[2].cost == 1 && back.charge[2].extra == 20);
    assert_true(back.charge[2].ttl_ns == 300 && back.charge[2].receipt[0] == UINT64_MAX);
    assert_true(!back.charge[0].shadow && back.charge[1].shadow);
    for (size_t cut = 0; cut < len; cut++)
        assert_false(wr_ring_ask_read((struct weir_slice){bytes, cut}, &back));
    assert_false(wr_ring_ask_read((struct weir_slice){bytes, len + 1}, &back));
    for (size_t size = 0; size < len; size++)
        assert_int_equal(wr_ring_ask_write(bytes, size, &ask), 0);
}

static void what_is_out_of_range_is_not_written(void **state)
{
    struct wr_ring_ask ask = ask_of(1);
    const char long_name[] = "0123456789012345678901234567890123456789012345678901234567890123x";

    (void)state;
    ask.count = 0;
    assert_int_equal(wr_ring_ask_write(bytes, sizeof bytes, &ask), 0);
    ask = ask_of(1);
    ask.charge[0].cost = -1;
    assert_int_equal(wr_ring_ask_write(bytes, sizeof bytes, &ask), 0);
    ask = ask_of(1);
    ask.charge[0].key.name = slice(long_name);
    assert_int_equal(wr_ring_ask_write(bytes, sizeof bytes, &ask), 0);
    ask.charge[0].key.name.len = 0;
    assert_int_equal(wr_ring_ask_write(bytes, sizeof bytes, &ask), 0);
}

/* Byte 0: version; 1: op; 5: count; 6: shadow; 7: length of the name. */
static void what_makes_no_sense_is_no_ask(void **state)
{
    static const struct {
        size_t at;
        char value;
    } wrong[] = {{0, 2}, {1, WR_RING_OPS}, {2, 2},  {5, 0}, {5, 17},
                 {6, 2}, {7, 0},           {7, 65}, {8, 0}};
    struct wr_ring_ask ask = ask_of(1), back;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        size_t len = wr_ring_ask_write(bytes, sizeof bytes, &ask);
        bytes[wrong[i].at] = wrong[i].value;
        assert_false(wr_ring_ask_read((struct weir_slice){bytes, len}, &back));
    }
}

static void answers_come_back(void **state)
{
    struct wr_ring_answer answer = {.passed = true, .count = 2}, back;
    size_t len;

    (void)state;
    answer.verdict[0] = (struct wr_ring_verdict){true, false, 1, 2, 3, 0, 5, 6, 7, {8, 9}};
    answer.verdict[1] = (struct wr_ring_verdict){false, true, 0, 0, 0, 0, 0, 0, 0, {0, 0}};
    len = wr_ring_answer_write(bytes, sizeof bytes, &answer);
    assert_int_equal(len, 3 + 2 * 73);
    assert_true(wr_ring_answer_read((struct weir_slice){bytes, len}, &back));
    assert_true(back.passed && back.count == 2 && back.verdict[1].never);
    assert_true(back.verdict[0].allowed && !back.verdict[1].allowed);
    assert_true(back.verdict[0].remaining == 3 && back.verdict[0].reset_ns == 7);
    assert_true(back.verdict[0].receipt[1] == 9);
    bytes[3] = 3; /* allowed, and never */
    assert_false(wr_ring_answer_read((struct weir_slice){bytes, len}, &back));
}

static void hellos_come_back(void **state)
{
    const struct wr_ring_hello hello = {WR_RING_LEAVING, 77, slice("10.0.0.1:7946")};
    struct wr_ring_hello back;
    size_t len = wr_ring_hello_write(bytes, sizeof bytes, &hello);

    (void)state;
    assert_int_equal(len, 11 + 13);
    assert_true(wr_ring_hello_read((struct weir_slice){bytes, len}, &back));
    assert_true(back.status == WR_RING_LEAVING && back.incarnation == 77 && back.id.len == 13);
    bytes[1] = WR_RING_STATUSES;
    assert_false(wr_ring_hello_read((struct weir_slice){bytes, len}, &back));
}

static void items_follow_each_other(void **state)
{
    static struct wr_ring_item item, back;
    struct weir_slice rest;
    size_t first, len;

    (void)state;
    item = (struct wr_ring_item){
        .key = key_of("log", 1), .now_ns = 100, .word = 0, .stamps = 3, .stamp = {97, 98, 98}};
    first = wr_ring_item_write(bytes, sizeof bytes, &item);
    item = (struct wr_ring_item){.key = key_of("word", 2), .now_ns = 100, .word = UINT64_MAX};
    len = first + wr_ring_item_write(bytes + first, sizeof bytes - first, &item);
    rest = (struct weir_slice){bytes, len};
    assert_true(wr_ring_item_read(&rest, &back));
    assert_true(back.stamps == 3 && back.stamp[2] == 98 && rest.len == len - first);
    assert_true(wr_ring_item_read(&rest, &back));
    assert_true(back.word == UINT64_MAX && back.stamps == 0 && rest.len == 0);
    bytes[first - 8] = 90; /* the last stamp is before the second */
    rest = (struct weir_slice){bytes, len};
    assert_false(wr_ring_item_read(&rest, &back));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asks_come_back),
        cmocka_unit_test(what_is_out_of_range_is_not_written),
        cmocka_unit_test(what_makes_no_sense_is_no_ask),
        cmocka_unit_test(answers_come_back),
        cmocka_unit_test(hellos_come_back),
        cmocka_unit_test(items_follow_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
