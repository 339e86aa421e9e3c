/* quota_nodes.c - see quota_nodes.h.
 *
 * The model is one list of requests that were let through. A quota's count is their sum, a unit is
 * overage when as many as the limit were counted before it. Plans are each node's own: who is moved
 * on one node is moved on the other when he first meets the end there.
 *
 * A settlement above the estimate is the one thing that is not as on one machine: nobody knows how
 * many were counted meanwhile, so its units count as if they had been part of the request. */
#include "quota_nodes.h"

#include <sys/stat.h>

#include "engine/shared.h"
#include "model/schedule.h"
#include "store/customers.h"
#include "store/usage.h"
#include "unit/engine/fixture.h"

#include "lib/handle.h"

#define NODES 3
#define ROUNDS 40
#define STEPS 120
#define DAYS 8 /* that a round lasts at most */
#define KEPT 400
#define DAY_NS WR_NS_PER_DAY
#define NEVER (-1)
#define WEEKLY 260

static const char policy[] =
    "version: 1\n"
    "arena: {path: %s/arena, size: 2MiB}\n"
    "store: {redis: {url: \"redis://127.0.0.1:1/0\"}}\n"
    "identity: {api_key: {header: X-Api-Key}, plan: {default: free}}\n"
    "customers: {directory: %s/customers, by: [api_key], room: 400}\n"
    "plans:\n"
    "  free: {quotas: {daily: {limit: 20, on_exceed: upgrade}}, upgrade_to: pro}\n"
    "  pro:\n"
    "    quotas: {daily: {limit: 40, on_exceed: overage, ceiling: 70}}\n"
    "    costs: [{match: {path: /twice}, cost: 2}]\n"
    "  graced: {quotas: {daily: {limit: 30, grace: 20%%}}}\n"
    "  open: {quotas: {daily: {limit: 25, on_exceed: overage}}}\n"
    "limits:\n"
    "  - name: daily\n"
    "    by: [customer]\n"
    "    shared: true\n"
    "    when_store_gone: closed\n"
    "    quota: {limit: 20, per: day, count: {status: [2xx]}}\n"
    "  - {name: weekly, by: [customer], shared: true, quota: {limit: 260, per: week}}\n";

/* ---- the model ----------------------------------------------------------------------------- */

enum { FREE, PRO, GRACED, OPEN, PLANS };

static const struct {
    const char *name;
    int64_t limit, most, twice;
    bool overage;
    int next;
} plans[PLANS] = {{"free", 20, 20, 1, false, PRO},
                  {"pro", 40, 70, 2, true, NEVER},
                  {"graced", 30, 36, 1, false, NEVER},
                  {"open", 25, INT64_MAX, 1, true, NEVER}};

/* A request that was let through. */
struct passed {
    unsigned node, who, day;
    int plan;
    int64_t before, cost, weekly;
    bool ended, settled;
    struct weir_answer answer;
};

struct world {
    struct schedule s;
    int64_t start_ns, now_ns;
    bool returns; /* requests are settled and ended */
    int plan[NODES][PLANS];
    struct passed passed[KEPT];
    unsigned count;
    int64_t over[NODES][PLANS][DAYS];             /* what each has booked */
    int64_t more[PLANS][DAYS], less[PLANS][DAYS]; /* units on top of estimates, and given back */
};

static unsigned day_of(const struct world *w)
{
    return (unsigned)((w->now_ns - w->start_ns) / DAY_NS);
}

static int64_t used_on(const struct world *w, unsigned who, unsigned day)
{
    int64_t units = 0;

    for (unsigned i = 0; i < w->count; i++)
        if (w->passed[i].who == who && w->passed[i].day == day)
            units += w->passed[i].cost;
    return units;
}

static int64_t used_in_week(const struct world *w, unsigned who)
{
    int64_t units = 0;

    for (unsigned i = 0; i < w->count; i++)
        if (w->passed[i].who == who && w->passed[i].day / 7 == day_of(w) / 7)
            units += w->passed[i].weekly;
    return units;
}

/* One unit after the other. */
static int64_t over_of(const struct passed *p)
{
    int64_t over = 0;

    for (int64_t unit = 1; unit <= p->cost; unit++)
        over += plans[p->plan].overage && p->before + unit > plans[p->plan].limit;
    return over;
}

static bool fits(int64_t used, int64_t cost, int64_t most)
{
    return cost == 0 || (most == INT64_MAX ? true : used + cost <= most);
}

/* ---- nodes ---------------------------------------------------------------------------------- */

struct place {
    char folder[64];
    struct weir *weir;
    struct wr_customers *map;
    struct wr_usage *usage;
};
static struct place places[NODES];
static const struct quota_store *store;
static int64_t today;

