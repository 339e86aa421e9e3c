/* quotas.c - the sections customers and plans, and quota: of a limit. */
#include "requests.h"

#include "base/zone.h"
#include "policy/customers.h"
#include "policy/explain.h"
#include "policy/quota.h"

#define HEAD       \
    "version: 1\n" \
    "identity: {api_key: {header: X-Api-Key}, user: {given: true}, plan: {default: free}}\n"
#define CUSTOMERS HEAD "customers: {directory: /var/lib/weir, by: [api_key, user]}\n"
#define FLOOR "  - {name: floor, by: [ip], rate: 600/minute}\n"
#define QUOTA(text) CUSTOMERS "limits:\n" FLOOR "  - {name: q, by: [customer], quota: {" text "}}\n"
#define PLANS                                                 \
    CUSTOMERS "plans:\n"                                      \
              "  free: {quotas: {q: 100}, upgrade_to: pro}\n" \
              "  pro: {quotas: {q: {limit: 500, on_exceed: overage, ceiling: 900}}}\n"

/* ---- what is read -------------------------------------------------------------------------- */

static void test_all_of_a_quota(void **state)
{
    struct wr_policy *policy = policy_of(
        QUOTA("limit: 1000, per: month, zone: America/New_York, anchor: 31, grace: 5%, alert_at: "
              "[80%, 100%], count: {status: [2xx, 3xx]}"));
    const struct wr_policy_limit *limit = wr_policy_limit(policy, 1);
    const struct wr_policy_quota *quota = limit->quota;
    char words[160];
    (void)state;

    assert_null(wr_policy_limit(policy, 0)->quota);
    assert_non_null(quota);
    assert_int_equal(quota->civil.per, WR_PER_MONTH);
    assert_int_equal(quota->civil.anchor, 31);
    assert_int_equal(quota->civil.zone, wr_zone_id(wr_zone_find("America/New_York", words, 160)));
    assert_true(quota->exact);
    assert_false(quota->anchor_by_customer);
    assert_int_equal(quota->count_classes, 1 << 2 | 1 << 3);
    assert_int_equal(quota->alert_count, 2);
    assert_int_equal(quota->alert_percent[0], 80);
    assert_int_equal(quota->alert_percent[1], 100);
    assert_int_equal(quota->plan[0].limit, 1000);
    assert_int_equal(quota->plan[0].most, 1050);
    assert_int_equal(quota->plan[0].on_exceed, WR_EXCEED_DENY);
    assert_int_equal(limit->by[0].units, 1000);
    assert_int_equal(limit->by[0].algo, WR_FIXED_WINDOW);
    wr_policy_describe_rate(policy, 1, 0, words, sizeof words);
    assert_string_equal(words, "1000 a month from day 31, America/New_York, then a grace of 50");
    wr_policy_describe_keys(policy, 1, words, sizeof words);
    assert_string_equal(words, "customer (or skipped)");
    wr_policy_free(policy);
}

static void test_plans_differ(void **state)
{
    struct wr_policy *policy = policy_of(
        PLANS "limits:\n" FLOOR
              "  - {name: q, by: [customer], quota: {limit: 7, per: day, on_exceed: upgrade}}\n");
    const struct wr_policy_quota *quota = wr_policy_limit(policy, 1)->quota;
    char words[160];
    (void)state;

    assert_int_equal(wr_policy_plan_count(policy), 2);
    assert_int_equal(wr_policy_upgrade(policy, 0), 1);
    assert_int_equal(wr_policy_upgrade(policy, 1), -1);
    assert_int_equal(quota->plan[0].limit, 100);
    assert_int_equal(quota->plan[0].on_exceed, WR_EXCEED_UPGRADE);
    assert_int_equal(quota->plan[0].upgrade_to, 1);
    assert_int_equal(quota->plan[1].limit, 500);
    assert_int_equal(quota->plan[1].most, 900);
    assert_int_equal(quota->plan[1].on_exceed, WR_EXCEED_OVERAGE);
    assert_int_equal(quota->plan[1].upgrade_to, -1);
    assert_true(wr_policy_limit(policy, 1)->by_plan);
    wr_policy_describe_rate(policy, 1, 0, words, sizeof words);
    assert_string_equal(words, "100 a day, UTC, then upgrade to pro");
    wr_policy_describe_rate(policy, 1, 1, words, sizeof words);
    assert_string_equal(words, "500 a day, UTC, then overage to 900");
    wr_policy_free(policy);
}

