/* Quotas of customers: counted in cells with the other limits, all or none; given back, settled and
 * finished to the window they were taken in; overage, upgrades; to the unit among threads. */
#include "fixture.h"

#include <pthread.h>
#include <sys/stat.h>

#include "store/customers.h"
#include "store/usage.h"

#define DAY_T0 20454 /* 2026-01-01, a Thursday */
#define DAY (86400 * S)
#define FREE 0
#define PRO 1
#define METERED 2

static char folder[64];
static struct wr_customers *map;
static struct weir *w;

static const char policy[] =
    "version: 1\n"
    "arena: {path: %s/arena, size: 2MiB}\n"
    "identity: {api_key: {header: X-Api-Key}, user: {header: X-User-Id, trust: anyone}, plan: "
    "{default: free}}\n"
    "customers: {directory: %s/customers, by: [api_key, user], room: 100}\n"
    "plans:\n"
    "  free: {upgrade_to: pro, routes: {deny: [/export]}}\n"
    "  pro: {upgrade_to: metered}\n"
    "  metered: {}\n"
    "limits:\n"
    "  - {name: per-ip, by: [ip], rate: 40/day, algorithm: fixed-window}\n"
    "  - name: daily\n"
    "    by: [customer]\n"
    "    quota:\n"
    "      limit: {free: 10, pro: 20, metered: 10}\n"
    "      per: day\n"
    "      on_exceed: {%s, metered: overage}\n"
    "      ceiling: {metered: 15}\n"
    "  - name: good\n"
    "    by: [customer]\n"
    "    match: {path: /good}\n"
    "    quota: {limit: 10, per: month, count: {status: [2xx]}}\n";

static struct weir_slice text_of(const char *text)
{
    return (struct weir_slice){text, strlen(text)};
}

static void add_key(const char *identity, const char *value, uint32_t number)
{
    unsigned char digest[WR_SHA256_BYTES];

    wr_customer_digest(text_of(identity), text_of(value), digest);
    assert_int_equal(wr_customers_key_set(map, digest, number), 0);
}

static void set_customer(uint32_t number, const char *plan, unsigned flags)
{
    int index = wr_customers_plan(map, plan);
    struct wr_customer_record record = {.id = 1000 + (int64_t)number,
                                        .plan = (uint8_t)index,
                                        .plan_after = (uint8_t)index,
                                        .flags = (uint8_t)(WR_CUSTOMER_ACTIVE | flags),
                                        .until_ns = INT64_MAX};

    assert_true(index >= 0);
    assert_int_equal(wr_customers_set(map, number, &record, true), 0);
}

/* Customers 0, 1 and 2 have the plans of those numbers; 0 has two keys and a user. */
static void fill(void)
{
    struct wr_customers_options options = {.writer = true};
    char path[128];

    (void)snprintf(path, sizeof path, "%s/customers/" WR_CUSTOMERS_NAME, folder);
    options.path = path;
    assert_int_equal(wr_customers_open(&map, &options, NULL), 0);
    set_customer(FREE, "free", 0);
    set_customer(PRO, "pro", 0);
    set_customer(METERED, "metered", 0);
    add_key("api_key", "free", FREE);
    add_key("api_key", "free too", FREE);
    add_key("user", "freda", FREE);
    add_key("api_key", "pro", PRO);
    add_key("api_key", "metered", METERED);
}

static int open_with(const char *on_exceed)
{
    char text[2000], path[128], errors[4000];
    FILE *file;

    (void)snprintf(folder, sizeof folder, "/tmp/weir-test-quota-XXXXXX");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(text, sizeof text, policy, folder, folder, on_exceed);
    (void)snprintf(path, sizeof path, "%s/policy.yaml", folder);
    file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs(text, file);
    (void)fclose(file);
    if (weir_open(&w, path, NULL, errors, sizeof errors) != 0)
        fail_msg("%s", errors);
    fill();
    return 0;
}

