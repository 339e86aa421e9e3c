/* shared.c - requests that meet shared limits: strict, leased, mixed with local ones; and with the
 * store gone. */
#include "shared_fixture.h"

#define HEAD                                                            \
    "version: 1\n"                                                      \
    "identity: {api_key: {header: X-Api-Key}}\n"                        \
    "store: {ring: {self: a:1, peers: [b:1], password: p}, nodes: 4}\n" \
    "limits:\n"
#define STRICT(name, rate) "  - {name: " name ", by: [api_key], rate: " rate ", shared: true}\n"
#define LEASED(name, rate) \
    "  - {name: " name ", by: [api_key], rate: " rate ", shared: true, store_mode: leased}\n"
#define LOCAL(name, rate) "  - {name: " name ", by: [ip], rate: " rate "}\n"
#define GONE(rate, when) \
    "  - {name: all, by: [api_key], rate: " rate ", shared: true, when_store_gone: " when "}\n"

static const struct call k = {.api_key = "k"};

static struct node node_of(const char *policy)
{
    return (struct node){.weir = open_text(policy, ""),
                         .store = memory_store_new(1),
                         .ttl_ns = 100 * MS,
                         .nodes = 1};
}

static void close_node(struct node *node)
{
    weir_close(node->weir);
    memory_store_free(node->store);
}

static void expect(const struct weir_answer *answer, unsigned outcome, int64_t remaining)
{
    assert_int_equal(answer->outcome, outcome);
    assert_int_equal(answer->verdicts[answer->decisive].remaining_units, remaining);
}

/* ---- strict ------------------------------------------------------------------------------ */

static void test_strict_asks_each_time(void **state)
{
    struct node node = node_of(HEAD STRICT("all", "3/minute burst 3"));
    struct weir_answer a;
    (void)state;

    a = decide(node.weir, T0, k);
    assert_int_equal(a.outcome, WEIR_ASK);
    assert_int_equal(a.count, 0);
    assert_int_equal(a.decisive, -1);
    for (int left = 2; left >= 0; left--) {
        a = request(&node, T0, k);
        assert_true(node.asked);
        expect(&a, WEIR_ALLOW, left);
    }
    a = request(&node, T0 + S, k);
    assert_true(node.asked);
    expect(&a, WEIR_DENY, 0);
    assert_int_equal(a.reason, WEIR_REASON_LIMIT);
    assert_int_equal(a.retry_after_ns, 19 * S); /* a token each 20 s */
    a = request(&node, T0 + 20 * S, k);
    expect(&a, WEIR_ALLOW, 0);
    assert_int_equal(memory_store_calls(node.store), 5);
    close_node(&node);
}

static void test_what_is_asked(void **state)
{
    /* SHA-256 of: 8 bytes secret length 0; kind 0, length 1, "k" -- and of kind 1, length 16,
     * ::ffff:192.0.2.1. By Python's hashlib. */
    static const unsigned char tag_k[] = {0xa6, 0x8b, 0xea, 0x17, 0x27, 0x3e, 0x99, 0x4d,
                                          0x84, 0x3f, 0x84, 0x21, 0x36, 0xe1, 0xef, 0x37};
    static const unsigned char tag_ip[] = {0x6c, 0x21, 0x7f, 0x54, 0x27, 0x64, 0x00, 0xaa,
                                           0x95, 0xa8, 0x37, 0x0c, 0x1d, 0xb6, 0xf2, 0x1e};
    static const unsigned char tag_secret[] = {0x1f, 0x47, 0x05, 0x59, 0xc6, 0x41, 0xb6, 0x5c,
                                               0x09, 0xc2, 0x67, 0x23, 0xee, 0x8f, 0x23, 0x30};
    struct node node =
        node_of(HEAD STRICT("one", "3/minute") LOCAL("two", "9/minute") //
                "  - {name: three, by: [ip], concurrent: 2, shared: true, mode: shadow}\n");
    const struct wr_remote_call *call = &node.pending.call;
    struct call five = {.api_key = "k", .cost = 3};
    struct weir_answer a;
    (void)state;

    assert_false(begin_call(&node, T0, five, &a));
    assert_int_equal(call->count, 2);
    assert_int_equal(call->now_ns, T0);
    assert_int_equal(call->shadow, 2);
    assert_string_equal(call->charge[0].name, "one");
    assert_int_equal(call->charge[0].cost, 3);
    assert_int_equal(call->charge[0].extra, 0);
    assert_memory_equal(call->charge[0].tag, tag_k, sizeof tag_k);
    assert_string_equal(call->charge[1].name, "three");
    assert_int_equal(call->charge[1].cost, 1); /* a place is one place */
    assert_int_not_equal(call->charge[1].place, 0);
    assert_memory_equal(call->charge[1].tag, tag_ip, sizeof tag_ip);
    wr_engine_store_secret(node.weir->engine, "0123456789abcdef", 16);
    assert_false(begin_call(&node, T0, five, &a));
    assert_memory_equal(call->charge[0].tag, tag_secret, sizeof tag_secret);
    close_node(&node);
}