/* A number for a plan is a hard cap, whatever the default plan does beyond its own; a plan that
 * says nothing has all of the default plan's. */
static void test_what_plans_borrow(void **state)
{
    struct wr_policy *policy =
        policy_of("version: 1\n"
                  "arena: {path: /run/weir/arena}\n"
                  "identity: {api_key: {header: X-Api-Key}, plan: {default: free}}\n"
                  "customers: {by: [api_key]}\n"
                  "plans:\n"
                  "  free: {quotas: {q: {limit: 100, on_exceed: overage, ceiling: 150}}}\n"
                  "  pro: {quotas: {q: 500}}\n"
                  "  odd: {quotas: {q: {on_exceed: deny, grace: 10%}}}\n"
                  "  other: {}\n"
                  "limits:\n"
                  "  - {name: per-ip, by: [ip], rate: 600/minute}\n"
                  "  - {name: q, by: [customer], quota: {per: day}}\n");
    const struct wr_policy_quota *quota = wr_policy_limit(policy, 1)->quota;
    (void)state;

    assert_int_equal(quota->plan[0].most, 150);
    assert_int_equal(quota->plan[1].limit, 500);
    assert_int_equal(quota->plan[1].most, 500);
    assert_int_equal(quota->plan[1].on_exceed, WR_EXCEED_DENY);
    assert_int_equal(quota->plan[2].limit, 100);
    assert_int_equal(quota->plan[2].most, 110);
    assert_int_equal(quota->plan[2].on_exceed, WR_EXCEED_DENY);
    assert_int_equal(quota->plan[3].limit, 100);
    assert_int_equal(quota->plan[3].most, 150);
    assert_int_equal(quota->plan[3].on_exceed, WR_EXCEED_OVERAGE);
    wr_policy_free(policy);
}

/* Who is no customer passes a quota by customer: said, unless something else counts him. */
static void test_strangers(void **state)
{
    static const char warning[] =
        "5:31: warning: callers who are no customers are not counted by q, nor by any other limit "
        "for all paths: when_missing: deny refuses them, a limit by: [ip] holds them back, "
        "when_missing: skip says that they may pass\n";
    (void)state;

#define ALONE(more) \
    CUSTOMERS "limits:\n  - {name: q, by: [customer], " more "quota: {limit: 9, per: day}}\n"
    expect_warnings(ALONE(""), warning);
    expect_warnings(ALONE("when_missing: skip, "), "");
    expect_warnings(ALONE("when_missing: deny, "), "");
    expect_warnings(ALONE("") FLOOR, "");
    expect_warnings(ALONE("") "  - {name: b, by: [ip], match: {path: /b}, rate: 9/m}\n", warning);
    expect_warnings(ALONE("") "  - {name: b, by: [ip], mode: shadow, rate: 9/m}\n", warning);
#undef ALONE
}

static void test_a_plan_called_default(void **state)
{
    (void)state;
    expect_warnings(CUSTOMERS "plans:\n  free: {quotas: {q: 1}}\n  default: {quotas: {q: 2}}\n"
                              "limits:\n" FLOOR
                              "  - {name: q, by: [customer], quota: {per: day}}\n",
                    "6:3: warning: the plan called default is not the default one, which is free: "
                    "callers of whom nothing is known do not have it\n");
}

/* Two hard caps on the same; not where one counts other answers, or meters what is beyond. */
static void test_two_of_the_same(void **state)
{
#define TWO(a, b)                                            \
    QUOTA("limit: 9, per: day" a)                            \
    "  - {name: r, by: [customer], quota: {limit: 5, per: d" \
    "ay" b "}}\n"
    (void)state;
    expect_warnings(TWO("", ""),
                    "7:5: warning: r counts the same requests over the same windows as q: the "
                    "smaller one decides\n");
    expect_warnings(TWO("", ", count: {status: [4xx, 5xx]}"), "");
    expect_warnings(TWO(", on_exceed: overage", ""), "");
    expect_warnings(TWO("", ", zone: Europe/Istanbul"), "");
#undef TWO
#define TWO(b)                                              \
    QUOTA("limit: 5, per: day")                             \
    "  - {name: r, by: [customer], quota: {limit: 5, per: " \
    "day" b "}}\n"
    expect_warnings(TWO(""), "7:5: warning: r counts the same requests over the same windows as q: "
                             "the smaller one decides\n");
    expect_warnings(TWO(", count: {status: [2xx]}"), "");
    expect_warnings(TWO(", on_exceed: overage"), "");
#undef TWO
}

