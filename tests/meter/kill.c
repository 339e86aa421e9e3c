/* kill.c - a real load, and SIGKILL at random: of the daemon that writes the ledger, 100 times, and
 * of the workers that count, as often.
 *
 * Each worker counts for customers of its own, and says in shared memory what it is about to add
 * before it does, and what it has added after. So when it was killed, its cell is what it had said,
 * or that and what it was about to add; which of the two, the cell says, and then all is known to
 * the unit. In the end the ledger must be just that.
 *
 * At random moments the daemon is stopped and its files are copied, as a power loss on a disk that
 * does what it says would leave them. The copy must be sound, and must not have more of anything
 * than was counted, nor less than an earlier copy of the same window had. */
#include "../store/process.h"

#include "../unit/meter/keeping.h"
#include "meter/report.h"

#define KILLS 100
#define WORKERS 2
#define EACH 8 /* customers of a worker */
#define CUSTOMERS (WORKERS * EACH)
#define COPIES 25

/* What a worker says of each of its cells. */
struct told {
    uint64_t done, about; /* units: counted; to be, together with those */
};

static struct shared {
    struct told daily[CUSTOMERS], monthly[CUSTOMERS];
    uint64_t daemons; /* that have been ready */
    bool over;
} * shared;

static struct wr_usage *daily, *monthly;

/* ---- workers --------------------------------------------------------------------------------- */

static void count(struct wr_usage *usage, uint32_t number, struct told *told, int32_t day,
                  int64_t units)
{
    __atomic_store_n(&told->about, told->done + (uint64_t)units, __ATOMIC_SEQ_CST);
    charge(usage, number, day, units, 0);
    __atomic_store_n(&told->done, told->about, __ATOMIC_SEQ_CST);
}

static int worker(struct wr_arena *unused, unsigned index)
{
    uint64_t random = (uint64_t)wr_clock_mono().ns + index;

    (void)unused;
    while (!__atomic_load_n(&shared->over, __ATOMIC_SEQ_CST)) {
        uint64_t dice = next_random(&random);
        uint32_t number = index * EACH + (uint32_t)(dice % EACH);
        count(daily, number, &shared->daily[number], TODAY, (int64_t)(dice >> 8) % 5 + 1);
        count(monthly, number, &shared->monthly[number], TODAY - 13, (int64_t)(dice >> 16) % 5 + 1);
        if (dice % 64 == 0)
            nap_us(200);
    }
    return 0;
}

/* The worker was killed: its cell says whether it had counted what it was about to. */
static void settle_one(struct wr_usage *usage, uint32_t number, struct told *told)
{
    struct wr_usage_window window[WR_USAGE_WINDOWS];
    uint64_t units = wr_usage_read(usage, number, window) > 0 ? window[0].units : 0;

    if (units != told->done && units != told->about)
        fail_msg("customer %u: %llu counted, %llu said, %llu about to be", number,
                 (unsigned long long)units, (unsigned long long)told->done,
                 (unsigned long long)told->about);
    told->done = units;
}

static void settle(unsigned index)
{
    for (uint32_t number = index * EACH; number < (index + 1) * EACH; number++) {
        settle_one(daily, number, &shared->daily[number]);
        settle_one(monthly, number, &shared->monthly[number]);
    }
}

/* ---- the daemon ------------------------------------------------------------------------------ */

static void hush(void *context, enum wr_keeper_level level, const char *event, const char *detail)
{
    (void)context;
    if (level == WR_KEEPER_ERROR)
        (void)fprintf(stderr, "%s: %s\n", event, detail);
}

static int daemon_body(struct wr_arena *unused, unsigned index)
{
    const struct wr_keeper_options options = {.say = hush, .now_ns = test_now};
    struct wr_diag *diag = malloc(sizeof *diag);
    struct wr_keeper *keeper;

    (void)unused;
    (void)index;
    wr_diag_init(diag, "policy");
    if (wr_keeper_begin(&keeper, &options, make_config(), diag) != 0)
        return 1;
    (void)__atomic_add_fetch(&shared->daemons, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&shared->over, __ATOMIC_SEQ_CST))
        (void)wr_keeper_pass(keeper, 1000);
    wr_keeper_stop(keeper);
    free(diag);
    return 0;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static struct wr_database *open_copy(void)
{
    char path[512];
    const struct wr_database_options options = {.path = path};
    struct wr_database *database;
    struct wr_fault fault;

    (void)snprintf(path, sizeof path, "%s/copy/customers.db", test_folder);
    if (wr_database_open(&database, &options, &fault) != 0)
        fail_msg("%s", fault.text);
    return database;
}

/* The sum of what was counted of |told| by now. */
static uint64_t sum_about(const struct told *told)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < CUSTOMERS; i++)
        sum += __atomic_load_n(&told[i].about, __ATOMIC_SEQ_CST);
    return sum;
}

static void complain(void *context, const char *text)
{
    (void)context;
    fail_msg("%s", text);
}