static int setup(void **state)
{
    (void)state;
    return open_with("free: deny, pro: deny");
}

static int setup_upgrade(void **state)
{
    (void)state;
    return open_with("free: upgrade, pro: deny");
}

static int setup_two_upgrades(void **state)
{
    (void)state;
    return open_with("free: upgrade, pro: upgrade");
}

static int teardown(void **state)
{
    static const char *const names[] = {"customers/daily.usage", "customers/good.usage",
                                        "customers/" WR_CUSTOMERS_NAME, "arena", "policy.yaml"};
    char path[128];

    (void)state;
    weir_close(w);
    wr_customers_close(map);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    (void)snprintf(path, sizeof path, "%s/customers", folder);
    (void)rmdir(path);
    (void)rmdir(folder);
    return 0;
}

/* What the ledger would read: units, and |over| if not NULL. */
static uint64_t used(const char *quota, uint8_t per, uint32_t number, int32_t day, uint64_t *over)
{
    struct wr_usage_window windows[WR_USAGE_WINDOWS];
    struct wr_usage_options options = {.name = quota, .per = per, .must_exist = true};
    struct wr_usage *usage;
    uint64_t units = 0;
    char path[128];
    unsigned count;

    (void)snprintf(path, sizeof path, "%s/customers/%s" WR_USAGE_SUFFIX, folder, quota);
    options.path = path;
    assert_int_equal(wr_usage_open(&usage, &options, NULL), 0);
    count = wr_usage_read(usage, number, windows);
    for (unsigned i = 0; i < count; i++) {
        if (windows[i].day != day)
            continue;
        units = windows[i].units;
        if (over != NULL)
            *over = windows[i].over;
    }
    wr_usage_close(usage);
    return units;
}

static uint64_t daily(uint32_t number, int32_t day)
{
    return used("daily", 1, number, day, NULL);
}

static void assert_daily(uint32_t number, int32_t day, uint64_t units, uint64_t over)
{
    uint64_t is_over = 0;

    assert_int_equal(used("daily", 1, number, day, &is_over), units);
    assert_int_equal(is_over, over);
}

static struct weir_answer ask(int64_t now, const char *key, int64_t cost)
{
    return decide(w, now, (struct call){.api_key = key, .cost = cost});
}

/* The verdict of limit |name| in |answer|. */
static const struct weir_verdict *verdict_of(const struct weir_answer *answer, const char *name)
{
    for (unsigned i = 0; i < answer->count; i++)
        if (strcmp(weir_limit_name(w, answer->verdicts[i].limit), name) == 0)
            return &answer->verdicts[i];
    fail_msg("no verdict of %s", name);
    return NULL;
}

static struct weir_answer hold(int64_t now, const char *key, int64_t cost)
{
    return reserve(w, now, DAY, (struct call){.api_key = key, .cost = cost});
}

/* ---- tests --------------------------------------------------------------------------------- */

static void a_quota_counts_and_refuses(void **state)
{
    int64_t noon = T0 + DAY / 2;
    struct weir_answer answer;
    int64_t next, reset;

    (void)state;
    answer = ask(noon, "free", 7);
    assert_int_equal(answer.outcome, WEIR_ALLOW);
    assert_int_equal(answer.decisive, 1); /* 3 of 10 left, per-ip 33 of 40 */
    assert_int_equal(verdict_of(&answer, "daily")->remaining_units, 3);
    assert_int_equal(verdict_of(&answer, "daily")->capacity_units, 10);
    weir_verdict_times(w, verdict_of(&answer, "daily"), noon + S, &next, &reset);
    assert_int_equal(reset, DAY / 2 - S);
    assert_int_equal(next, DAY / 2 - S);
    answer = ask(noon, "free", 4);
    assert_int_equal(answer.outcome, WEIR_DENY);
    assert_int_equal(answer.reason, WEIR_REASON_LIMIT);
    assert_int_equal(answer.retry_after_ns, DAY / 2);
    answer = ask(noon, "free", 11);
    assert_int_equal(answer.reason, WEIR_REASON_CAPACITY);
    assert_int_equal(answer.retry_after_ns, WEIR_NEVER);
    answer = ask(noon, "free too", 3); /* the same customer */
    assert_int_equal(answer.outcome, WEIR_ALLOW);
    answer = decide(w, noon, (struct call){.user = "freda"});
    assert_int_equal(answer.outcome, WEIR_DENY);
    answer = ask(noon + DAY / 2, "free", 1);
    assert_int_equal(answer.outcome, WEIR_ALLOW);
    assert_daily(FREE, DAY_T0, 10, 0);
    assert_daily(FREE, DAY_T0 + 1, 1, 0);
}