static void open_place(struct place *place)
{
    char text[2000], path[128], errors[4000];
    struct wr_customers_options options = {.path = path, .writer = true};
    struct wr_usage_options usage = {.path = path, .name = "daily", .per = 1, .must_exist = true};
    FILE *file;

    (void)snprintf(place->folder, sizeof place->folder, "/tmp/weir-test-nodes-XXXXXX");
    assert_non_null(mkdtemp(place->folder));
    (void)snprintf(text, sizeof text, policy, place->folder, place->folder);
    (void)snprintf(path, sizeof path, "%s/policy.yaml", place->folder);
    file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs(text, file);
    (void)fclose(file);
    if (weir_open(&place->weir, path, NULL, errors, sizeof errors) != 0)
        fail_msg("%s", errors);
    (void)snprintf(path, sizeof path, "%s/customers/" WR_CUSTOMERS_NAME, place->folder);
    assert_int_equal(wr_customers_open(&place->map, &options, NULL), 0);
    (void)snprintf(path, sizeof path, "%s/customers/daily" WR_USAGE_SUFFIX, place->folder);
    assert_int_equal(wr_usage_open(&place->usage, &usage, NULL), 0);
}

static void close_place(struct place *place)
{
    static const char *const names[] = {"customers/daily.usage",
                                        "customers/weekly.usage",
                                        "customers/" WR_CUSTOMERS_NAME,
                                        "arena",
                                        "policy.yaml",
                                        "customers"};
    char path[128];

    wr_usage_close(place->usage);
    wr_customers_close(place->map);
    weir_close(place->weir);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(path, sizeof path, "%.63s/%.63s", place->folder, names[i]);
        (void)remove(path);
    }
    (void)rmdir(place->folder);
}

static int open_all(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NODES; i++)
        open_place(&places[i]);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NODES; i++)
        close_place(&places[i]);
    return 0;
}

/* Customers are new in each round: a store remembers the old ones. */
static uint32_t number_of(const struct world *w, unsigned who)
{
    return (w->s.round * 2 + w->returns) * PLANS + who;
}

static void key_of(const struct world *w, unsigned who, char key[16])
{
    (void)snprintf(key, 16, "key-%u", number_of(w, who));
}

static void add_customer(const struct world *w, unsigned node, unsigned who)
{
    struct wr_customers *map = places[node].map;
    int plan = wr_customers_plan(map, plans[who].name);
    struct wr_customer_record record = {.id = 1000 + (int64_t)number_of(w, who),
                                        .plan = (uint8_t)plan,
                                        .plan_after = (uint8_t)plan,
                                        .flags = WR_CUSTOMER_ACTIVE,
                                        .until_ns = INT64_MAX};
    unsigned char digest[WR_SHA256_BYTES];
    char key[16];

    assert_true(plan >= 0);
    key_of(w, who, key);
    assert_int_equal(wr_customers_set(map, number_of(w, who), &record, true), 0);
    wr_customer_digest(slice("api_key"), slice(key), digest);
    assert_int_equal(wr_customers_key_set(map, digest, number_of(w, who)), 0);
}

/* As the daemon asks: what is begun anew is asked once more. */
static struct weir_answer ask(struct place *place, struct weir_request *request, int64_t now_ns)
{
    struct wr_engine *engine = place->weir->engine;
    struct weir_answer answer;
    struct wr_pending p;

    for (int tries = 0; tries < 2; tries++) {
        uint32_t refund;
        if (wr_engine_begin(engine, request, now_ns, &answer, &p))
            return answer;
        store->take(&p.call, now_ns);
        refund = wr_engine_finish(engine, &p, WR_REMOTE_DONE, NODES, now_ns, &answer);
        for (unsigned i = 0; i < p.call.count; i++)
            if ((refund >> i & 1) != 0)
                store->refund(&p.call.charge[i], p.call.charge[i].cost, now_ns);
        if (p.upgrade_to < 0)
            return answer;
        request->plan = p.upgrade_to;
    }
    fail_msg("moved twice by one request");
    return answer;
}

static const struct weir_verdict *verdict_of(const struct weir_answer *answer, unsigned limit)
{
    for (unsigned i = 0; i < answer->count; i++)
        if (answer->verdicts[i].limit == limit)
            return &answer->verdicts[i];
    return NULL;
}

/* ---- requests ------------------------------------------------------------------------------ */

static int64_t wait_of(const struct world *w, int64_t cost, int64_t most, int64_t length_ns)
{
    return cost > most ? WEIR_NEVER : length_ns - (w->now_ns - w->start_ns) % length_ns;
}

static int64_t longer(int64_t a, int64_t b)
{
    return a == WEIR_NEVER || b == WEIR_NEVER ? WEIR_NEVER : wr_max_i64(a, b);
}

