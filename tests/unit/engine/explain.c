/* What would happen and why; one key's state. Values by hand: token buckets of 6/minute refill one
 * unit in 10 s. */
#include "engine/explain.h"

#include "fixture.h"
#include "lib/handle.h"

static const char text[] =
    "version: 1\n"
    "identity:\n"
    "  api_key: {header: X-Api-Key}\n"
    "  plan: {default: free, keys: {pro-key-1: pro}}\n"
    "limits:\n"
    "  - {name: ip, by: [ip], rate: 6/minute, algorithm: token-bucket}\n"
    "  - name: key\n"
    "    by: [api_key]\n"
    "    when_missing: skip\n"
    "    rate: {free: 6/minute, pro: unlimited}\n"
    "    algorithm: token-bucket\n"
    "  - {name: log, match: {path: /log}, by: [ip], rate: 3/minute, algorithm: sliding-log}\n"
    "  - {name: places, match: {path: /up}, by: [ip], concurrent: 2, hold: 30s}\n";

enum { IP, KEY, LOG, PLACES, LIMITS };

static struct weir *weir;
static struct wr_match_reason reasons[LIMITS];
static struct wr_explanation explanation = {.reason = reasons};

static void explain(int64_t now, struct call call)
{
    struct weir_slice fields[FIELDS_MAX];
    struct weir_request request = request_of(weir, &call, fields);

    wr_engine_explain(weir->engine, &request, now, &explanation);
}

static void what_would_happen(void **state)
{
    const struct weir_answer *answer = &explanation.answer;
    (void)state;

    for (int i = 0; i < 4; i++)
        (void)decide(weir, T0, (struct call){.api_key = "k"});
    explain(T0, (struct call){.api_key = "k", .cost = 2});
    assert_int_equal(answer->outcome, WEIR_ALLOW);
    assert_int_equal(answer->count, 2);
    assert_int_equal(answer->verdicts[0].remaining_units, 0); /* 6 - 4 - 2 */
    assert_int_equal(answer->verdicts[1].remaining_units, 0);
    assert_int_equal(explanation.selection.selected[1].limit, KEY);
    assert_int_equal(reasons[LOG].why, WR_OTHER_PATH);

    explain(T0, (struct call){.api_key = "k", .cost = 5});
    assert_int_equal(answer->outcome, WEIR_DENY);
    assert_int_equal(answer->decisive, 0);
    assert_int_equal(answer->retry_after_ns, 30 * S); /* three are missing */

    /* Nothing was taken by asking. */
    assert_int_equal(decide(weir, T0, (struct call){.api_key = "k", .cost = 2}).outcome,
                     WEIR_ALLOW);
    explain(T0, (struct call){.api_key = "k"});
    assert_int_equal(answer->outcome, WEIR_DENY);
    assert_int_equal(answer->retry_after_ns, 10 * S);
    explain(T0, (struct call){.peer = "192.0.2.2", .api_key = "pro-key-1"});
    assert_int_equal(answer->outcome, WEIR_ALLOW);
    assert_int_equal(answer->count, 1);
    assert_int_equal(reasons[KEY].why, WR_NO_LIMIT);
    explain(T0, (struct call){.peer = "192.0.2.2"});
    assert_int_equal(reasons[KEY].why, WR_KEY_SKIPPED);
    assert_string_equal(reasons[KEY].missing, "api_key");
}

static void look(unsigned limit, const char *part, const char *value, struct wr_named_key *key)
{
    wr_named_key_begin(key, limit);
    assert_null(wr_named_key_give(weir->policy, key, slice(part), slice(value)));
    assert_null(wr_named_key_lacks(weir->policy, key));
}