static void who_is_unknown_has_no_quota(void **state)
{
    struct weir_answer answer = ask(T0, "nobody's", 30);

    (void)state;
    assert_int_equal(answer.outcome, WEIR_ALLOW);
    assert_int_equal(answer.count, 1); /* per-ip */
    answer = ask(T0, NULL, 10);
    assert_int_equal(answer.outcome, WEIR_ALLOW);
    assert_int_equal(answer.count, 1);
}

static void a_refused_request_consumes_nothing(void **state)
{
    struct weir_answer answer;

    (void)state;
    (void)ask(T0, "pro", 15);
    assert_int_equal(ask(T0, "free", 11).outcome, WEIR_DENY); /* by daily */
    answer = ask(T0, "nobody's", 25);                         /* 15 + 25 are what per-ip has */
    assert_int_equal(answer.outcome, WEIR_ALLOW);
    assert_int_equal(ask(T0, "free", 1).outcome, WEIR_DENY); /* by per-ip */
    assert_daily(FREE, DAY_T0, 0, 0);
    assert_daily(PRO, DAY_T0, 15, 0);
}

static void a_look_takes_nothing(void **state)
{
    struct weir_answer answer =
        decide(w, T0, (struct call){.api_key = "free", .cost = 4, .peek = true});

    (void)state;
    assert_int_equal(answer.outcome, WEIR_ALLOW);
    assert_int_equal(verdict_of(&answer, "daily")->remaining_units, 6);
    assert_daily(FREE, DAY_T0, 0, 0);
}

static void overage_is_metered_up_to_the_ceiling(void **state)
{
    struct weir_answer answer;

    (void)state;
    (void)ask(T0, "metered", 8);
    answer = ask(T0, "metered", 5);
    assert_int_equal(answer.outcome, WEIR_ALLOW);
    assert_int_equal(verdict_of(&answer, "daily")->remaining_units, 0);
    assert_daily(METERED, DAY_T0, 13, 3);
    assert_int_equal(ask(T0, "metered", 3).outcome, WEIR_DENY);
    assert_int_equal(ask(T0, "metered", 2).outcome, WEIR_ALLOW);
    assert_daily(METERED, DAY_T0, 15, 5);
}

static void what_is_settled_goes_to_its_window(void **state)
{
    struct weir_answer less = hold(T0 + DAY - S, "pro", 5);
    struct weir_answer more = hold(T0 + DAY - S, "pro", 5);

    (void)state;
    assert_daily(PRO, DAY_T0, 10, 0);
    (void)ask(T0 + DAY, "pro", 1);
    assert_int_equal(weir_settle(w, &less, 2, T0 + DAY + S), 0);
    assert_daily(PRO, DAY_T0, 7, 0);
    assert_int_equal(weir_settle(w, &more, 50, T0 + DAY + S), 0); /* more than there is */
    assert_daily(PRO, DAY_T0, 52, 0);
    assert_daily(PRO, DAY_T0 + 1, 1, 0);
    assert_int_equal(weir_settle(w, &more, 0, T0 + DAY + S), WEIR_EEXPIRED);
}