static void test_what_can_never_pass(void **state)
{
    struct node node = node_of(HEAD STRICT("all", "3/minute"));
    struct weir_answer a = request(&node, T0, (struct call){.api_key = "k", .cost = 4});
    (void)state;

    assert_int_equal(a.outcome, WEIR_DENY);
    assert_int_equal(a.reason, WEIR_REASON_CAPACITY);
    assert_int_equal(a.retry_after_ns, WEIR_NEVER);
    close_node(&node);
    node = node_of(HEAD STRICT("all", "0/minute"));
    a = request(&node, T0, k);
    assert_int_equal(a.reason, WEIR_REASON_ZERO);
    close_node(&node);
}

static void test_peek(void **state)
{
    struct node node = node_of(HEAD STRICT("all", "3/minute burst 3"));
    struct call peek = {.api_key = "k", .cost = 2, .peek = true};
    struct weir_answer a = request(&node, T0, peek);
    (void)state;

    expect(&a, WEIR_ALLOW, 3);
    a = request(&node, T0, (struct call){.api_key = "k", .cost = 2});
    expect(&a, WEIR_ALLOW, 1);
    a = request(&node, T0, peek);
    expect(&a, WEIR_DENY, 1);
    a = request(&node, T0, k);
    expect(&a, WEIR_ALLOW, 0);
    close_node(&node);
}

/* ---- with local limits ------------------------------------------------------------------- */

static void test_a_local_refusal_asks_nobody(void **state)
{
    struct node node = node_of(HEAD LOCAL("here", "1/minute burst 1") STRICT("all", "9/minute"));
    struct weir_answer a = request(&node, T0, k);
    (void)state;

    assert_int_equal(a.outcome, WEIR_ALLOW);
    assert_int_equal(a.count, 2);
    a = request(&node, T0, k);
    assert_false(node.asked);
    assert_int_equal(a.outcome, WEIR_DENY);
    assert_string_equal(speaks_of(node.weir, &a), "here");
    assert_int_equal(a.count, 1); /* of the other nothing is known */
    assert_int_equal(node.pending.force, 0);
    close_node(&node);
}

static void test_nothing_local_is_taken_while_the_store_is_asked(void **state)
{
    struct node node =
        node_of(HEAD LOCAL("here", "9/minute burst 9") STRICT("all", "1/minute burst 1"));
    struct weir_answer a = request(&node, T0, k);
    (void)state;

    assert_int_equal(left(node.weir, &a, "here"), 8);
    a = request(&node, T0, k);
    assert_int_equal(a.outcome, WEIR_DENY);
    assert_string_equal(speaks_of(node.weir, &a), "all");
    a = request(&node, T0, (struct call){.api_key = "other"});
    assert_int_equal(left(node.weir, &a, "here"), 7); /* the refused one took nothing */
    close_node(&node);
}

/* Between begin and finish somebody else takes the last local unit. */
static void test_a_local_refusal_at_the_end_is_refunded(void **state)
{
    struct node node =
        node_of(HEAD LOCAL("here", "1/minute burst 1") STRICT("all", "5/minute burst 5"));
    struct weir_answer a, b;
    struct node other;
    (void)state;

    assert_false(begin_call(&node, T0, k, &a));
    other = node;
    b = request(&other, T0, (struct call){.api_key = "other"});
    assert_int_equal(b.outcome, WEIR_ALLOW);
    ask_store(&node, T0, &a);
    assert_int_equal(a.outcome, WEIR_DENY);
    assert_string_equal(speaks_of(node.weir, &a), "here");
    assert_int_equal(node.refund, 1);
    assert_false(weir_holds(node.weir, &a));
    a = request(&node, T0 + 60 * S, k);
    assert_int_equal(left(node.weir, &a, "all"), 4); /* of 5: the other is a key of its own */
    close_node(&node);
}

static void test_count_denied(void **state)
{
    struct node node = node_of(HEAD LOCAL("here", "1/hour burst 1") //
                               "  - {name: all, by: [api_key], rate: 5/hour, count_denied: true, "
                               "shared: true}\n");
    struct weir_answer a = request(&node, T0, k);
    (void)state;

    assert_int_equal(a.outcome, WEIR_ALLOW);
    a = request(&node, T0, k);
    assert_false(node.asked);
    assert_int_equal(node.pending.force, 1);
    assert_int_equal(node.pending.call.count, 1);
    assert_string_equal(node.pending.call.charge[0].name, "all");
    assert_int_equal(node.pending.call.charge[0].cost, 1);
    close_node(&node);
}