/* |daemon| is stopped meanwhile. */
static void copy_and_look(pid_t daemon, int64_t least[2])
{
    char command[1000];
    struct wr_database *copy;
    struct wr_verify verify = {0};
    int64_t used[2];

    assert_int_equal(kill(daemon, SIGSTOP), 0);
    (void)snprintf(command, sizeof command,
                   "cd '%s' && rm -rf copy && mkdir copy && cp customers.db copy/ && "
                   "{ test ! -e customers.db-wal || cp customers.db-wal copy/; }",
                   test_folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(kill(daemon, SIGCONT), 0);
    copy = open_copy();
    assert_int_equal(wr_database_check(copy, true), 0);
    assert_int_equal(wr_verify_database(copy, &verify, complain, NULL), 0);
    used[0] = ask(copy, "SELECT coalesce(sum(u.used), 0) FROM usage AS u JOIN quota AS q"
                        " ON q.id = u.quota WHERE q.name = 'daily'");
    used[1] = ask(copy, "SELECT coalesce(sum(u.used), 0) FROM usage AS u JOIN quota AS q"
                        " ON q.id = u.quota WHERE q.name = 'monthly'");
    wr_database_close(copy);
    assert_true((uint64_t)used[0] <= sum_about(shared->daily));
    assert_true((uint64_t)used[1] <= sum_about(shared->monthly));
    assert_true(used[0] >= least[0] && used[1] >= least[1]);
    least[0] = used[0];
    least[1] = used[1];
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void make_customers(void)
{
    struct wr_keeper *keeper = start_keeper();
    struct wr_database *database = open_database();
    char name[32];

    for (unsigned i = 0; i < CUSTOMERS; i++) {
        (void)snprintf(name, sizeof name, "customer-%u", i);
        assert_int_equal(make_customer(database, name, "free").number, i);
    }
    pass(keeper);
    wr_keeper_stop(keeper);
    wr_database_close(database);
    daily = open_usage_file("daily", WR_PER_DAY);
    monthly = open_usage_file("monthly", WR_PER_MONTH);
}

/* The row of each customer is what was counted for him, no more and no less. */
static void compare(struct wr_database *database, const char *quota, const struct told *told)
{
    for (unsigned i = 0; i < CUSTOMERS; i++) {
        sqlite3_stmt *statement = wr_database_statement(
            database,
            "SELECT coalesce(sum(u.used), 0) FROM usage AS u JOIN quota AS q ON q.id = u.quota"
            " JOIN customer AS c ON c.id = u.customer WHERE q.name = ?1 AND c.number = ?2");
        assert_non_null(statement);
        (void)sqlite3_bind_text(statement, 1, quota, -1, SQLITE_STATIC);
        (void)sqlite3_bind_int64(statement, 2, i);
        assert_int_equal(wr_database_step(database, statement), 1);
        assert_int_equal(sqlite3_column_int64(statement, 0), told[i].done);
        (void)sqlite3_reset(statement);
    }
}

static void nothing_is_lost(void **state)
{
    uint64_t random = test_seed();
    pid_t workers[WORKERS], daemon;
    int64_t least[2] = {0, 0};
    const struct wr_verify_look look = {.directory = test_folder, .now_ns = NOW};
    struct wr_verify verify = {0};
    struct wr_database *database;

    (void)state;
    shared = shared_memory(sizeof *shared);
    make_customers();
    for (unsigned i = 0; i < WORKERS; i++)
        workers[i] = spawn(worker, NULL, i);
    daemon = spawn(daemon_body, NULL, 0);
    for (unsigned kills = 0; kills < KILLS; kills++) {
        uint64_t dice = next_random(&random);
        unsigned index = (unsigned)(dice >> 32) % WORKERS;
        nap_us((long)(dice % 40000)); /* in its start, in a batch, in a checkpoint, between */
        if (kills % (KILLS / COPIES) == 0)
            copy_and_look(daemon, least);
        kill_and_wait(daemon);
        kill_and_wait(workers[index]);
        settle(index);
        workers[index] = spawn(worker, NULL, index);
        daemon = spawn(daemon_body, NULL, 0);
    }
    __atomic_store_n(&shared->over, true, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < WORKERS; i++)
        assert_int_equal(wait_for(workers[i], 60), 0);
    assert_int_equal(wait_for(daemon, 60), 0);
    wr_keeper_stop(start_keeper()); /* what was counted after that one's last turn */

    database = open_database();
    compare(database, "daily", shared->daily);
    compare(database, "monthly", shared->monthly);
    assert_int_equal(wr_verify_database(database, &verify, complain, NULL), 0);
    assert_int_equal(wr_verify_cells(database, &look, &verify, complain, NULL), 0);
    assert_int_equal(verify.waiting, 0);
    assert_int_equal(verify.wrong, 0);
    assert_true(verify.used > 0);
    print_message("%llu units, %llu of %u daemons were ready\n",
                  (unsigned long long)verify.used / 2, (unsigned long long)shared->daemons,
                  KILLS + 1);
    wr_database_close(database);
    wr_usage_close(daily);
    wr_usage_close(monthly);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_lost, make_folder, remove_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