static void overage_is_given_back_first(void **state)
{
    struct weir_answer answer;

    (void)state;
    (void)ask(T0, "metered", 8);
    answer = hold(T0, "metered", 6); /* 2 within, 4 beyond */
    assert_daily(METERED, DAY_T0, 14, 4);
    assert_int_equal(weir_settle(w, &answer, 3, T0 + DAY - 1), 0);
    assert_daily(METERED, DAY_T0, 11, 1);
    answer = hold(T0, "metered", 1);
    assert_int_equal(weir_settle(w, &answer, 9, T0), 0); /* 8 more, all of them beyond */
    assert_daily(METERED, DAY_T0, 20, 10);
    answer = hold(T0 + DAY, "metered", 1);
    assert_int_equal(weir_settle(w, &answer, 0, T0 + DAY), 0);
    assert_daily(METERED, DAY_T0 + 1, 0, 0);
}

/* An estimate that was too high: what came after it was not beyond the limit. */
static void what_was_beyond_moves_within(void **state)
{
    struct weir_answer first = hold(T0, "metered", 8);

    (void)state;
    (void)ask(T0, "metered", 5);
    assert_daily(METERED, DAY_T0, 13, 3);
    assert_int_equal(weir_settle(w, &first, 7, T0), 0);
    assert_daily(METERED, DAY_T0, 12, 2);
    first = hold(T0, "metered", 3);
    assert_daily(METERED, DAY_T0, 15, 5);
    set_customer(METERED, "pro", 0);
    (void)ask(T0, "metered", 2);
    assert_int_equal(weir_settle(w, &first, 0, T0), 0);
    assert_daily(METERED, DAY_T0, 14, 2); /* its own three */
}

/* A day of reservations that are settled in whatever order, for more, less or nothing. */
static void a_day_of_settlements(int64_t now, int32_t day, unsigned *seed)
{
    struct weir_answer held[8];
    int64_t cost[8], sum = 0;
    unsigned count = 0;

    for (int i = 0; i < 40; i++) {
        unsigned which = (unsigned)rand_r(seed) % 8;
        int64_t units = 1 + rand_r(seed) % 6;
        if (which >= count) {
            bool fits = sum + units <= 15;
            held[count] = hold(now, "metered", units);
            assert_int_equal(held[count].outcome, fits ? WEIR_ALLOW : WEIR_DENY);
            cost[count] = units;
            sum += fits ? units : 0;
            count += fits;
        } else {
            units = units < 4 ? 0 : units;
            assert_int_equal(weir_settle(w, &held[which], units, now), 0);
            sum += units - cost[which];
            held[which] = held[--count];
            cost[which] = cost[count];
        }
        assert_daily(METERED, day, (uint64_t)sum, sum > 10 ? (uint64_t)sum - 10 : 0);
    }
}

static void overage_is_what_lies_beyond(void **state)
{
    unsigned seed = 1;

    (void)state;
    for (int32_t i = 0; i < 100; i++)
        a_day_of_settlements(T0 + i * DAY, DAY_T0 + i, &seed);
}

static struct weir_answer good(int64_t now, int64_t cost)
{
    return decide(w, now, (struct call){.api_key = "pro", .path = "/good", .cost = cost});
}

static void only_some_statuses_count(void **state)
{
    struct weir_answer answer = good(T0, 3);

    (void)state;
    assert_true(weir_awaits_status(w, &answer));
    assert_int_equal(used("good", 3, PRO, DAY_T0, NULL), 3);
    assert_int_equal(weir_finish(w, &answer, 204, T0), 0);
    assert_int_equal(used("good", 3, PRO, DAY_T0, NULL), 3);
    answer = good(T0, 4);
    assert_int_equal(weir_finish(w, &answer, 42, T0), WEIR_EINVAL);
    assert_int_equal(weir_finish(w, &answer, 503, T0 + 40 * DAY), 0); /* a month later */
    assert_int_equal(used("good", 3, PRO, DAY_T0, NULL), 3);
    assert_int_equal(daily(PRO, DAY_T0), 7); /* counts all */
    assert_false(weir_awaits_status(w, &answer));
    assert_int_equal(weir_finish(w, &answer, 503, T0), 0); /* once */
    assert_int_equal(used("good", 3, PRO, DAY_T0, NULL), 3);
    answer = ask(T0, "pro", 1);
    assert_false(weir_awaits_status(w, &answer));
}