static void test_shadow(void **state)
{
    struct node node = node_of(HEAD "  - {name: s, by: [api_key], rate: 1/minute burst 1, "
                                    "shared: true, mode: shadow}\n"
                                    "  - {name: l, by: [api_key], rate: 1/minute burst 1, "
                                    "shared: true, store_mode: leased, mode: shadow}\n");
    struct weir_answer a = request(&node, T0, k);
    (void)state;

    assert_int_equal(a.outcome, WEIR_ALLOW);
    for (int i = 0; i < 2; i++) { /* the second time the lease remembers */
        a = request(&node, T0, k);
        assert_int_equal(a.outcome, WEIR_SHADOW);
        assert_int_equal(a.verdicts[0].outcome, WEIR_DENY);
        assert_int_equal(a.verdicts[1].outcome, WEIR_DENY);
    }
    close_node(&node);
}

/* ---- leased ------------------------------------------------------------------------------ */

static int64_t reset_of(const struct node *node, const struct weir_answer *answer, int64_t now)
{
    int64_t next_ns, reset_ns;

    weir_verdict_times(node->weir, &answer->verdicts[0], now, &next_ns, &reset_ns);
    assert_true(next_ns <= reset_ns);
    return reset_ns;
}

static void test_a_lease_is_spent(void **state)
{
    struct node node = node_of(HEAD LEASED("all", "100/minute"));
    struct weir_answer a;
    int64_t reset_ns;
    (void)state;

    a = request(&node, T0, k); /* cold: strict */
    assert_true(node.asked);
    expect(&a, WEIR_ALLOW, 99);
    node.extra = 10;
    a = request(&node, T0, k); /* 98 left after it, 10 of them for us */
    assert_true(node.asked);
    expect(&a, WEIR_ALLOW, 98);
    reset_ns = reset_of(&node, &a, T0);
    for (int i = 97; i >= 88; i--) {
        a = decide(node.weir, T0 + 90 * MS, k); /* any process of the host */
        expect(&a, WEIR_ALLOW, i);
        assert_in_range(reset_of(&node, &a, T0 + 90 * MS), reset_ns - 90 * MS,
                        reset_ns - 85 * MS); /* the store's, not the lease's */
    }
    assert_int_equal(decide(node.weir, T0 + 90 * MS, k).outcome, WEIR_ASK);
    node.extra = 1000; /* half of 87 */
    a = request(&node, T0 + 90 * MS, k);
    expect(&a, WEIR_ALLOW, 87);
    assert_int_equal(decide(node.weir, T0 + 200 * MS, k).outcome, WEIR_ASK); /* void */
    close_node(&node);
}

static void test_a_refusal_is_remembered(void **state)
{
    struct node node = node_of(HEAD LEASED("all", "10/minute"));
    struct weir_answer a = request(&node, T0, (struct call){.api_key = "k", .cost = 8});
    int64_t reset_ns;
    (void)state;

    a = request(&node, T0, (struct call){.api_key = "k", .cost = 3});
    assert_true(node.asked);
    expect(&a, WEIR_DENY, 2);
    assert_int_equal(a.retry_after_ns, 67500 * MS); /* 8 (60 - e)/60 <= 7 at e = 7.5 */
    reset_ns = reset_of(&node, &a, T0);
    assert_true(reset_ns >= 67500 * MS);
    a = request(&node, T0 + 100 * MS, (struct call){.api_key = "k", .cost = 3});
    assert_false(node.asked);
    expect(&a, WEIR_DENY, 2);
    assert_int_equal(a.reason, WEIR_REASON_LIMIT);
    assert_in_range(a.retry_after_ns, 67400 * MS, 67405 * MS); /* not: until it asks again */
    assert_in_range(reset_of(&node, &a, T0 + 100 * MS), reset_ns - 100 * MS, reset_ns - 95 * MS);
    a = request(&node, T0 + 100 * MS, (struct call){.api_key = "k", .cost = 2});
    assert_true(node.asked); /* less than was refused */
    assert_int_equal(a.outcome, WEIR_ALLOW);
    (void)request(&node, T0 + 1000 * MS, (struct call){.api_key = "k", .cost = 3});
    assert_true(node.asked);
    close_node(&node);
}

