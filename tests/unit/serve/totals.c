/* totals.c - counts stay with the names of limits, over reloads and over loops that are behind. */
#include "fixture.h"

#include "lib/handle.h"
#include "serve/totals.h"

static struct wr_totals *totals;
static struct wr_loop *loops[2];

static int set_up(void **unused)
{
    (void)unused;
    totals = wr_totals_new();
    for (int i = 0; i < 2; i++)
        loops[i] = calloc(1, sizeof *loops[i]);
    return totals == NULL || loops[0] == NULL || loops[1] == NULL;
}

static int tear_down(void **unused)
{
    (void)unused;
    for (int i = 0; i < 2; i++)
        free(loops[i]);
    wr_totals_free(totals);
    return 0;
}

/* A known policy with limits of these names, after |before|. */
static struct wr_handle *policy_of(const char *names, struct wr_handle *before)
{
    char text[512] = SMALL "limits:\n";
    struct wr_handle *handle;

    for (const char *name = names; *name != '\0'; name++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text),
                       "  - {name: %c, by: [ip], rate: 10/hour}\n", *name);
    handle = handle_of(text, before);
    assert_int_equal(wr_totals_learn(totals, handle), 0);
    return handle;
}

static void swap(unsigned loop, struct wr_handle *handle)
{
    wr_totals_swap(totals, loops[loop], handle);
    assert_ptr_equal(loops[loop]->handle, handle);
}

/* |loop| counts |n| for the limit called |name| in its policy. */
static void count(unsigned loop, char name, enum wr_limit_counter counter, uint64_t n)
{
    int limit = weir_limit_find(loops[loop]->handle->weir, (char[2]){name, '\0'});

    assert_true(limit >= 0);
    loops[loop]->metrics.limit[limit][counter] += n;
}

/* "a 1/2/3/4 b 0/0/0/0": allowed, denied, delayed, shadow-denied by the limits of |handle|. */
static const char *told(const struct wr_handle *handle)
{
    static char text[512];
    struct wr_counted counted;

    assert_int_equal(wr_totals_read(totals, handle, &counted), 0);
    text[0] = '\0';
    for (size_t i = 0; i < counted.limit_count; i++) {
        const struct wr_total *t = &counted.limits[i];
        const uint64_t *c = t->count.by_limit;
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s %d/%d/%d/%d",
                       i > 0 ? " " : "", t->name, (int)c[WR_LIMIT_ALLOWED], (int)c[WR_LIMIT_DENIED],
                       (int)c[WR_LIMIT_DELAYED], (int)c[WR_LIMIT_SHADOW_DENIED]);
    }
    return text;
}

static void test_zero_from_the_start(void **state)
{
    struct wr_handle *handle = policy_of("ab", NULL);
    struct wr_counted counted;
    (void)state;

    swap(0, handle);
    assert_string_equal(told(handle), "a 0/0/0/0 b 0/0/0/0");
    assert_int_equal(wr_totals_read(totals, handle, &counted), 0);
    assert_int_equal(counted.rule_count, 0);
    assert_int_equal(counted.door[WR_DOOR_HTTP].requests, 0);
    swap(0, NULL);
    wr_handle_unref(handle);
}