static void what_was_settled_is_finished_whole(void **state)
{
    struct weir_answer answer =
        reserve(w, T0, DAY, (struct call){.api_key = "pro", .path = "/good", .cost = 2});

    (void)state;
    assert_int_equal(weir_settle(w, &answer, 6, T0), 0);
    assert_int_equal(used("good", 3, PRO, DAY_T0, NULL), 6);
    assert_int_equal(weir_finish(w, &answer, 500, T0), 0);
    assert_int_equal(used("good", 3, PRO, DAY_T0, NULL), 0);
    assert_int_equal(daily(PRO, DAY_T0), 6);
}

static void a_clock_set_back_counts_where_it_was(void **state)
{
    (void)state;
    (void)ask(T0, "free", 6);
    (void)ask(T0 + 2 * DAY, "free", 9);
    assert_int_equal(ask(T0 + DAY / 2, "free", 5).outcome, WEIR_DENY);
    assert_int_equal(ask(T0 + DAY / 2, "free", 4).outcome, WEIR_ALLOW);
    assert_int_equal(ask(T0 + DAY, "free", 10).outcome, WEIR_ALLOW);
    assert_int_equal(ask(T0 + 2 * DAY, "free", 2).outcome, WEIR_DENY);
    for (int32_t i = 0; i < 3; i++)
        assert_daily(FREE, DAY_T0 + i, i == 2 ? 9 : 10, 0);
}

static void a_plan_that_changes_keeps_what_was_used(void **state)
{
    (void)state;
    (void)ask(T0, "free", 10);
    assert_int_equal(ask(T0, "free", 1).outcome, WEIR_DENY);
    set_customer(FREE, "pro", 0);
    assert_int_equal(ask(T0, "free", 10).outcome, WEIR_ALLOW);
    assert_int_equal(ask(T0, "free", 1).outcome, WEIR_DENY);
    set_customer(FREE, "free", 0);
    assert_int_equal(ask(T0, "free", 1).outcome, WEIR_DENY);
    assert_daily(FREE, DAY_T0, 20, 0);
}

static void a_trial_ends_by_itself(void **state)
{
    struct wr_customer_record record;

    (void)state;
    assert_true(wr_customers_get(map, FREE, &record));
    record.plan_after = record.plan;
    record.plan = (uint8_t)wr_customers_plan(map, "pro");
    record.until_ns = T0 + S;
    assert_int_equal(wr_customers_set(map, FREE, &record, false), 0);
    assert_int_equal(ask(T0, "free", 15).outcome, WEIR_ALLOW);
    assert_int_equal(ask(T0 + S, "free", 1).outcome, WEIR_DENY);
}

static void who_is_suspended_is_refused(void **state)
{
    struct weir_answer answer;

    (void)state;
    set_customer(PRO, "pro", WR_CUSTOMER_SUSPENDED);
    answer = ask(T0, "pro", 1);
    assert_int_equal(answer.outcome, WEIR_DENY);
    assert_int_equal(answer.reason, WEIR_REASON_BANNED);
    assert_daily(PRO, DAY_T0, 0, 0);
}

