/* ring_news.c - what is told of nodes at moments worked out by hand, and that it is told once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"
#include "remote/ring_news.h"

#define S WR_NS_PER_S
#define SAID_MAX 192 /* ring_news.c's */
#define QUEUE_MAX 64

static int set_up(void **state)
{
    *state = wr_ring_news_new();
    return *state == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    wr_ring_news_free(*state);
    return 0;
}

static void expect(struct wr_ring_news *news, const char *node, const char *what, bool grave)
{
    struct wr_backend_news next;

    assert_true(wr_ring_news_next(news, &next));
    assert_string_equal(next.node, node);
    assert_string_equal(next.what, what);
    assert_int_equal(next.grave, grave);
}

static void expect_nothing(struct wr_ring_news *news)
{
    struct wr_backend_news next = {.node = "x", .what = "y", .grave = true};

    assert_false(wr_ring_news_next(news, &next));
    assert_string_equal(next.node, "");
    assert_string_equal(next.what, "");
    assert_false(next.grave);
}

static const char *standing(struct wr_ring_news *news, int64_t now_ns)
{
    static char text[256];

    return wr_ring_news_stands(news, now_ns, text, sizeof text) ? text : NULL;
}

static void test_a_change_is_told_once_however_many_loops_see_it(void **state)
{
    struct wr_ring_news *news = *state;

    expect_nothing(news);
    for (int loop = 0; loop < 4; loop++)
        wr_ring_news_say(news, "a:1", "has joined", false);
    wr_ring_news_say(news, "b:1", "has joined", false);
    for (int loop = 0; loop < 4; loop++)
        wr_ring_news_say(news, "a:1", "is dead", true);
    wr_ring_news_say(news, "a:1", "has joined", false);
    expect(news, "a:1", "has joined", false);
    expect(news, "b:1", "has joined", false);
    expect(news, "a:1", "is dead", true);
    expect(news, "a:1", "has joined", false);
    expect_nothing(news);
    wr_ring_news_say(news, "a:1", "has joined", false); /* told long ago, and still so */
    expect_nothing(news);
}

static void test_a_trouble_is_told_once_while_it_is_seen(void **state)
{
    struct wr_ring_news *news = *state;

    for (int64_t t = 0; t <= 60; t++)
        wr_ring_news_trouble(news, "a:1", "is odd", t * S, 0);
    expect(news, "a:1", "is odd", true);
    expect_nothing(news);
    assert_string_equal(standing(news, 60 * S), "a:1 is odd");
    assert_string_equal(standing(news, 65 * S), "a:1 is odd");
    assert_null(standing(news, 65 * S + 1)); /* not seen for more than five seconds */
    wr_ring_news_trouble(news, "a:1", "is odd", 66 * S, 0); /* another one */
    expect(news, "a:1", "is odd", true);
    assert_string_equal(standing(news, 66 * S), "a:1 is odd");
}

static void test_a_grace_is_waited_for(void **state)
{
    struct wr_ring_news *news = *state;

    for (int64_t t = 100; t < 115; t++) {
        wr_ring_news_trouble(news, "a:1", "is new", t * S, 15 * S);
        expect_nothing(news);
        assert_null(standing(news, t * S));
    }
    wr_ring_news_trouble(news, "a:1", "is new", 115 * S, 15 * S);
    expect(news, "a:1", "is new", true);
    /* Not seen for a while, it waits anew. */
    wr_ring_news_trouble(news, "a:1", "is new", 121 * S, 15 * S);
    wr_ring_news_trouble(news, "a:1", "is new", 126 * S, 15 * S);
    expect_nothing(news);
    assert_null(standing(news, 126 * S));
}