/* Who is refused takes nothing from those who pay with the lease. */
static void test_a_refusal_leaves_the_lease(void **state)
{
    struct node node = node_of(HEAD LEASED("all", "100/minute"));
    struct weir_answer a;
    (void)state;

    node.extra = 10;
    (void)request(&node, T0, k);
    for (int i = 0; i < 9; i++) {
        a = request(&node, T0, (struct call){.api_key = "k", .cost = 95});
        assert_true(node.asked);
        expect(&a, WEIR_DENY, 89);
        assert_int_equal(decide(node.weir, T0, k).outcome, WEIR_ALLOW);
    }
    assert_int_equal(decide(node.weir, T0, k).outcome, WEIR_ALLOW); /* the tenth */
    assert_int_equal(decide(node.weir, T0, k).outcome, WEIR_ASK);
    /* Now it is empty, and who hammers does not reach the store. */
    (void)request(&node, T0, (struct call){.api_key = "k", .cost = 95});
    a = request(&node, T0, (struct call){.api_key = "k", .cost = 95});
    assert_false(node.asked);
    assert_int_equal(a.outcome, WEIR_DENY);
    close_node(&node);
}

/* A cost above what the lease holds passes with a new lease: no unit of the old one is lost. */
static void test_a_grant_strands_no_rest(void **state)
{
    struct node node = node_of(HEAD LEASED("all", "100/minute"));
    (void)state;

    node.extra = 10;
    (void)request(&node, T0, k); /* 89 left */
    node.extra = 20;
    (void)request(&node, T0 + MS, (struct call){.api_key = "k", .cost = 11}); /* 58 left */
    assert_int_equal(node.pending.adjust[0], -10); /* and those that go back */
    assert_int_equal(
        wr_engine_lease_units(node.weir->engine, wr_engine_lease_key(&node.pending, 0), T0 + MS),
        20);
    close_node(&node);
}

#define PLANS                                                                                \
    "version: 1\n"                                                                           \
    "identity: {api_key: {header: X-Api-Key}, plan: {default: free, keys: {p: pro}}}\n"      \
    "store: {ring: {self: a:1, peers: [b:1], password: p}, nodes: 4}\n"                      \
    "limits:\n"                                                                              \
    "  - {name: all, by: [ip], algorithm: fixed-window, shared: true, store_mode: leased,\n" \
    "     rate: {free: 20/minute, pro: 1000/minute}}\n"

/* One address, two plans: one count, but each is let through and refused by its own number. */
static void test_plans_have_leases_of_their_own(void **state)
{
    static const struct call pro = {.api_key = "p"};
    struct node node = node_of(PLANS);
    struct weir_answer a;
    (void)state;

    node.extra = 50;
    a = request(&node, T0, pro);
    expect(&a, WEIR_ALLOW, 999);
    assert_int_equal(decide(node.weir, T0, pro).outcome, WEIR_ALLOW);
    a = request(&node, T0, k); /* 51 are used */
    assert_true(node.asked);
    expect(&a, WEIR_DENY, 0);
    a = request(&node, T0, k);
    assert_false(node.asked); /* its refusal is remembered */
    expect(&a, WEIR_DENY, 0);
    a = request(&node, T0, pro);
    assert_false(node.asked); /* and nobody else's */
    expect(&a, WEIR_ALLOW, 997);
    close_node(&node);
}

/* One lease lasts, the other is asked for; refused there, the first gets its unit back. */
static void test_held_units_go_back(void **state)
{
    struct node node =
        node_of(HEAD LEASED("wide", "100/minute") STRICT("narrow", "2/minute burst 2"));
    struct weir_answer a;
    (void)state;

    node.extra = 5;
    (void)request(&node, T0, k);
    a = request(&node, T0, k);
    assert_int_equal(node.pending.call.count, 1);      /* only the strict one was asked for */
    assert_int_equal(left(node.weir, &a, "wide"), 98); /* 94 there, 4 here */
    a = request(&node, T0, k);
    assert_int_equal(a.outcome, WEIR_DENY);
    assert_string_equal(speaks_of(node.weir, &a), "narrow");
    assert_int_equal(left(node.weir, &a, "wide"), 98);
    assert_int_equal(
        wr_engine_lease_units(node.weir->engine, node.pending.ballot.charge[0].hash, T0), 4);
    /* A look by a process without a backend takes nothing either. */
    assert_int_equal(decide(node.weir, T0, k).outcome, WEIR_ASK);
    assert_int_equal(
        wr_engine_lease_units(node.weir->engine, node.pending.ballot.charge[0].hash, T0), 4);
    close_node(&node);
}

