/* customers_kill.c - the files of customers and of usage, killed at every labelled point and at
 * random.
 *
 * Built with the store's sources and WR_TEST_CRASH_POINTS. The first part runs each change in a
 * child that dies at its n-th point, for n = 1, 2, ... until it comes through: what others see then
 * is what was before or what was wanted, whole, and the next writer brings it about. The second has
 * many processes count, settle late and give back in one file while windows end and they are
 * killed: what the ledger has, read by its bits alone, is what was acknowledged, and at most what
 * the killed were in the middle of. */
#include "points.h"
#include "process.h"

#include <unistd.h>

#include "store/customers.h"
#include "store/usage.h"

#define ROOM 64
#define DAY 20000

/* ---- the files ----------------------------------------------------------------------------- */

static char map_path[64], usage_path[64];

static struct weir_slice slice(const char *s)
{
    return (struct weir_slice){s, strlen(s)};
}

static struct wr_customers *open_map(bool writer)
{
    struct wr_customers_options options = {.path = map_path, .room = ROOM, .writer = writer};
    struct wr_customers *map;

    assert_int_equal(wr_customers_open(&map, &options, NULL), 0);
    return map;
}

static struct wr_usage *open_usage(void)
{
    struct wr_usage_options options = {.path = usage_path, .name = "daily", .room = ROOM, .per = 1};
    struct wr_usage *usage;

    assert_int_equal(wr_usage_open(&usage, &options, NULL), 0);
    return usage;
}

static void remove_files(void)
{
    (void)unlink(map_path);
    (void)unlink(usage_path);
}

static void name_files(void)
{
    (void)snprintf(map_path, sizeof map_path, "/tmp/weir-test-kill-map-%d", (int)getpid());
    (void)snprintf(usage_path, sizeof usage_path, "/tmp/weir-test-kill-usage-%d", (int)getpid());
    remove_files();
}

static void digest_of(const char *value, unsigned char out[16])
{
    unsigned char whole[WR_SHA256_BYTES];

    wr_customer_digest(slice("api_key"), slice(value), whole);
    memcpy(out, whole, 16);
}

static int found(struct wr_customers *map, const char *value)
{
    struct wr_customers_identity identity;
    uint32_t number;
    uint64_t hash;

    wr_customers_identity(map, slice("api_key"), &identity);
    hash = wr_customers_hash(&identity, slice(value));
    return wr_customers_find(map, &identity, slice(value), hash, wr_customers_guess(map, hash),
                             &number)
               ? (int)number
               : -1;
}

static struct wr_customer_record record_of(int64_t id, uint8_t plan)
{
    return (struct wr_customer_record){.id = id,
                                       .plan = plan,
                                       .plan_after = plan,
                                       .flags = WR_CUSTOMER_ACTIVE,
                                       .until_ns = 1000 + plan};
}

static void count(struct wr_usage *usage, uint32_t number, int32_t day, int64_t units)
{
    struct wr_usage_view view;
    uint64_t used;

    do {
        assert_true(wr_usage_find(usage, number, day, &view));
        used = view.used != 0 ? view.used : (uint64_t)day << WR_USAGE_UNIT_BITS;
    } while (!wr_usage_put(usage, number, &view, used + (uint64_t)units, view.over));
}

static uint64_t units_of(const struct wr_usage *usage, uint32_t number, int32_t day)
{
    struct wr_usage_window windows[WR_USAGE_WINDOWS];
    unsigned n = wr_usage_read(usage, number, windows);

    for (unsigned i = 0; i < n; i++)
        if (windows[i].day == day)
            return windows[i].units;
    return 0;
}

/* ---- at every point ------------------------------------------------------------------------ */