static void a_plan_may_exclude_a_route(void **state)
{
    struct weir_answer answer = decide(w, T0, (struct call){.api_key = "free", .path = "/export"});

    (void)state;
    assert_int_equal(answer.outcome, WEIR_DENY);
    assert_int_equal(answer.reason, WEIR_REASON_PLAN);
    assert_daily(FREE, DAY_T0, 0, 0);
    answer = decide(w, T0, (struct call){.api_key = "pro", .path = "/export"});
    assert_int_equal(answer.outcome, WEIR_ALLOW);
}

static unsigned wanting(void)
{
    uint32_t at = 0, number;
    unsigned count = 0;

    while (wr_customers_wanting_next(map, &at, &number))
        count++;
    return count;
}

static void at_the_limit_the_next_plan_holds(void **state)
{
    struct weir_answer answer;

    (void)state;
    (void)ask(T0, "free", 10);
    answer = decide(w, T0, (struct call){.api_key = "free", .peek = true});
    assert_int_equal(answer.outcome, WEIR_ALLOW);
    assert_int_equal(wanting(), 0);
    assert_int_equal(ask(T0, "free", 1).outcome, WEIR_ALLOW);
    assert_int_equal(wanting(), 1);
    assert_daily(FREE, DAY_T0, 11, 0);
    answer = ask(T0, "free", 9); /* before the daemon has moved him */
    assert_int_equal(answer.outcome, WEIR_ALLOW);
    assert_string_equal(weir_plan_name(w, answer.plan), "pro");
    assert_int_equal(ask(T0, "free", 1).outcome, WEIR_DENY);
    assert_daily(FREE, DAY_T0, 20, 0);
}

/* Who has the next plan, and whom the daemon has not moved yet, is not given the one after that;
 * and a request that began before he was moved does not move him on. */
static void one_step_at_a_time(void **state)
{
    uint8_t was = (uint8_t)wr_customers_plan(map, "free");
    struct weir_answer answer;

    (void)state;
    (void)ask(T0, "free", 10);
    assert_string_equal(weir_plan_name(w, ask(T0, "free", 10).plan), "pro");
    answer = ask(T0, "free", 1);
    assert_int_equal(answer.outcome, WEIR_DENY);
    assert_string_equal(weir_plan_name(w, answer.plan), "pro");
    assert_int_equal(wanting(), 1);
    set_customer(FREE, "pro", 0);
    wr_customers_want(map, FREE, was, T0);
    assert_int_equal(wanting(), 0);
    (void)ask(T0, "free", 1); /* of what pro includes nothing is left */
    assert_int_equal(wanting(), 1);
}

static void who_is_refused_by_another_limit_is_not_upgraded(void **state)
{
    (void)state;
    (void)ask(T0, "free", 10);
    (void)ask(T0, "nobody's", 30); /* per-ip has nothing left */
    assert_int_equal(ask(T0, "free", 1).outcome, WEIR_DENY);
    assert_int_equal(wanting(), 0);
}

static void one_limit_alone_is_asked_by_a_key(void **state)
{
    int limit = weir_limit_find(w, "daily");
    struct weir_charge charges[3] = {{text_of("free"), 4, (unsigned)limit},
                                     {text_of("freda"), 4, (unsigned)limit},
                                     {text_of("free"), 4, (unsigned)limit}};
    struct weir_verdict verdicts[3];

    (void)state;
    assert_int_equal(weir_check_batch(w, charges, 3, T0, verdicts), 0);
    assert_int_equal(verdicts[0].outcome, WEIR_ALLOW);
    assert_int_equal(verdicts[1].outcome, WEIR_ALLOW);
    assert_int_equal(verdicts[2].outcome, WEIR_DENY);
    assert_int_equal(weir_check(w, (unsigned)limit, text_of("pro"), 20, T0, verdicts), 0);
    assert_int_equal(verdicts[0].outcome, WEIR_ALLOW); /* by his plan */
    assert_int_equal(weir_check(w, (unsigned)limit, text_of("nobody's"), 99, T0, verdicts), 0);
    assert_int_equal(verdicts[0].outcome, WEIR_ALLOW);
    assert_daily(FREE, DAY_T0, 8, 0);
}