static void test_draining(void **state)
{
    struct node node = node_of(HEAD LEASED("all", "100/minute"));
    uint64_t key;
    (void)state;

    node.extra = 10;
    (void)request(&node, T0, k);
    key = wr_engine_lease_key(&node.pending, 0);
    assert_int_not_equal(key, 0);
    (void)decide(node.weir, T0, k);
    assert_int_equal(wr_engine_lease_return(node.weir->engine, key, T0), 9);
    assert_int_equal(wr_engine_lease_return(node.weir->engine, key, T0), 0);
    assert_int_equal(decide(node.weir, T0, k).outcome, WEIR_ASK);
    close_node(&node);
}

/* A clock that is slower by 500 ppm than the store's must not spend what has ended there. */
static void test_a_lease_ends_before_the_stores(void **state)
{
    struct node node = node_of(HEAD LEASED("all", "100/minute"));
    const int64_t tick = INT64_C(1) << 22; /* what a lease's end is rounded down to */
    (void)state;

    node.extra = 9;
    node.ttl_ns = 20 * tick - T0 % tick; /* nothing is rounded off */
    (void)request(&node, T0, k);
    (void)request(&node, T0 + 19 * tick - T0 % tick - 1, k);
    assert_false(node.asked);
    (void)request(&node, T0 + node.ttl_ns - node.ttl_ns / 2000, k);
    assert_true(node.asked);
    close_node(&node);
}

static void test_window_ends_a_lease(void **state)
{
    struct node node = node_of(HEAD LEASED("all", "100/minute"));
    (void)state;

    node.extra = 10;
    (void)request(&node, T0 + 60 * S - 50 * MS, k);
    assert_int_equal(decide(node.weir, T0 + 60 * S - 10 * MS, k).outcome, WEIR_ALLOW);
    assert_int_equal(decide(node.weir, T0 + 60 * S, k).outcome, WEIR_ASK);
    close_node(&node);
}

static void test_check(void **state)
{
    struct node node = node_of(HEAD LEASED("all", "100/minute") LOCAL("here", "9/minute"));
    struct weir_verdict verdict;
    struct weir_answer a;
    (void)state;

    assert_int_equal(weir_check(node.weir, 0, slice("k"), 1, T0, &verdict), 0);
    assert_int_equal(verdict.outcome, WEIR_ASK);
    assert_false(
        wr_engine_begin_check(node.weir->engine, 0, slice("k"), 1, false, T0, &a, &node.pending));
    node.extra = 10;
    ask_store(&node, T0, &a);
    expect(&a, WEIR_ALLOW, 99);
    assert_int_equal(weir_check(node.weir, 0, slice("k"), 4, T0, &verdict), 0);
    assert_int_equal(verdict.outcome, WEIR_ALLOW);
    assert_int_equal(verdict.remaining_units, 95);
    a = decide(node.weir, T0, k); /* the same key */
    assert_int_equal(left(node.weir, &a, "all"), 94);
    assert_true(
        wr_engine_begin_check(node.weir->engine, 1, slice("x"), 1, false, T0, &a, &node.pending));
    expect(&a, WEIR_ALLOW, 8);
    /* For a reservation no lease is spent. */
    assert_false(
        wr_engine_begin_check(node.weir->engine, 0, slice("k"), 1, true, T0, &a, &node.pending));
    wr_engine_check_one(node.weir->engine, 0, slice("k"), 1, T0, &a);
    assert_int_equal(a.outcome, WEIR_ASK);
    close_node(&node);
}

/* By a lease alone, or else as everybody. */
static struct weir_answer check_by_lease(struct node *node, struct weir_slice key, int64_t cost,
                                         int64_t now, bool *alone)
{
    struct wr_engine *engine = node->weir->engine;
    struct weir_receipt receipt;
    struct weir_verdict verdict;
    struct weir_answer a;
    uint64_t lease = wr_engine_lease_of(engine, 0, key);

    *alone = wr_engine_lease_check(engine, 0, lease, cost, now, &verdict, &receipt);
    memset(&a, 0xff, sizeof a);
    if (*alone) {
        wr_engine_lease_answer(&verdict, &receipt, cost, now, &a);
        assert_int_equal(a.customer, 0); /* nor is it settled as anybody's */
        assert_int_equal(a.customer_anchor, 0);
    } else if (!wr_engine_begin_check(engine, 0, key, cost, false, now, &a, &node->pending)) {
        ask_store(node, now, &a);
    }
    return a;
}