/* What is left of both quotas, and when a refused request may come again. A quota that lets it pass
 * says what would be left. */
static void check_answer(struct world *w, const struct passed *p, const struct weir_answer *answer,
                         bool pass)
{
    const struct weir_verdict *daily = verdict_of(answer, 0), *weekly = verdict_of(answer, 1);
    int64_t used = used_on(w, p->who, p->day), week = used_in_week(w, p->who), wait_ns = 0;
    bool by_day = fits(used, p->cost, plans[p->plan].most), by_week = fits(week, p->cost, WEEKLY);
    int64_t left = plans[p->plan].limit - used - (by_day ? p->cost : 0);

    CHECK(&w->s, daily != NULL && weekly != NULL);
    CHECK(&w->s, daily->capacity_units == plans[p->plan].limit);
    CHECK(&w->s, daily->remaining_units == wr_max_i64(0, left));
    CHECK(&w->s, weekly->remaining_units == wr_max_i64(0, WEEKLY - week - (by_week ? p->cost : 0)));
    CHECK(&w->s, (daily->outcome == WEIR_ALLOW) == by_day);
    CHECK(&w->s, (weekly->outcome == WEIR_ALLOW) == by_week);
    if (pass)
        return;
    if (!by_day)
        wait_ns = wait_of(w, p->cost, plans[p->plan].most, DAY_NS);
    if (!by_week)
        wait_ns = longer(wait_ns, wait_of(w, p->cost, WEEKLY, 7 * DAY_NS));
    CHECK(&w->s, answer->retry_after_ns == wait_ns);
}

/* What the model says of |p|; where he moves, the plan is the next. */
static bool decide_by_model(struct world *w, struct passed *p, bool twice, bool peek)
{
    int64_t used = used_on(w, p->who, p->day);
    bool week = fits(used_in_week(w, p->who), p->cost, WEEKLY);

    if (fits(used, p->cost, plans[p->plan].most) || !week || plans[p->plan].next == NEVER)
        return week && fits(used, p->cost, plans[p->plan].most);
    p->plan = plans[p->plan].next;
    if (!peek)
        w->plan[p->node][p->who] = p->plan;
    if (twice)
        p->cost = plans[p->plan].twice;
    return fits(used_in_week(w, p->who), p->cost, WEEKLY) &&
           fits(used, p->cost, plans[p->plan].most);
}

static void one_request(struct world *w)
{
    struct passed p = {.node = (unsigned)schedule_below(&w->s, NODES),
                       .who = (unsigned)schedule_below(&w->s, PLANS),
                       .day = day_of(w)};
    bool twice = schedule_one_in(&w->s, 3), peek = schedule_one_in(&w->s, 6), pass;
    struct call call = {.path = twice ? "/twice" : "/", .peek = peek};
    struct weir_slice fields[FIELDS_MAX];
    struct weir_request request;
    char key[16];

    p.plan = w->plan[p.node][p.who];
    p.cost =
        twice ? plans[p.plan].twice : 1 + schedule_below(&w->s, schedule_one_in(&w->s, 6) ? 45 : 5);
    key_of(w, p.who, key);
    call.api_key = key;
    call.cost = twice ? 0 : p.cost;
    request = request_of(places[p.node].weir, &call, fields);
    p.answer = ask(&places[p.node], &request, w->now_ns);
    pass = decide_by_model(w, &p, twice, peek);
    CHECK(&w->s, p.answer.outcome == (pass ? WEIR_ALLOW : WEIR_DENY));
    CHECK(&w->s, p.answer.plan == p.plan && p.answer.cost_units == p.cost);
    if (peek)
        return;
    check_answer(w, &p, &p.answer, pass);
    if (!pass)
        return;
    p.before = used_on(w, p.who, p.day);
    p.weekly = p.cost;
    CHECK(&w->s, w->count < KEPT);
    w->over[p.node][p.who][p.day] += over_of(&p);
    w->passed[w->count++] = p;
}

/* ---- afterwards ---------------------------------------------------------------------------- */

static void adjust(const struct wr_pending *p, int64_t now_ns)
{
    for (unsigned i = 0; i < p->call.count; i++) {
        if (p->adjust[i] > 0)
            store->force(&p->call.charge[i], p->adjust[i], now_ns);
        if (p->adjust[i] < 0)
            store->refund(&p->call.charge[i], -p->adjust[i], now_ns);
    }
}

/* |p| costs |cost| after all. What comes back is overage first. */
static void becomes(struct world *w, struct passed *p, int64_t cost)
{
    int64_t *over = &w->over[p->node][p->who][p->day], was = over_of(p), units = p->cost - cost;

    p->cost = cost;
    w->more[p->who][p->day] += wr_max_i64(0, -units);
    w->less[p->who][p->day] += wr_max_i64(0, units);
    if (units < 0)
        *over += over_of(p) - was;
    for (; units > 0 && *over > 0 && plans[p->plan].overage; units--)
        --*over;
}