/* Hooks of a policy that has nothing for them, of one that has, and durations out of bounds. */
static void test_hooks(void **state)
{
    static const char hooks[] =
        HEAD "customers:\n  directory: /var/lib/weir\n  by: [api_key]\n"
             "  webhook: {url: \"https://example.com/h\", secret: 0123456789abcdef}\n"
             "  confirm_upgrade: {url: \"https://example.com/u\", secret: 0123456789abcdef}\n";
    char text[1200];
    (void)state;

    expect_warnings(QUOTA("limit: 10, per: day, grace: 20%, alert_at: [120%]"), "");
    expect_warnings(QUOTA("limit: 10, per: day, grace: 5%"),
                    "6:67: warning: grace: 5% of plan free's limit of 10 is less than one unit: "
                    "there is none\n");
    expect_warnings(QUOTA("limit: 20, per: day, grace: 5%"), "");
    expect_warnings(QUOTA("limit: 10, per: day, alert_at: [120%]"),
                    "6:70: warning: 120% is never reached: requests are refused before\n");
    (void)snprintf(
        text, sizeof text,
        "%slimits:\n" FLOOR "  - {name: q, by: [customer], quota: {limit: 9, per: day}}\n", hooks);
    expect_warnings(text,
                    "6:12: warning: webhook is told nothing: no quota says alert_at\n"
                    "7:20: warning: confirm_upgrade is asked nothing: no quota says on_exceed: "
                    "upgrade\n");
    (void)snprintf(
        text, sizeof text,
        "%splans:\n  free: {quotas: {q: {limit: 9, on_exceed: upgrade}}, upgrade_to: pro}\n"
        "  pro: {quotas: {q: 99}}\n"
        "limits:\n" FLOOR "  - {name: q, by: [customer], quota: {per: day, alert_at: 80%%}}\n",
        hooks);
    expect_warnings(text, "");
}

static void test_the_section_customers(void **state)
{
    struct wr_policy *policy = policy_of(
        HEAD
        "customers: {directory: /var/lib/weir, by: user, room: 7, flush: 250ms, keep: 400d, file: "
        "/etc/weir/customers.yaml, webhook: {url: \"https://example.com/h\", secret: "
        "0123456789abcdef}}\n"
        "limits:\n" FLOOR
        "  - {name: q, by: [customer], quota: {limit: 9, per: week, alert_at: 80%}}\n");
    const struct wr_policy_customers *customers = wr_policy_settings(policy)->customers;
    (void)state;

    assert_string_equal(customers->directory, "/var/lib/weir");
    assert_int_equal(customers->by_count, 1);
    assert_string_equal(customers->by[0], "user");
    assert_string_equal(wr_policy_identity(policy, customers->identity[0]), "user");
    assert_int_equal(customers->room, 7);
    assert_int_equal(customers->flush_ns, 250000000);
    assert_true(customers->keep_ns == 400 * WR_NS_PER_DAY);
    assert_string_equal(customers->file, "/etc/weir/customers.yaml");
    assert_string_equal(customers->webhook.url, "https://example.com/h");
    assert_true(customers->webhook.timeout_ns == 10 * WR_NS_PER_S);
    assert_true(customers->webhook.give_up_ns == WR_NS_PER_DAY);
    assert_null(customers->confirm_upgrade.url);
    wr_policy_free(policy);
    policy = policy_of("version: 1\narena: {path: /run/weir/arena}\n"
                       "identity: {api_key: {header: K}}\ncustomers:\n"
                       "limits:\n  - {name: a, by: [ip], rate: 5/s}\n");
    customers = wr_policy_settings(policy)->customers;
    assert_string_equal(customers->directory, "/run/weir/arena.customers");
    assert_string_equal(customers->by[0], "api_key");
    assert_int_equal(customers->room, 65536);
    assert_int_equal(customers->flush_ns, 1000000000);
    assert_int_equal(customers->keep_ns, 0); /* for ever */
    wr_policy_free(policy);
}

/* ---- shared -----------------------------------------------------------------------------------
 */

/* ---- what is refused ------------------------------------------------------------------------ */