static void one_key(void **state)
{
    struct weir_verdict verdict;
    struct wr_named_key key;
    int64_t next, reset;
    (void)state;

    (void)decide(weir, T0, (struct call){.peer = "192.0.2.9", .cost = 4});
    look(IP, "ip", "192.0.2.9", &key);
    assert_true(wr_engine_peek(weir->engine, &key.selected, 0, T0, &verdict));
    assert_int_equal(verdict.capacity_units, 6);
    assert_int_equal(verdict.remaining_units, 2);
    weir_verdict_times(weir, &verdict, T0, &next, &reset);
    assert_int_equal(next, 10 * S);
    assert_int_equal(reset, 40 * S);
    assert_true(wr_engine_peek(weir->engine, &key.selected, 0, T0 + 20 * S, &verdict));
    assert_int_equal(verdict.remaining_units, 4);

    assert_int_equal(wr_engine_forget(weir->engine, &key.selected), 0);
    assert_int_equal(wr_engine_forget(weir->engine, &key.selected), WEIR_ENOENT);
    assert_true(wr_engine_peek(weir->engine, &key.selected, 0, T0, &verdict));
    assert_int_equal(verdict.remaining_units, 6);
}

static void plans(void **state)
{
    struct weir_verdict verdict;
    struct wr_named_key key;
    int pro = weir_plan_find(weir, slice("pro")), free_plan = weir_plan_find(weir, slice("free"));
    (void)state;

    (void)decide(weir, T0, (struct call){.peer = "192.0.2.10", .api_key = "x"});
    look(KEY, "api_key", "x", &key);
    assert_true(wr_engine_peek(weir->engine, &key.selected, (unsigned)free_plan, T0, &verdict));
    assert_int_equal(verdict.remaining_units, 5);
    assert_false(wr_engine_peek(weir->engine, &key.selected, (unsigned)pro, T0, &verdict));
    assert_int_equal(verdict.capacity_units, 0);
}

static void lists(void **state)
{
    struct weir_verdict verdict;
    struct wr_named_key key;
    int64_t next, reset;
    (void)state;

    (void)decide(weir, T0, (struct call){.peer = "192.0.2.11", .path = "/log"});
    (void)decide(weir, T0 + 15 * S, (struct call){.peer = "192.0.2.11", .path = "/log"});
    look(LOG, "ip", "192.0.2.11", &key);
    assert_true(wr_engine_peek(weir->engine, &key.selected, 0, T0 + 20 * S, &verdict));
    assert_int_equal(verdict.remaining_units, 1); /* two stamps */
    weir_verdict_times(weir, &verdict, T0 + 20 * S, &next, &reset);
    assert_int_equal(next, 40 * S); /* the older one is a minute old then */
    assert_int_equal(reset, 55 * S);

    (void)decide(weir, T0, (struct call){.peer = "192.0.2.11", .path = "/up"});
    look(PLACES, "ip", "192.0.2.11", &key);
    assert_true(wr_engine_peek(weir->engine, &key.selected, 0, T0, &verdict));
    assert_int_equal(verdict.remaining_units, 1); /* of two places */
    assert_int_equal(wr_engine_forget(weir->engine, &key.selected), 0);
    assert_true(wr_engine_peek(weir->engine, &key.selected, 0, T0, &verdict));
    assert_int_equal(verdict.remaining_units, 2);
}

static void a_programs_own_key(void **state)
{
    struct weir_verdict verdict;
    struct wr_named_key key;
    (void)state;

    assert_int_equal(weir_check(weir, IP, slice("mine"), 5, T0, &verdict), 0);
    wr_named_key_begin(&key, IP);
    wr_named_key_plain(&key, slice("mine"));
    assert_true(wr_engine_peek(weir->engine, &key.selected, 0, T0, &verdict));
    assert_int_equal(verdict.remaining_units, 1);
}

static int set_up(void **state)
{
    (void)state;
    weir = open_text(text, "");
    assert_int_equal(weir_limit_count(weir), LIMITS);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    weir_close(weir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_would_happen), cmocka_unit_test(one_key), cmocka_unit_test(plans),
        cmocka_unit_test(lists), cmocka_unit_test(a_programs_own_key)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