/* Two nodes with a store each, one decides by wr_engine_lease_check where it can. */
static void lease_check_is_begin_check(const char *policy)
{
    struct node nodes[2] = {node_of(policy), node_of(policy)};
    uint64_t seed = 20261130, decided = 0;
    int64_t now = T0;
    bool alone;

    for (int i = 0; i < 4000; i++) {
        char name[2] = {(char)('a' + (seed >> 40) % 3), '\0'};
        int64_t cost = (int64_t)(seed >> 33) % 4;
        struct weir_answer a, b;

        seed = seed * 6364136223846793005U + 1442695040888963407U;
        now += (int64_t)(seed >> 36) % (20 * MS);
        nodes[0].extra = nodes[1].extra = (int64_t)(seed >> 50) % 12;
        if (!wr_engine_begin_check(nodes[0].weir->engine, 0, slice(name), cost, false, now, &a,
                                   &nodes[0].pending))
            ask_store(&nodes[0], now, &a);
        b = check_by_lease(&nodes[1], slice(name), cost, now, &alone);
        decided += alone;
        assert_int_equal(a.outcome, b.outcome);
        assert_int_equal(a.reason, b.reason);
        assert_int_equal(a.count, b.count);
        assert_int_equal(a.decisive, b.decisive);
        assert_int_equal(a.cost_units, b.cost_units);
        assert_int_equal(a.retry_after_ns, b.retry_after_ns);
        assert_memory_equal(&a.verdicts[0], &b.verdicts[0], sizeof a.verdicts[0]);
        assert_memory_equal(&a.receipts[0].word[1], &b.receipts[0].word[1], 2 * sizeof(uint64_t));
    }
    assert_in_range(decided, 100, 3900);
    assert_int_equal(memory_store_calls(nodes[0].store), memory_store_calls(nodes[1].store));
    close_node(&nodes[0]);
    close_node(&nodes[1]);
}

static void test_lease_check(void **state)
{
    struct node node = node_of(HEAD STRICT("all", "100/minute") LOCAL("here", "9/minute"));
    (void)state;

    assert_int_equal(wr_engine_lease_of(node.weir->engine, 0, slice("k")), 0);
    assert_int_equal(wr_engine_lease_of(node.weir->engine, 1, slice("k")), 0);
    close_node(&node);
    lease_check_is_begin_check(HEAD LEASED("all", "100/second"));
    lease_check_is_begin_check(HEAD LEASED("all", "100/second, mode: shadow"));
    lease_check_is_begin_check(HEAD LEASED("all", "2000/minute, algorithm: fixed-window"));
}

/* ---- the store is gone ------------------------------------------------------------------- */

static void test_gone_open(void **state)
{
    struct node node = node_of(HEAD GONE("3/minute", "open"));
    struct weir_answer a;
    (void)state;

    for (int i = 0; i < 5; i++) {
        struct weir_slice fields[FIELDS_MAX];
        struct weir_request r = request_of(node.weir, &k, fields);
        assert_int_equal(weir_decide_alone(node.weir, &r, T0, &a), 0);
        expect(&a, WEIR_ALLOW, 2);
    }
    close_node(&node);
}

static void test_gone_closed(void **state)
{
    struct node node = node_of(HEAD GONE("3/minute", "closed") LOCAL("here", "9/minute"));
    struct memory_store *store = node.store;
    struct weir_answer_options options;
    struct weir_header headers[WEIR_HEADERS_MAX];
    char body[WEIR_PROBLEM_BYTES], buffer[WEIR_HEADERS_BYTES];
    struct weir_answer a;
    int count;
    (void)state;

    node.store = NULL;
    a = request(&node, T0, k);
    assert_int_equal(a.outcome, WEIR_DENY);
    assert_int_equal(a.reason, WEIR_REASON_STORE);
    assert_int_equal(a.retry_after_ns, S);
    weir_answer_defaults(node.weir, &options);
    assert_int_equal(weir_answer_status(&options, &a), 503);
    assert_true(weir_answer_problem(node.weir, &a, 503, body, sizeof body) > 0);
    assert_string_equal(
        body, "{\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,"
              "\"detail\":\"limits cannot be checked at this moment; try again in 1 s\","
              "\"violated-policies\":[],\"error\":\"store_unavailable\",\"retry_after\":1,"
              "\"limit\":\"all\"}");
    count = weir_answer_headers(node.weir, &a, WEIR_HEADERS_X, headers, buffer, sizeof buffer);
    assert_true(count > 0);
    assert_string_equal(headers[0].name, "Retry-After");
    assert_memory_equal(headers[0].value.ptr, "1", 1);

    /* When the next probe is known, that is what is said. */
    assert_false(begin_call(&node, T0, k, &a));
    node.pending.call.retry_ns = 250 * MS;
    ask_store(&node, T0, &a);
    assert_int_equal(a.retry_after_ns, 250 * MS);

    node.store = store;
    a = request(&node, T0, k);
    assert_int_equal(left(node.weir, &a, "here"), 8); /* refused requests took nothing */
    close_node(&node);
}