/* Before: customer 1 has keys "one" and "still", customer 2 has key "two", nobody has "new". */
static void prepare(void)
{
    struct wr_customers *map;
    struct wr_usage *usage;
    unsigned char digest[16];

    remove_files();
    map = open_map(true);
    usage = open_usage();
    for (int i = 1; i <= 2; i++) {
        struct wr_customer_record record = record_of(100 + i, (uint8_t)i);
        assert_int_equal(wr_customers_set(map, (uint32_t)i, &record, false), 0);
    }
    digest_of("one", digest);
    assert_int_equal(wr_customers_key_set(map, digest, 1), 0);
    digest_of("still", digest);
    assert_int_equal(wr_customers_key_set(map, digest, 1), 0);
    digest_of("two", digest);
    assert_int_equal(wr_customers_key_set(map, digest, 2), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(found(map, "one"), 1); /* remembered */
    for (int32_t day = DAY; day < DAY + 4; day++)
        count(usage, 1, day, 10);
    wr_customers_close(map);
    wr_usage_close(usage);
}

static void run_key(const char *value, uint32_t number)
{
    struct wr_customers *map = open_map(true);
    unsigned char digest[16];

    digest_of(value, digest);
    assert_int_equal(wr_customers_key_set(map, digest, number), 0);
    wr_customers_close(map);
}

static void run_new_key(void)
{
    run_key("new", 2);
}

static void run_move_key(void)
{
    run_key("one", 2);
}

static void run_drop_key(void)
{
    struct wr_customers *map = open_map(true);
    unsigned char digest[16];

    digest_of("one", digest);
    (void)wr_customers_key_drop(map, digest);
    wr_customers_close(map);
}

static void run_record(uint32_t number, int64_t id, uint8_t plan)
{
    struct wr_customers *map = open_map(true);
    struct wr_customer_record record = record_of(id, plan);

    assert_int_equal(wr_customers_set(map, number, &record, false), 0);
    wr_customers_close(map);
}

static void run_new_customer(void)
{
    run_record(3, 103, 3);
}

static void run_change_plan(void)
{
    run_record(1, 101, 9);
}

static void run_plan_name(void)
{
    struct wr_customers *map = open_map(true);

    assert_int_equal(wr_customers_plan(map, "enterprise"), 0);
    wr_customers_close(map);
}

static void run_count(void)
{
    struct wr_usage *usage = open_usage();

    count(usage, 1, DAY + 1, 5);
    wr_usage_close(usage);
}

static void run_begin_window(void)
{
    struct wr_usage *usage = open_usage();

    count(usage, 1, DAY + 4, 7);
    wr_usage_close(usage);
}

static void check_keys(struct wr_customers *map, bool done)
{
    (void)done;
    assert_int_equal(found(map, "still"), 1);
    assert_int_equal(found(map, "two"), 2);
}

static void check_new_key(struct wr_customers *map, struct wr_usage *usage, bool done)
{
    int number = found(map, "new");

    (void)usage;
    check_keys(map, done);
    assert_int_equal(found(map, "one"), 1);
    assert_true(number == 2 || (!done && number == -1));
}

/* From the cache or not: never a third state. */
static void check_moved(struct wr_customers *map, struct wr_usage *usage, bool done)
{
    int number = found(map, "one");

    (void)usage;
    check_keys(map, done);
    assert_true(number == 2 || (!done && number == 1));
}

static void check_dropped(struct wr_customers *map, struct wr_usage *usage, bool done)
{
    int number = found(map, "one");

    (void)usage;
    check_keys(map, done);
    assert_true(number == -1 || (!done && number == 1));
}

/* Whoever is there is whole. */
static void check_records(struct wr_customers *map, struct wr_usage *usage, bool done)
{
    struct wr_customer_record record;

    (void)usage;
    for (uint32_t i = 0; i < ROOM; i++) {
        bool there = wr_customers_get(map, i, &record);
        if (there)
            assert_true(record.id == 100 + (int64_t)i && record.plan == record.plan_after &&
                        record.until_ns == 1000 + record.plan);
        if (i == 1)
            assert_true(there);
        if (done && i == 3 && there)
            assert_int_equal(record.plan, 3);
    }
}

static void check_plans(struct wr_customers *map, struct wr_usage *usage, bool done)
{
    char name[WR_CUSTOMER_PLAN_BYTES + 1];

    (void)usage;
    if (wr_customers_plan_name(map, 0, name))
        assert_string_equal(name, "enterprise");
    else
        assert_false(done);
}

static bool is_dirty(struct wr_usage *usage, uint32_t wanted)
{
    uint32_t at = 0, number;

    while (wr_usage_dirty_next(usage, &at, &number)) {
        wr_usage_mark(usage, number);
        if (number == wanted)
            return true;
    }
    return false;
}

static void check_counted(struct wr_customers *map, struct wr_usage *usage, bool done)
{
    uint64_t units = units_of(usage, 1, DAY + 1);

    (void)map;
    assert_true((!done && units == 10) || units >= 15);
    assert_int_equal(units_of(usage, 1, DAY), 10);
    assert_int_equal(units_of(usage, 1, DAY + 3), 10);
    if (units != 10)
        assert_true(is_dirty(usage, 1));
}

static void check_begun(struct wr_customers *map, struct wr_usage *usage, bool done)
{
    uint64_t units = units_of(usage, 1, DAY + 4);

    (void)map;
    assert_int_equal(units_of(usage, 1, DAY), units == 0 ? 10 : 0);
    assert_true(units >= 7 || (!done && units == 0));
    for (int32_t day = DAY + 1; day < DAY + 4; day++)
        assert_int_equal(units_of(usage, 1, day), 10);
    if (units != 0)
        assert_true(is_dirty(usage, 1));
}

struct scenario {
    const char *name;
    void (*run)(void);
    void (*check)(struct wr_customers *map, struct wr_usage *usage, bool done);
    unsigned points; /* at least so many */
};

static const struct scenario scenarios[] = {
    {"new key", run_new_key, check_new_key, 6},
    {"move key", run_move_key, check_moved, 2},
    {"drop key", run_drop_key, check_dropped, 2},
    {"new customer", run_new_customer, check_records, 3},
    {"change plan", run_change_plan, check_records, 1},
    {"plan name", run_plan_name, check_plans, 2},
    {"count", run_count, check_counted, 2},
    {"begin window", run_begin_window, check_begun, 2},
};

static void die_at_every_point(const struct scenario *scenario)
{
    unsigned deaths = 0;
    int status = 128 + SIGKILL;

    for (unsigned until = 1; status == 128 + SIGKILL; until++) {
        struct wr_customers *map;
        struct wr_usage *usage;
        pid_t pid;

        prepare();
        map = open_map(false); /* had it open all the while, its cache warm */
        usage = open_usage();
        {
            uint32_t at = 0, number;
            while (wr_usage_dirty_next(usage, &at, &number))
                continue;
        }
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            points_arm(until);
            scenario->run();
            points_disarm();
            _exit(0);
        }
        status = wait_for(pid, 20);
        points_disarm();
        deaths += status == 128 + SIGKILL;
        scenario->check(map, usage, status == 0);
        scenario->run(); /* the next writer does it again */
        scenario->check(map, usage, true);
        wr_customers_close(map);
        wr_usage_close(usage);
    }
    assert_int_equal(status, 0);
    print_message("%s: died at %u points\n", scenario->name, deaths);
    assert_true(deaths >= scenario->points);
}