static void a_batch_counts_in_order(void **state)
{
    struct call call = {.api_key = "free", .cost = 3};
    struct weir_slice fields[FIELDS_MAX];
    struct weir_request requests[12];
    struct weir_answer answers[12];

    (void)state;
    for (unsigned i = 0; i < 12; i++)
        requests[i] = request_of(w, &call, fields);
    assert_int_equal(weir_decide_batch(w, requests, 12, T0, answers), 0);
    for (unsigned i = 0; i < 12; i++)
        assert_int_equal(answers[i].outcome, i < 3 ? WEIR_ALLOW : WEIR_DENY);
    assert_daily(FREE, DAY_T0, 9, 0);
}

static void damage_is_said_and_refused(void **state)
{
    char path[128], policy_path[128], errors[4000];
    struct weir *other;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/customers/daily.usage", folder);
    (void)snprintf(policy_path, sizeof policy_path, "%s/policy.yaml", folder);
    weir_close(w);
    assert_int_equal(truncate(path, 5000), 0);
    assert_int_equal(weir_open(&other, policy_path, NULL, errors, sizeof errors), WEIR_ECORRUPT);
    assert_non_null(strstr(errors, "daily.usage: error: is 5000 bytes long"));
    assert_non_null(strstr(errors, "stop weir, remove it, start weir"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(weir_open(&w, policy_path, NULL, errors, sizeof errors), 0);
}

/* ---- threads ------------------------------------------------------------------------------- */

#define THREADS 4
#define TURNS 400

static uint64_t admitted;

/* Some give back what they took, some settle for more later. */
static void *hammer(void *unused)
{
    static const int64_t now = T0;
    uint64_t units = 0;

    for (int i = 0; i < TURNS; i++) {
        struct weir_answer answer = hold(now + i, "metered", 1);
        if (answer.outcome != WEIR_ALLOW)
            continue;
        if (i % 2 == 0)
            (void)weir_settle(w, &answer, 0, now + DAY - 1);
        else
            units++;
    }
    (void)__atomic_add_fetch(&admitted, units, __ATOMIC_RELAXED);
    return unused;
}

static void threads_admit_what_the_cell_says(void **state)
{
    pthread_t threads[THREADS];
    uint64_t over = 0;

    (void)state;
    admitted = 0;
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(used("daily", 1, METERED, DAY_T0, &over), admitted);
    assert_true(admitted > 0 && admitted <= 15); /* the ceiling */
    assert_int_equal(over, admitted > 10 ? admitted - 10 : 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define U(f) cmocka_unit_test_setup_teardown(f, setup_upgrade, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_quota_counts_and_refuses),
        T(who_is_unknown_has_no_quota),
        T(a_refused_request_consumes_nothing),
        T(a_look_takes_nothing),
        T(overage_is_metered_up_to_the_ceiling),
        T(what_is_settled_goes_to_its_window),
        T(overage_is_given_back_first),
        T(what_was_beyond_moves_within),
        T(overage_is_what_lies_beyond),
        T(only_some_statuses_count),
        T(what_was_settled_is_finished_whole),
        T(a_clock_set_back_counts_where_it_was),
        T(a_plan_that_changes_keeps_what_was_used),
        T(a_trial_ends_by_itself),
        T(who_is_suspended_is_refused),
        T(a_plan_may_exclude_a_route),
        U(at_the_limit_the_next_plan_holds),
        cmocka_unit_test_setup_teardown(one_step_at_a_time, setup_two_upgrades, teardown),
        U(who_is_refused_by_another_limit_is_not_upgraded),
        T(one_limit_alone_is_asked_by_a_key),
        T(a_batch_counts_in_order),
        T(damage_is_said_and_refused),
        T(threads_admit_what_the_cell_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