static void test_bad_values(void **state)
{
    (void)state;
    expect_errors(
        QUOTA("limit: 5, per: day, zone: posixrules"),
        "6:65: error: zone: expected a name of the tz database such as Europe/Istanbul, "
        "found \"posixrules\": what it is depends on the machine: name the zone itself\n");
    expect_errors(QUOTA("limit: 5, per: day, zone: Europe/Istambul"),
                  "6:65: error: zone: expected a name of the tz database such as Europe/Istanbul, "
                  "found \"Europe/Istambul\" (did you mean Europe/Istanbul?)\n");
    expect_errors(QUOTA("limit: 5, per: day, zone: istanbul"),
                  "6:65: error: zone: expected a name of the tz database such as Europe/Istanbul, "
                  "found \"istanbul\" (did you mean Europe/Istanbul?)\n");
    expect_errors(QUOTA("limit: 5, per: month, anchor: 0"),
                  "6:69: error: anchor: expected the day of the month that months begin on, 1 to "
                  "31, or customer, found \"0\"\n");
    expect_errors(QUOTA("limit: 5, per: month, anchor: 32"),
                  "6:69: error: anchor: expected the day of the month that months begin on, 1 to "
                  "31, or customer, found \"32\"\n");
    expect_errors(QUOTA("limit: 5, per: day, anchor: 3"),
                  "6:59: error: anchor: expected only with per: month, found per: day\n");
    expect_errors(QUOTA("limit: 5, per: day, grace: 200%"),
                  "6:66: error: grace: expected a share such as 5%, at most 100%, or units, at "
                  "most the limit of 5, found \"200%\"\n");
    expect_errors(
        QUOTA("limit: 5, per: day, alert_at: [0%]"),
        "6:70: error: alert_at: expected shares of the limit, 1% to 200%, found \"0%\"\n");
    expect_errors(QUOTA("limit: 5, per: day, on_exceed: overage, ceiling: 4"),
                  "6:88: error: ceiling: expected at least the limit of 5 of plan free, found 4\n");
    expect_errors(QUOTA("limit: 5, per: day, ceiling: 9"),
                  "6:68: error: ceiling: expected only with on_exceed: overage\n");
    expect_errors(QUOTA("limit: 5, per: day, on_exceed: upgrade"),
                  "6:70: error: on_exceed: upgrade: expected plan free to have upgrade_to in "
                  "plans, found none\n");
    expect_errors(QUOTA("limit: 5, per: day, count: {status: [2xx, 600]}"),
                  "6:81: error: status: expected 1xx, 2xx, 3xx, 4xx or 5xx, found \"600\"\n");
    expect_errors(QUOTA("limit: 5, per: year"),
                  "6:54: error: per: expected day, week or month, found \"year\"\n");
    expect_errors(QUOTA("per: day"), "6:38: error: quota: expected limit: N for plan \"free\", or "
                                     "one for the default plan, \"free\", found neither\n");
    expect_errors(QUOTA("limit: 5"),
                  "6:38: error: quota: expected per: day, week or month, found none\n");
#define KEEP(value)                                                \
    HEAD "customers: {directory: /d, by: user, keep: " value "}\n" \
         "limits:\n  - {name: a, by: [ip], rate: 5/s}\n"
    expect_errors(KEEP("61d"), "3:44: error: keep \"61d\": expected 62d to 36500d\n");
    expect_errors(KEEP("36501d"), "3:44: error: keep \"36501d\": expected 62d to 36500d\n");
    expect_errors(KEEP("400"), "3:47: error: keep \"400\": expected a unit: second, minute, hour, "
                               "day or week (ms, s, m, h, d, w)\n");
    expect_errors(KEEP("[]"), "3:44: error: keep an empty list: expected a duration such as 1s\n");
    expect_errors(KEEP("never"), "3:44: error: keep \"never\": expected a number\n");
#undef KEEP
}

static void test_what_does_not_go_together(void **state)
{
    (void)state;
    expect_errors(CUSTOMERS "limits:\n" FLOOR
                            "  - {name: q, by: [customer], rate: 5/s, quota: {limit: 5, per: "
                            "day}}\n",
                  "6:42: error: quota: expected one of rate, concurrent and quota, found it beside "
                  "rate: write two limits\n");
    expect_errors(HEAD "limits:\n  - {name: q, by: [customer], quota: {limit: 5, per: day}}\n",
                  "4:20: error: by: customer: expected a section customers in the policy, found "
                  "none\n");
    expect_errors(CUSTOMERS "limits:\n"
                            "  - {name: q, by: [ip], quota: {limit: 5, per: day, on_exceed: "
                            "overage}}\n",
                  "5:64: error: on_exceed: \"overage\": expected only with by: [customer], as "
                  "other counts are not billed\n");
    expect_errors(CUSTOMERS "limits:\n" FLOOR
                            "  - {name: q, by: [customer], when_missing: ip, quota: {limit: 5, "
                            "per: day}}\n",
                  "6:45: error: when_missing: expected skip or deny with a quota by customer: an "
                  "address is no customer\n");
}

