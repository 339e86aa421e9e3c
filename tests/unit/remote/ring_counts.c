/* ring_counts.c - counters of nodes that come and go, in steps worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "remote/ring_counts.h"

static struct wr_backend_peer peers[WR_BACKEND_PEERS_MAX];

static int set_up(void **state)
{
    *state = wr_ring_counts_new();
    return *state == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    wr_ring_counts_free(*state);
    return 0;
}

static size_t look(struct wr_ring_counts *counts)
{
    return wr_ring_counts_read(counts, peers, WR_BACKEND_PEERS_MAX);
}

static void test_each_counter_in_its_place(void **state)
{
    struct wr_ring_counts *counts = *state;
    struct wr_ring_count *a = wr_ring_counts_join(counts, "a:1");
    struct wr_ring_count *b = wr_ring_counts_join(counts, "b:1");

    for (unsigned i = 0; i < WR_RING_COUNTERS; i++)
        wr_ring_counts_add(a, (enum wr_ring_counter)i, 10 + i);
    wr_ring_counts_add(b, WR_RING_FORWARDED, 1);
    wr_ring_counts_add(b, WR_RING_FORWARDED, 1);
    wr_ring_counts_add(NULL, WR_RING_FORWARDED, 1);
    assert_int_equal(look(counts), 2);
    assert_string_equal(peers[0].name, "a:1");
    assert_int_equal(peers[0].forwarded, 10);
    assert_int_equal(peers[0].answered, 11);
    assert_int_equal(peers[0].late, 12);
    assert_int_equal(peers[0].handed_over, 13);
    assert_string_equal(peers[1].name, "b:1");
    assert_int_equal(peers[1].forwarded, 2);
    assert_int_equal(wr_ring_counts_read(counts, peers, 1), 1);
}

static void test_up_when_all_loops_say_so(void **state)
{
    struct wr_ring_counts *counts = *state;
    struct wr_ring_count *a = wr_ring_counts_join(counts, "a:1");

    assert_ptr_equal(wr_ring_counts_join(counts, "a:1"), a); /* another loop */
    assert_int_equal(look(counts), 1);
    assert_false(peers[0].up);
    wr_ring_counts_up(a, true);
    (void)look(counts);
    assert_false(peers[0].up);
    wr_ring_counts_up(a, true);
    (void)look(counts);
    assert_true(peers[0].up);
    wr_ring_counts_up(a, false);
    (void)look(counts);
    assert_false(peers[0].up);
    wr_ring_counts_leave(counts, a); /* the one that does not see it */
    (void)look(counts);
    assert_true(peers[0].up);
    wr_ring_counts_up(NULL, true);
}

static void test_heard_by_any_loop(void **state)
{
    struct wr_ring_count *a = wr_ring_counts_join(*state, "a:1");

    assert_int_equal(wr_ring_counts_heard_ns(a), 0);
    wr_ring_counts_heard(wr_ring_counts_join(*state, "a:1"), 5);
    assert_int_equal(wr_ring_counts_heard_ns(a), 5);
    wr_ring_counts_heard(NULL, 5);
    assert_int_equal(wr_ring_counts_heard_ns(NULL), 0);
}

static void test_who_comes_back_goes_on(void **state)
{
    struct wr_ring_counts *counts = *state;
    struct wr_ring_count *a = wr_ring_counts_join(counts, "a:1");

    wr_ring_counts_add(a, WR_RING_LATE, 7);
    wr_ring_counts_leave(counts, a);
    assert_int_equal(look(counts), 0);
    (void)wr_ring_counts_join(counts, "a:1");
    assert_int_equal(look(counts), 1);
    assert_int_equal(peers[0].late, 7);
    wr_ring_counts_leave(counts, NULL);
}

static void test_ever_new_names_are_bounded(void **state)
{
    struct wr_ring_counts *counts = *state;
    struct wr_ring_count *first = wr_ring_counts_join(counts, "first:1"), *count;
    char name[64];

    wr_ring_counts_add(first, WR_RING_LATE, 7);
    wr_ring_counts_leave(counts, first);
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof name, "%d:1", i);
        count = wr_ring_counts_join(counts, name);
        assert_non_null(count);
        wr_ring_counts_add(count, WR_RING_LATE, 1);
        wr_ring_counts_leave(counts, count);
    }
    (void)wr_ring_counts_join(counts, "first:1");
    assert_int_equal(look(counts), 1);
    assert_int_equal(peers[0].late, 0); /* others needed its place */
}

static void test_too_many_at_once_are_not_counted(void **state)
{
    struct wr_ring_counts *counts = *state;
    char name[64];

    for (int i = 0; i < WR_BACKEND_PEERS_MAX; i++) {
        (void)snprintf(name, sizeof name, "%d:1", i);
        assert_non_null(wr_ring_counts_join(counts, name));
    }
    assert_null(wr_ring_counts_join(counts, "more:1"));
    assert_int_equal(look(counts), WR_BACKEND_PEERS_MAX);
    wr_ring_counts_free(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_each_counter_in_its_place),  TEST(test_up_when_all_loops_say_so),
        TEST(test_heard_by_any_loop),          TEST(test_who_comes_back_goes_on),
        TEST(test_ever_new_names_are_bounded), TEST(test_too_many_at_once_are_not_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