/* Some request of today turns out to have cost |cost|, or not to count at all. */
static void come_back(struct world *w)
{
    struct passed *p = &w->passed[schedule_below(&w->s, w->count)];
    struct wr_engine *engine = places[p->node].weir->engine;
    struct wr_pending out;

    if (p->ended || p->day != day_of(w))
        return;
    if (!p->settled && schedule_one_in(&w->s, 2)) {
        p->answer.expires_ns = w->now_ns + WR_NS_PER_S;
        becomes(w, p, schedule_below(&w->s, 9));
        p->weekly = p->cost;
        p->settled = true;
        CHECK(&w->s, wr_engine_settle_shared(engine, &p->answer, p->cost, w->now_ns, &out) == 0);
        adjust(&out, w->now_ns);
    }
    if (schedule_one_in(&w->s, 2)) { /* weekly counts every status */
        p->ended = true;
        wr_engine_ended_shared(engine, &p->answer, 500, w->now_ns, &out);
        adjust(&out, w->now_ns);
        becomes(w, p, 0);
    }
}

/* ---- what was booked ------------------------------------------------------------------------ */

static void read_cell(const struct world *w, unsigned node, unsigned who, unsigned day,
                      int64_t *used, int64_t *over)
{
    struct wr_usage_window windows[WR_USAGE_WINDOWS];
    unsigned count = wr_usage_read(places[node].usage, number_of(w, who), windows);
    int64_t first = w->start_ns / DAY_NS;

    *used = *over = 0;
    for (unsigned i = 0; i < count; i++)
        if (windows[i].day == first + day) {
            *used = (int64_t)windows[i].units;
            *over = (int64_t)windows[i].over;
        }
}

/* Of one customer and day: each node's own part, and the sum. */
static void check_books(struct world *w, unsigned who, unsigned day)
{
    int64_t all_used = 0, all_over = 0;

    for (unsigned node = 0; node < NODES; node++) {
        int64_t used, over, as_used = 0, as_over = w->over[node][who][day];
        for (unsigned i = 0; i < w->count; i++) {
            const struct passed *p = &w->passed[i];
            if (p->who != who || p->day != day || p->node != node)
                continue;
            as_used += p->cost;
        }
        read_cell(w, node, who, day, &used, &over);
        CHECK(&w->s, used == as_used && over == as_over);
        all_used += used;
        all_over += over;
    }
    if (who == GRACED)
        CHECK(&w->s, all_over == 0);
    if (who ==
        OPEN) { /* a bill is what lies beyond the limit of all, to the unit, or so much off */
        int64_t beyond = wr_max_i64(0, all_used - plans[OPEN].limit);
        CHECK(&w->s, all_over >= beyond - w->more[who][day]);
        CHECK(&w->s, all_over <= beyond + w->less[who][day]);
    }
}

static void run(bool returns)
{
    static struct world w;

    w = (struct world){.s = schedule_start(), .returns = returns};
    w.start_ns = (today / DAY_NS - (today / DAY_NS + 3) % 7) * DAY_NS; /* a Monday */
    for (w.s.round = 0; w.s.round < ROUNDS; w.s.round++) {
        w.now_ns = w.start_ns + schedule_below(&w.s, DAY_NS / 1000) * 1000;
        w.count = 0;
        memset(w.over, 0, sizeof w.over);
        memset(w.more, 0, sizeof w.more);
        memset(w.less, 0, sizeof w.less);
        for (unsigned node = 0; node < NODES; node++)
            for (unsigned who = 0; who < PLANS; who++) {
                w.plan[node][who] = (int)who;
                add_customer(&w, node, who);
            }
        for (w.s.step = 0; w.s.step < STEPS; w.s.step++) {
            if (schedule_one_in(&w.s, 40) && day_of(&w) + 2 < DAYS)
                w.now_ns += 1000 * schedule_below(&w.s, 2 * DAY_NS / 1000);
            one_request(&w);
            if (returns && w.count > 0 && schedule_one_in(&w.s, 3))
                come_back(&w);
            check_books(&w, w.s.step % PLANS, day_of(&w));
        }
    }
}

static void as_the_model_says(void **state)
{
    (void)state;
    run(false);
}

static void also_of_what_is_given_back(void **state)
{
    (void)state;
    run(true);
}

int quota_nodes_run(const struct quota_store *over, int64_t today_ns)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(as_the_model_says, open_all, close_all),
        cmocka_unit_test_setup_teardown(also_of_what_is_given_back, open_all, close_all),
    };

    store = over;
    today = today_ns;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