static void test_reordered_removed_and_back(void **state)
{
    struct wr_handle *first = policy_of("abc", NULL), *second, *third;
    (void)state;

    swap(0, first);
    swap(1, first);
    count(0, 'a', WR_LIMIT_ALLOWED, 1);
    count(0, 'b', WR_LIMIT_DENIED, 20);
    count(1, 'b', WR_LIMIT_DENIED, 3);
    count(1, 'c', WR_LIMIT_SHADOW_DENIED, 7);
    assert_string_equal(told(first), "a 1/0/0/0 b 0/23/0/0 c 0/0/0/7");

    /* one loop is ahead of the other */
    second = policy_of("cdb", first);
    assert_string_equal(told(second), "c 0/0/0/7 d 0/0/0/0 b 0/23/0/0");
    swap(0, second);
    assert_string_equal(told(second), "c 0/0/0/7 d 0/0/0/0 b 0/23/0/0");
    count(0, 'c', WR_LIMIT_SHADOW_DENIED, 100);
    count(0, 'b', WR_LIMIT_DELAYED, 5);
    count(1, 'a', WR_LIMIT_ALLOWED, 1);
    count(1, 'b', WR_LIMIT_DENIED, 1);
    assert_string_equal(told(second), "c 0/0/0/107 d 0/0/0/0 b 0/24/5/0");
    swap(1, second);
    wr_handle_unref(first);
    assert_string_equal(told(second), "c 0/0/0/107 d 0/0/0/0 b 0/24/5/0");
    count(1, 'd', WR_LIMIT_ALLOWED, 9);

    /* what was removed goes on where it was */
    third = policy_of("ad", second);
    swap(0, third);
    swap(1, third);
    wr_handle_unref(second);
    assert_string_equal(told(third), "a 2/0/0/0 d 9/0/0/0");
    swap(0, NULL);
    swap(1, NULL);
    assert_string_equal(told(third), "a 2/0/0/0 d 9/0/0/0");
    wr_handle_unref(third);
}

static void test_a_policy_that_no_loop_took_up(void **state)
{
    struct wr_handle *first = policy_of("a", NULL), *second, *third;
    (void)state;

    swap(0, first);
    count(0, 'a', WR_LIMIT_ALLOWED, 4);
    second = policy_of("b", first);
    third = policy_of("ba", second);
    wr_handle_unref(second);
    swap(0, third);
    wr_handle_unref(first);
    assert_string_equal(told(third), "b 0/0/0/0 a 4/0/0/0");
    swap(0, NULL);
    wr_handle_unref(third);
}

static void test_loops_and_doors_are_added_up(void **state)
{
    struct wr_handle *handle = policy_of("a", NULL);
    struct wr_counted counted;
    (void)state;

    for (unsigned i = 0; i < 2; i++) {
        swap(i, handle);
        loops[i]->metrics.door[WR_DOOR_GRPC].bad_requests = 2 + i;
        loops[i]->metrics.outcome[WEIR_DENY] = 10 + i;
        wr_metrics_request(&loops[i]->metrics, WR_DOOR_RESP, 25001);
    }
    swap(1, handle); /* the same again: nothing twice */
    assert_int_equal(wr_totals_read(totals, handle, &counted), 0);
    assert_int_equal(counted.door[WR_DOOR_GRPC].bad_requests, 5);
    assert_int_equal(counted.outcome[WEIR_DENY], 21);
    assert_int_equal(counted.door[WR_DOOR_RESP].latency[2], 2);
    assert_int_equal(counted.door[WR_DOOR_RESP].latency_sum_ns, 50002);
    for (unsigned i = 0; i < 2; i++) {
        memset(&loops[i]->metrics, 0, sizeof loops[i]->metrics);
        swap(i, NULL);
    }
    wr_handle_unref(handle);
}

/* ---- rules of envoy_ratelimit -------------------------------------------------------------- */

static struct wr_handle *rules_of(const char *descriptors, struct wr_handle *before)
{
    char path[64], text[1024];
    struct wr_handle *handle;

    (void)snprintf(text, sizeof text, "domain: shop\ndescriptors:\n%s", descriptors);
    (void)snprintf(path, sizeof path, "%s", file_of(text));
    (void)snprintf(text, sizeof text, SMALL "envoy_ratelimit: [%s]\n", path);
    handle = handle_of(text, before);
    (void)unlink(path);
    assert_int_equal(wr_totals_learn(totals, handle), 0);
    return handle;
}

static void ask(struct wr_handle *handle, const char *key, uint32_t hits)
{
    struct wr_entry entry = {{key, strlen(key)}, {"v", 1}};
    struct wr_descriptor descriptor = {.entries = &entry, .count = 1};
    struct wr_rate_request request = {{"shop", 4}, &descriptor, 1, hits};
    struct wr_rate_response response;

    assert_int_equal(
        wr_engine_rate(handle->weir->engine, &request, 0, weir_now(handle->weir), &response), 0);
}