static void every_change_at_every_point(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++)
        die_at_every_point(&scenarios[i]);
}

/* ---- at random ----------------------------------------------------------------------------- */

#define WORKERS 4
#define CUSTOMERS 3
#define DAYS 40
#define KILLS 60

/* What a worker is in the middle of, and what it has acknowledged, by day and customer. */
struct ledger {
    int64_t acknowledged[DAYS][CUSTOMERS];
    int64_t under_way[DAYS][CUSTOMERS];
};

static struct load {
    struct ledger worker[WORKERS];
    uint32_t seen[WORKERS]; /* the day that each last counted in */
    uint32_t day;
    uint64_t turns;
    bool stop;
} * load;

static struct wr_usage *usage;
static uint64_t seed;

/* One unit, two, or one given back that this worker has taken in that window. */
static void turn(struct ledger *ledger, uint32_t today, uint64_t random)
{
    uint32_t day = random % 5 == 0 && today > 0 ? today - 1 : today; /* a late settlement */
    uint32_t customer = (uint32_t)(random >> 8) % CUSTOMERS;
    int64_t units = 1 + (int64_t)(random >> 16) % 2;

    if (random % 3 == 0 && ledger->acknowledged[day][customer] > 2)
        units = -1;
    ledger->under_way[day][customer] = units;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    count(usage, customer, DAY + (int32_t)day, units);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    ledger->acknowledged[day][customer] += units;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    ledger->under_way[day][customer] = 0;
}