static void test_bad_plans(void **state)
{
    (void)state;
    expect_errors(CUSTOMERS "plans: {free: {upgrade_to: free}}\nlimits:\n" FLOOR,
                  "4:28: error: upgrade_to: expected another plan, found free itself\n");
    expect_errors(CUSTOMERS "plans: {free: {upgrade_to: prp}, pro: {}}\nlimits:\n" FLOOR,
                  "4:28: error: upgrade_to: expected one of plans, found \"prp\" (did you mean "
                  "pro?)\n");
    expect_errors(CUSTOMERS "plans: {free: {upgrade_to: pro}, pro: {upgrade_to: free}}\n"
                            "limits:\n" FLOOR,
                  "4:28: error: upgrade_to: from free, upgrades come back to free\n");
    expect_errors(CUSTOMERS "plans: {free: {quotas: {floor: 5}, limits: {flour: 5/s}}}\n"
                            "limits:\n" FLOOR,
                  "4:25: error: quotas: floor is a limit without quota: expected it under limits\n"
                  "4:45: error: limits: expected the name of a limit, found \"flour\" (did you "
                  "mean floor?)\n");
    expect_errors(CUSTOMERS "plans: {free: {}, pro: {}}\n"
                            "limits: [{name: a, by: [ip], rate: {free: 1/s, prp: 2/s}}]\n",
                  "5:48: error: expected one of plans, found \"prp\" (did you mean pro?)\n");
}

/* ---- selecting ------------------------------------------------------------------------------ */

/* The customers: "ann" by api_key is 7, of the file's plan 1; "bob" by user is 8, of plan 9, which
 * the policy does not know; "sue" is suspended; "up" wants to be upgraded from plan 0. */
static bool find(void *context, unsigned by, struct weir_slice value, struct wr_customer_seen *out)
{
    static const struct {
        unsigned by;
        const char *value;
        struct wr_customer_seen seen;
    } all[] = {{0, "ann", {7, 0, 1, 0, WR_CUSTOMER_ACTIVE}},
               {1, "bob", {8, 1, 9, 0, WR_CUSTOMER_ACTIVE}},
               {0, "sue", {9, 2, 1, 0, WR_CUSTOMER_ACTIVE | WR_CUSTOMER_SUSPENDED}},
               {0, "up", {10, 3, 0, 0, WR_CUSTOMER_ACTIVE | WR_CUSTOMER_WANTS_UPGRADE}}};

    ++*(unsigned *)context;
    *out = (struct wr_customer_seen){0};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i].by != by || strlen(all[i].value) != value.len ||
            memcmp(all[i].value, value.ptr, value.len) != 0)
            continue;
        *out = all[i].seen;
        return true;
    }
    return false;
}

static int plan(void *context, unsigned file_plan)
{
    (void)context;
    return file_plan < 2 ? (int)file_plan : -1;
}

static void test_customers_are_found(void **state)
{
    struct wr_policy *policy = policy_of(
        PLANS "limits:\n" FLOOR
              "  - {name: q, by: [customer], quota: {limit: 7, per: day, on_exceed: upgrade}}\n");
    unsigned asked = 0;
    const struct wr_customer_finder finder = {NULL, find, plan, &asked};
    struct wr_selection sel;
    struct asking a;
    (void)state;

    ask(&a, policy, "GET", "/", "9.9.9.9");
    wr_policy_select_with(policy, &a.request, &finder, &sel);
    assert_int_equal(asked, 0); /* there is nothing to ask by */
    assert_false(sel.customer_known);
    assert_int_equal(sel.count, 1); /* the quota is skipped */
    put_header(&a, policy, "X-Api-Key", "ann");
    wr_policy_select(policy, &a.request, &sel);
    assert_false(sel.customer_known);
    wr_policy_select_with(policy, &a.request, &finder, &sel);
    assert_true(sel.customer_known);
    assert_int_equal(sel.plan, 1);
    assert_int_equal(sel.plan_from, WR_PLAN_CUSTOMER);
    assert_int_equal(sel.count, 2);
    assert_int_equal(sel.selected[1].part[0].kind, WR_PART_CUSTOMER);
    assert_int_equal(sel.selected[1].part[0].bytes.len, 8);
    assert_memory_equal(sel.selected[1].part[0].bytes.ptr, &(uint64_t){7}, 8);
    a.request.plan = 0; /* the host program goes before the customer */
    wr_policy_select_with(policy, &a.request, &finder, &sel);
    assert_int_equal(sel.plan, 0);
    a.request.plan = -1;
    put_header(&a, policy, "X-Api-Key", "nobody");
    put_key(&a, policy, "user", "bob");
    wr_policy_select_with(policy, &a.request, &finder, &sel);
    assert_int_equal(sel.customer.id, 8);
    assert_int_equal(sel.plan_from, WR_PLAN_DEFAULT); /* his plan is not of this policy */
    put_header(&a, policy, "X-Api-Key", "sue");
    wr_policy_select_with(policy, &a.request, &finder, &sel);
    assert_true(sel.banned);
    put_header(&a, policy, "X-Api-Key", "up");
    wr_policy_select_with(policy, &a.request, &finder, &sel);
    assert_false(sel.banned);
    assert_int_equal(sel.plan, 1);
    wr_policy_free(policy);
}