static void test_a_node_may_have_several_troubles_and_stands_in_one_way(void **state)
{
    struct wr_ring_news *news = *state;

    wr_ring_news_say(news, "a:1", "has joined", false);
    wr_ring_news_trouble(news, "a:1", "is odd", 0, 0);
    wr_ring_news_trouble(news, "a:1", "is even", 0, 0);
    wr_ring_news_trouble(news, "a:1", "is odd", S, 0);
    wr_ring_news_say(news, "a:1", "has joined", false);
    expect(news, "a:1", "has joined", false);
    expect(news, "a:1", "is odd", true);
    expect(news, "a:1", "is even", true);
    expect_nothing(news);
    assert_string_equal(standing(news, 6 * S), "a:1 is odd"); /* the other has not been seen */
}

/* Who says hello and is in no list has no bound of his own. */
static void test_ever_new_names_forget_the_one_not_seen_for_longest(void **state)
{
    struct wr_ring_news *news = *state;
    struct wr_backend_news next;
    char name[64];

    wr_ring_news_trouble(news, "kept:1", "is odd", 0, 0);
    wr_ring_news_trouble(news, "left:1", "is odd", 0, 0);
    for (int i = 0; i < 2 * SAID_MAX; i++) {
        (void)snprintf(name, sizeof name, "%d:1", i);
        wr_ring_news_trouble(news, name, "is odd", 1, 0);
        wr_ring_news_trouble(news, "kept:1", "is odd", 1, 0);
    }
    while (wr_ring_news_next(news, &next))
        assert_string_not_equal(next.node, "kept:1"); /* told at first: it has fallen out */
    wr_ring_news_trouble(news, "kept:1", "is odd", 2, 0);
    expect_nothing(news);
    wr_ring_news_trouble(news, "left:1", "is odd", 2, 0);
    expect(news, "left:1", "is odd", true); /* as if never seen */
}

static void test_a_full_queue_loses_its_oldest(void **state)
{
    struct wr_ring_news *news = *state;
    struct wr_backend_news next;
    char name[64];

    for (int i = 0; i < QUEUE_MAX + 3; i++) {
        (void)snprintf(name, sizeof name, "%d:1", i);
        wr_ring_news_say(news, name, "has joined", false);
    }
    for (int i = 3; i < QUEUE_MAX + 3; i++) {
        (void)snprintf(name, sizeof name, "%d:1", i);
        expect(news, name, "has joined", false);
    }
    assert_false(wr_ring_news_next(news, &next));
}

static void test_names_too_long_are_cut_and_still_told_once(void **state)
{
    struct wr_ring_news *news = *state;
    char node[400], what[400];

    memset(node, 'n', sizeof node - 1);
    memset(what, 'w', sizeof what - 1);
    node[sizeof node - 1] = what[sizeof what - 1] = '\0';
    wr_ring_news_say(news, node, what, false);
    wr_ring_news_say(news, node, what, false);
    wr_ring_news_trouble(news, node, what, 0, 0);
    wr_ring_news_trouble(news, node, what, 1, 0);
    node[127] = what[127] = '\0';
    expect(news, node, what, false);
    expect(news, node, what, true);
    expect_nothing(news);
}

static void test_where_there_is_no_room_for_text(void **state)
{
    struct wr_ring_news *news = *state;
    char text[4] = "abc";

    assert_false(wr_ring_news_stands(news, 0, text, 0));
    assert_string_equal(text, "abc");
    assert_false(wr_ring_news_stands(news, 0, text, sizeof text));
    assert_string_equal(text, "");
    wr_ring_news_trouble(news, "a:1", "is odd", 0, 0);
    assert_true(wr_ring_news_stands(news, 0, text, sizeof text));
    assert_string_equal(text, "a:1");
    wr_ring_news_free(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_change_is_told_once_however_many_loops_see_it),
        TEST(test_a_trouble_is_told_once_while_it_is_seen),
        TEST(test_a_grace_is_waited_for),
        TEST(test_a_node_may_have_several_troubles_and_stands_in_one_way),
        TEST(test_ever_new_names_forget_the_one_not_seen_for_longest),
        TEST(test_a_full_queue_loses_its_oldest),
        TEST(test_names_too_long_are_cut_and_still_told_once),
        TEST(test_where_there_is_no_room_for_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