static int work(struct wr_arena *unused, unsigned index)
{
    uint64_t random = seed + index * 7919 + (uint64_t)getpid() * 104729;

    (void)unused;
    while (!__atomic_load_n(&load->stop, __ATOMIC_ACQUIRE)) {
        uint32_t today = __atomic_load_n(&load->day, __ATOMIC_ACQUIRE);
        turn(&load->worker[index], today, next_random(&random));
        (void)__atomic_add_fetch(&load->turns, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&load->seen[index], today, __ATOMIC_RELEASE);
    }
    return 0;
}

/* What the ledger has: the last it read of each window. */
static int64_t kept[DAYS][CUSTOMERS];

static void flush(void)
{
    struct wr_usage_window windows[WR_USAGE_WINDOWS];
    uint32_t at = 0, number;

    while (wr_usage_dirty_next(usage, &at, &number)) {
        unsigned n = wr_usage_read(usage, number, windows);
        for (unsigned i = 0; i < n; i++)
            kept[windows[i].day - DAY][number] = (int64_t)windows[i].units;
    }
}

/* The next day, once the ledger has the last and nobody counts in an older one: a cell holds four,
 * and a worker that stood still for longer than that would begin one anew. */
static void advance(void)
{
    bool all = load->day + 1 < DAYS;

    for (unsigned i = 0; i < WORKERS; i++)
        all = all && __atomic_load_n(&load->seen[i], __ATOMIC_ACQUIRE) == load->day;
    flush();
    if (all)
        (void)__atomic_add_fetch(&load->day, 1, __ATOMIC_RELEASE);
}

/* A worker that is killed takes what it was in the middle of with it, or has counted it: which,
 * only the cell knows. */
static void assert_ledger(int64_t doubts[DAYS][CUSTOMERS][2])
{
    for (unsigned day = 0; day < DAYS; day++)
        for (unsigned customer = 0; customer < CUSTOMERS; customer++) {
            int64_t sum = 0;
            for (unsigned i = 0; i < WORKERS; i++)
                sum += load->worker[i].acknowledged[day][customer];
            if (kept[day][customer] < sum + doubts[day][customer][0] ||
                kept[day][customer] > sum + doubts[day][customer][1])
                fail_msg("day %u, customer %u: %lld in the ledger, %lld acknowledged, doubts %lld "
                         "to %lld",
                         day, customer, (long long)kept[day][customer], (long long)sum,
                         (long long)doubts[day][customer][0], (long long)doubts[day][customer][1]);
        }
}

static void note_doubts(unsigned index, int64_t doubts[DAYS][CUSTOMERS][2])
{
    struct ledger *ledger = &load->worker[index];

    for (unsigned day = 0; day < DAYS; day++)
        for (unsigned customer = 0; customer < CUSTOMERS; customer++) {
            int64_t units = ledger->under_way[day][customer];
            doubts[day][customer][0] += units < 0 ? units : 0;
            doubts[day][customer][1] += units > 0 ? units : 0;
            ledger->under_way[day][customer] = 0;
        }
}

static void nothing_acknowledged_is_lost(void **unused)
{
    static int64_t doubts[DAYS][CUSTOMERS][2];
    pid_t workers[WORKERS];
    uint64_t random;

    (void)unused;
    remove_files();
    random = seed = test_seed();
    load = (struct load *)shared_memory(sizeof *load);
    usage = open_usage();
    for (unsigned i = 0; i < WORKERS; i++)
        workers[i] = spawn(work, NULL, i);
    for (unsigned i = 0; i < KILLS || load->day < 5; i++) {
        unsigned victim = (unsigned)(next_random(&random) % WORKERS);
        nap_us(500 + (long)(next_random(&random) % 4000));
        advance();
        kill_and_wait(workers[victim]);
        note_doubts(victim, doubts);
        workers[victim] = spawn(work, NULL, victim);
    }
    __atomic_store_n(&load->stop, true, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < WORKERS; i++)
        assert_int_equal(wait_for(workers[i], 60), 0);
    flush();
    assert_ledger(doubts);
    print_message("%llu turns over %u days\n", (unsigned long long)load->turns, load->day + 1);
    assert_true(load->turns > KILLS && load->day > 4);
    wr_usage_close(usage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_change_at_every_point),
        cmocka_unit_test(nothing_acknowledged_is_lost),
    };
    int failed;

    name_files();
    points_init();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove_files();
    return failed;
}