/* 100/minute over 4 nodes: 25 here. */
static void test_gone_local(void **state)
{
    struct node node = node_of(HEAD GONE("100/minute", "local"));
    struct memory_store *store = node.store;
    struct weir_answer a;
    int64_t next_ns, reset_ns;
    (void)state;

    node.store = NULL;
    node.nodes = 4;
    for (int i = 24; i >= 0; i--) {
        a = request(&node, T0 + 30 * S, k);
        expect(&a, WEIR_ALLOW, i);
        assert_int_equal(a.verdicts[0].capacity_units, 25);
    }
    a = request(&node, T0 + 30 * S, k);
    expect(&a, WEIR_DENY, 0);
    assert_int_equal(a.reason, WEIR_REASON_LIMIT);
    /* 25 (60 - e)/60 <= 24 at e = 2.4 of the next window */
    assert_int_equal(a.retry_after_ns, 32400 * MS);
    weir_verdict_times(node.weir, &a.verdicts[0], T0 + 30 * S, &next_ns, &reset_ns);
    assert_int_equal(next_ns, 32400 * MS);
    /* The store is back, and counts as if nothing had been. */
    node.store = store;
    a = request(&node, T0 + 31 * S, k);
    expect(&a, WEIR_ALLOW, 99);
    /* The number of nodes is what it was last. */
    node.store = NULL;
    node.nodes = 2;
    a = request(&node, T0 + 31 * S, k);
    expect(&a, WEIR_ALLOW, 24); /* 50, of which 25 are used */
    node.store = store;
    close_node(&node);
}

static void test_gone_local_settles_its_part(void **state)
{
    struct node node = node_of(HEAD GONE("100/minute burst 100", "local"));
    struct weir_slice fields[FIELDS_MAX];
    struct call ten = {.api_key = "k", .cost = 10};
    struct weir_request r = request_of(node.weir, &ten, fields);
    struct weir_answer a;
    (void)state;

    assert_int_equal(weir_decide_alone(node.weir, &r, T0, &a), 0);
    expect(&a, WEIR_ALLOW, 15);
    a.expires_ns = T0 + S;
    assert_int_equal(weir_settle(node.weir, &a, 3, T0), 0);
    assert_int_equal(weir_decide_alone(node.weir, &r, T0, &a), 0);
    expect(&a, WEIR_ALLOW, 12); /* 25 - 3 - 10 */
    a.expires_ns = T0 + S;
    assert_int_equal(weir_settle(node.weir, &a, 20, T0), 0);
    r.cost_units = 0;
    assert_int_equal(weir_decide_alone(node.weir, &r, T0, &a), 0);
    expect(&a, WEIR_ALLOW, 2);
    close_node(&node);
}

static void test_places_of_a_part_are_released(void **state)
{
    struct node node = node_of(HEAD "  - {name: jobs, by: [ip], concurrent: 4, shared: true}\n");
    struct memory_store *store = node.store;
    struct weir_answer a;
    (void)state;

    node.store = NULL;
    node.nodes = 4;
    a = request(&node, T0, k);
    expect(&a, WEIR_ALLOW, 0);
    assert_true(weir_holds(node.weir, &a));
    weir_release(node.weir, &a, T0);
    assert_false(weir_holds(node.weir, &a));
    a = request(&node, T0, k);
    expect(&a, WEIR_ALLOW, 0);
    node.store = store;
    close_node(&node);
}

static void test_open_local(void **state)
{
    static const char policy[] = HEAD STRICT("all", "3/minute burst 3");
    struct weir_options options = {.arena_path = "", .flags = WEIR_OPEN_LOCAL};
    char path[] = "/tmp/weir-test-XXXXXX", errors[4000];
    struct weir *weir;
    int fd = mkstemp(path);
    struct weir_answer a;
    (void)state;

    assert_int_equal(write(fd, policy, sizeof policy - 1), sizeof policy - 1);
    (void)close(fd);
    assert_int_equal(weir_open(&weir, path, &options, errors, sizeof errors), 0);
    (void)unlink(path);
    a = decide(weir, T0, k);
    expect(&a, WEIR_ALLOW, 2);
    weir_close(weir);
}

/* ---- afterwards -------------------------------------------------------------------------- */