static uint64_t hits_of(const struct wr_handle *handle, const char *path)
{
    struct wr_counted counted;

    assert_int_equal(wr_totals_read(totals, handle, &counted), 0);
    for (size_t i = 0; i < counted.rule_count; i++)
        if (strcmp(counted.rules[i].name, path) == 0)
            return counted.rules[i].count.by_rule[WR_ENVOY_TOTAL];
    fail_msg("no rule %s", path);
    return 0;
}

#define RULE(key) "  - {key: " #key ", rate_limit: {unit: year, requests_per_unit: 1000}}\n"

static void test_rules_of_engines_that_go(void **state)
{
    struct wr_handle *first = rules_of(RULE(x) RULE(y), NULL), *second, *third;
    (void)state;

    ask(first, "x", 3);
    ask(first, "y", 40);
    second = rules_of(RULE(y) RULE(z), first);
    assert_int_equal(hits_of(second, "shop.y"), 40);
    assert_int_equal(hits_of(second, "shop.z"), 0);
    ask(first, "y", 1); /* by a loop that is behind */
    ask(second, "y", 500);
    wr_handle_unref(first); /* its arena is the second's: it lives on */
    assert_int_equal(hits_of(second, "shop.y"), 541);
    third = rules_of(RULE(x) RULE(y), second);
    wr_handle_unref(second); /* this one is closed */
    assert_int_equal(hits_of(third, "shop.y"), 541);
    assert_int_equal(hits_of(third, "shop.x"), 3);
    wr_handle_unref(third);
}

/* ---- memory -------------------------------------------------------------------------------- */

#define MANY 1999

/* A policy of limits called a<tag>-0 .. */
static struct wr_handle *many_of(unsigned tag, struct wr_handle *before)
{
    size_t room = MANY * 80 + 256, len;
    char *text = malloc(room);
    struct wr_handle *handle;

    assert_non_null(text);
    len = (size_t)snprintf(text, room, SMALL "limits:\n  - {name: a, by: [ip], rate: 10/hour}\n");
    for (unsigned i = 0; i < MANY; i++)
        len +=
            (size_t)snprintf(text + len, room - len,
                             "  - {name: a%u-%u, match: {path: /%u}, rate: 10/hour}\n", tag, i, i);
    handle = handle_of(text, before);
    free(text);
    assert_int_equal(wr_totals_learn(totals, handle), 0);
    return handle;
}

static void test_names_are_forgotten_when_there_are_too_many(void **state)
{
    struct wr_handle *handle = many_of(0, NULL), *keeper = handle;
    struct wr_counted counted;
    (void)state;

    wr_handle_ref(keeper); /* the arena's owner has names of its own; it goes last */
    for (unsigned tag = 1; tag <= 5; tag++) {
        struct wr_handle *next = many_of(tag, handle);
        swap(0, handle);
        loops[0]->metrics.limit[0][WR_LIMIT_ALLOWED] += 1;
        loops[0]->metrics.limit[1][WR_LIMIT_DENIED] += 1;
        swap(0, next);
        wr_handle_unref(handle);
        handle = next;
    }
    /* 1..4 are gone: 4 * 1999 names, of which at most 4096 are kept */
    assert_int_equal(wr_totals_read(totals, handle, &counted), 0);
    assert_int_equal(counted.limit_count, 2000);
    assert_int_equal(counted.limits[0].count.by_limit[WR_LIMIT_ALLOWED], 5);
    swap(0, NULL);
    wr_handle_unref(handle);
    handle = many_of(1, keeper); /* swept: begins again */
    assert_int_equal(wr_totals_read(totals, handle, &counted), 0);
    assert_int_equal(counted.limits[1].count.by_limit[WR_LIMIT_DENIED], 0);
    wr_handle_unref(handle);
    wr_handle_unref(keeper);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_zero_from_the_start, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reordered_removed_and_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_policy_that_no_loop_took_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_loops_and_doors_are_added_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rules_of_engines_that_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_names_are_forgotten_when_there_are_too_many, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