/* What plan 0 is told of |path|. */
static int16_t wanted(const struct wr_policy *policy, unsigned plan_index, const char *path,
                      bool excluded)
{
    struct wr_selection sel;
    struct asking a;

    ask(&a, policy, "GET", path, "9.9.9.9");
    a.request.plan = (int)plan_index;
    wr_policy_select(policy, &a.request, &sel);
    assert_int_equal(sel.plan_excludes, excluded);
    return sel.plan_wanted;
}

static void test_routes_of_plans(void **state)
{
    struct wr_policy *policy =
        policy_of(HEAD "plans:\n"
                       "  free: {routes: {allow: [/a/**, /b]}, upgrade_to: mid}\n"
                       "  mid: {routes: {deny: [/x/**]}, upgrade_to: top}\n"
                       "  top: {routes: {deny: [/never]}}\n"
                       "limits:\n" FLOOR);
    (void)state;

    assert_int_equal(wanted(policy, 0, "/a/1", false), -1);
    assert_int_equal(wanted(policy, 0, "/b", false), -1);
    assert_int_equal(wanted(policy, 0, "/c", true), 1);
    assert_int_equal(wanted(policy, 0, "/x/1", true), 2);
    assert_int_equal(wanted(policy, 1, "/x/1", true), 2);
    assert_int_equal(wanted(policy, 1, "/c", false), -1);
    assert_int_equal(wanted(policy, 2, "/x", false), -1);
    assert_int_equal(wanted(policy, 2, "/never", true), -1);
    assert_int_equal(wanted(policy, 1, "/x%2F1", true), 2); /* in one reading */
    assert_int_equal(wanted(policy, 0, "/b%2Fc", true), 1);
    wr_policy_free(policy);
}

static int64_t cost(const struct wr_policy *policy, int plan_index, const char *path)
{
    struct wr_selection sel;
    struct asking a;

    ask(&a, policy, "GET", path, "9.9.9.9");
    a.request.plan = plan_index;
    wr_policy_select(policy, &a.request, &sel);
    return sel.cost;
}

static void test_costs_of_plans(void **state)
{
    struct wr_policy *policy =
        policy_of(HEAD "plans: {free: {}, pro: {costs: [{match: {path: /s}, cost: 2}]}}\n"
                       "costs: [{match: {path: /s}, cost: 5}, {match: {path: /**}, cost: 3}]\n"
                       "limits:\n" FLOOR);
    size_t index;
    (void)state;

    assert_int_equal(cost(policy, 0, "/s"), 5);
    assert_int_equal(cost(policy, 1, "/s"), 2);
    assert_int_equal(cost(policy, 1, "/t"), 3);
    assert_int_equal(wr_policy_cost_rule(policy, 1, &index), -1);
    assert_int_equal(index, 1);
    assert_int_equal(wr_policy_cost_rule(policy, 2, &index), 1);
    assert_int_equal(index, 0);
    wr_policy_free(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_of_a_quota),
        cmocka_unit_test(test_plans_differ),
        cmocka_unit_test(test_what_plans_borrow),
        cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_a_plan_called_default),
        cmocka_unit_test(test_two_of_the_same),
        cmocka_unit_test(test_hooks),
        cmocka_unit_test(test_the_section_customers),
        cmocka_unit_test(test_bad_values),
        cmocka_unit_test(test_what_does_not_go_together),
        cmocka_unit_test(test_bad_plans),
        cmocka_unit_test(test_customers_are_found),
        cmocka_unit_test(test_routes_of_plans),
        cmocka_unit_test(test_costs_of_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