static void test_settling_at_the_store(void **state)
{
    struct node node =
        node_of(HEAD LEASED("all", "100/minute burst 100") LOCAL("here", "50/minute burst 50"));
    struct weir_slice fields[FIELDS_MAX];
    struct call ten = {.api_key = "k", .cost = 10};
    struct weir_request r = request_of(node.weir, &ten, fields);
    struct weir_answer a;
    struct wr_pending out;
    (void)state;

    node.extra = 40;
    (void)request(&node, T0, k); /* there is a lease */
    /* It is not spent: the true cost may be more than it has. */
    assert_int_equal(weir_reserve(node.weir, &r, S, T0, &a), 0);
    assert_int_equal(a.outcome, WEIR_ASK);
    assert_int_equal(a.expires_ns, 0);
    node.extra = 0;
    assert_false(wr_engine_begin_reserve(node.weir->engine, &r, T0, &a, &node.pending));
    /* The store keeps back what may be out as leases, whoever asks. */
    assert_int_equal(node.pending.call.charge[0].ttl_ns, S);
    ask_store(&node, T0, &a);
    assert_int_equal(a.outcome, WEIR_ALLOW);
    a.expires_ns = T0 + S;
    assert_int_equal(wr_engine_settle_shared(node.weir->engine, &a, 4, T0, &out), 0);
    assert_int_equal(out.call.count, 1);
    assert_string_equal(out.call.charge[0].name, "all");
    assert_int_equal(out.call.charge[0].cost, 10);
    assert_int_equal(out.call.charge[0].ttl_ns, S);
    assert_int_equal(out.adjust[0], -6);
    assert_memory_equal(out.call.charge[0].tag, node.pending.call.charge[0].tag, WR_TAG_BYTES);
    assert_int_equal(out.call.charge[0].receipt[0], node.pending.call.charge[0].receipt[0]);
    assert_int_equal(wr_engine_settle_shared(node.weir->engine, &a, 4, T0, &out), WEIR_EEXPIRED);
    assert_int_equal(out.call.count, 0);
    a = request(&node, T0, (struct call){.api_key = "x", .cost = LOOK});
    assert_int_equal(left(node.weir, &a, "here"), 50 - 1 - 4);

    assert_false(wr_engine_begin_reserve(node.weir->engine, &r, T0, &a, &node.pending));
    ask_store(&node, T0, &a);
    a.expires_ns = T0 + S;
    assert_int_equal(wr_engine_settle_shared(node.weir->engine, &a, 25, T0, &out), 0);
    assert_int_equal(out.adjust[0], 15);
    close_node(&node);
}

static void test_releasing_at_the_store(void **state)
{
    struct node node = node_of(HEAD "  - {name: jobs, by: [ip], concurrent: 1, shared: true}\n");
    struct weir_answer a = request(&node, T0, k);
    struct wr_pending out;
    (void)state;

    expect(&a, WEIR_ALLOW, 0);
    assert_true(weir_holds(node.weir, &a));
    weir_release(node.weir, &a, T0); /* without a backend: left as it is */
    assert_true(weir_holds(node.weir, &a));
    wr_engine_release_shared(node.weir->engine, &a, T0, &out);
    assert_false(weir_holds(node.weir, &a));
    assert_int_equal(out.call.count, 1);
    assert_int_equal(out.adjust[0], -1);
    assert_int_equal(out.call.charge[0].place, node.pending.call.charge[0].place);
    a = request(&node, T0, k);
    assert_int_equal(a.outcome, WEIR_DENY);
    memory_store_refund(node.store, &out.call.charge[0], 1, T0);
    a = request(&node, T0, k);
    assert_int_equal(a.outcome, WEIR_ALLOW);
    close_node(&node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strict_asks_each_time),
        cmocka_unit_test(test_what_is_asked),
        cmocka_unit_test(test_what_can_never_pass),
        cmocka_unit_test(test_peek),
        cmocka_unit_test(test_a_local_refusal_asks_nobody),
        cmocka_unit_test(test_nothing_local_is_taken_while_the_store_is_asked),
        cmocka_unit_test(test_a_local_refusal_at_the_end_is_refunded),
        cmocka_unit_test(test_count_denied),
        cmocka_unit_test(test_shadow),
        cmocka_unit_test(test_a_lease_is_spent),
        cmocka_unit_test(test_a_refusal_is_remembered),
        cmocka_unit_test(test_a_refusal_leaves_the_lease),
        cmocka_unit_test(test_a_grant_strands_no_rest),
        cmocka_unit_test(test_plans_have_leases_of_their_own),
        cmocka_unit_test(test_held_units_go_back),
        cmocka_unit_test(test_draining),
        cmocka_unit_test(test_a_lease_ends_before_the_stores),
        cmocka_unit_test(test_window_ends_a_lease),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_lease_check),
        cmocka_unit_test(test_gone_open),
        cmocka_unit_test(test_gone_closed),
        cmocka_unit_test(test_gone_local),
        cmocka_unit_test(test_gone_local_settles_its_part),
        cmocka_unit_test(test_places_of_a_part_are_released),
        cmocka_unit_test(test_open_local),
        cmocka_unit_test(test_settling_at_the_store),
        cmocka_unit_test(test_releasing_at_the_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
