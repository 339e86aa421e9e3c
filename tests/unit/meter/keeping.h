/* keeping.h - a keeper over a directory of its own, without a policy: its config made by hand, what
 * it says kept, its clock told. */
#ifndef TESTS_METER_KEEPING_H
#define TESTS_METER_KEEPING_H

#include "fixture.h"

#include <pthread.h>
#include <time.h>

#include "algo/civil.h"
#include "meter/keeper_parts.h"
#include "store/usage.h"

#define TODAY 19675 /* NOW's civil day, UTC: 1700000000 / 86400 */

static int64_t test_clock_ns = NOW;
static inline int64_t test_now(void)
{
    return __atomic_load_n(&test_clock_ns, __ATOMIC_SEQ_CST);
}

/* What was said: "event|detail\n"... */
static struct said {
    pthread_mutex_t mutex;
    char text[20000];
} said = {PTHREAD_MUTEX_INITIALIZER, ""};

static inline void say(void *context, enum wr_keeper_level level, const char *event,
                       const char *detail)
{
    size_t len;

    (void)context;
    (void)pthread_mutex_lock(&said.mutex);
    len = strlen(said.text);
    (void)snprintf(said.text + len, sizeof said.text - len, "%d %s|%s\n", (int)level, event,
                   detail);
    (void)pthread_mutex_unlock(&said.mutex);
}

/* How often |text| was said. */
static inline unsigned times_said(const char *text)
{
    unsigned count = 0;

    (void)pthread_mutex_lock(&said.mutex);
    for (const char *at = said.text; (at = strstr(at, text)) != NULL; at++)
        count++;
    (void)pthread_mutex_unlock(&said.mutex);
    return count;
}

static const char *const test_plans[] = {"free", "pro"};
static const char *const test_identities[] = {"api_key", "user"};
static const struct wr_roster_names test_names = {test_plans, 2, test_identities, 2};

static uint32_t test_room = ROOM; /* of the policy, as is: */
static int64_t test_keep_ns;

/* Quotas "daily" and "monthly", in UTC. Where a file customers.yaml is there, it is read. */
static inline struct wr_keeper_config *make_config(void)
{
    struct wr_keeper_config *config = calloc(1, sizeof *config);
    char path[512];

    assert_non_null(config);
    (void)snprintf(config->directory, sizeof config->directory, "%s", test_folder);
    config->room = test_room;
    config->flush_ns = 20 * WR_NS_PER_MS;
    config->keep_ns = test_keep_ns;
    config->plan_count = 2;
    (void)snprintf(config->plan[0], sizeof config->plan[0], "free");
    (void)snprintf(config->plan[1], sizeof config->plan[1], "pro");
    config->upgrade_to[0] = 1;
    config->upgrade_to[1] = -1;
    config->quota_count = 2;
    config->quota[0] =
        (struct wr_kept){.name = "daily", .zone = "UTC", .civil = {.per = WR_PER_DAY, .anchor = 1}};
    config->quota[1] = (struct wr_kept){
        .name = "monthly", .zone = "UTC", .civil = {.per = WR_PER_MONTH, .anchor = 1}};
    (void)snprintf(path, sizeof path, "%s/customers.yaml", test_folder);
    if (access(path, F_OK) == 0) {
        struct wr_diag *diag = malloc(sizeof *diag);
        wr_diag_init(diag, path);
        (void)snprintf(config->roster_name, sizeof config->roster_name, "customers.yaml");
        if (wr_roster_load(&config->roster, path, &test_names, diag) != 0)
            fail_msg("%s", diag->items[0].text);
        free(diag);
    }
    return config;
}

/* NULL: it did not start; |text| gets the first error. */
static inline struct wr_keeper *try_keeper(char *text, size_t size)
{
    const struct wr_keeper_options options = {.say = say, .now_ns = test_now};
    struct wr_diag *diag = malloc(sizeof *diag);
    struct wr_keeper *keeper;

    wr_diag_init(diag, "policy");
    (void)wr_keeper_begin(&keeper, &options, make_config(), diag);
    (void)wr_diag_format(diag, text, size);
    free(diag);
    return keeper;
}

static inline struct wr_keeper *start_keeper(void)
{
    char text[1000];
    struct wr_keeper *keeper = try_keeper(text, sizeof text);

    if (keeper == NULL)
        fail_msg("%s", text);
    return keeper;
}

static inline void pass(struct wr_keeper *keeper)
{
    if (!wr_keeper_pass(keeper, 30000))
        fail_msg("no pass; said: %s", said.text);
}

static inline struct wr_keeper_state state_of(struct wr_keeper *keeper)
{
    struct wr_keeper_state state;

    wr_keeper_state(keeper, &state);
    return state;
}

/* Wait for |condition|, for as long as a machine that stands still may need. */
#define WAIT_FOR(condition)                                                         \
    do {                                                                            \
        int tries = 0;                                                              \
        while (!(condition)) {                                                      \
            const struct timespec nap = {0, 5000000};                               \
            (void)nanosleep(&nap, NULL);                                            \
            if (++tries > 6000)                                                     \
                fail_msg("waited in vain for %s; said: %s", #condition, said.text); \
        }                                                                           \
    } while (0)

/* ---- as decisions see it --------------------------------------------------------------------- */

static inline struct wr_usage *open_usage_file(const char *name, uint8_t per)
{
    char path[512];
    const struct wr_usage_options options = {
        .path = path, .name = name, .per = per, .must_exist = true};
    struct wr_usage *usage;

    (void)snprintf(path, sizeof path, "%s/%s.usage", test_folder, name);
    assert_int_equal(wr_usage_open(&usage, &options, NULL), 0);
    return usage;
}

static inline struct wr_customers *open_map(void)
{
    char path[512];
    const struct wr_customers_options options = {.path = path, .must_exist = true};
    struct wr_customers *map;

    (void)snprintf(path, sizeof path, "%s/customers.map", test_folder);
    assert_int_equal(wr_customers_open(&map, &options, NULL), 0);
    return map;
}

/* Count |units|, |over| of them beyond the limit, in the window of |day|; negative: give back. */
static inline void charge(struct wr_usage *usage, uint32_t number, int32_t day, int64_t units,
                          int64_t over)
{
    struct wr_usage_view view;
    uint64_t used;

    do {
        assert_true(wr_usage_find(usage, number, day, &view));
        used = (view.used & WR_USAGE_UNITS_MAX) + (uint64_t)units;
    } while (!wr_usage_put(usage, number, &view,
                           (uint64_t)(uint32_t)day << WR_USAGE_UNIT_BITS | used,
                           view.over + (uint64_t)over));
}

/* The customer has used a quota of his present plan up. */
static inline void want(struct wr_customers *map, uint32_t number)
{
    struct wr_customer_record record;

    assert_true(wr_customers_get(map, number, &record));
    wr_customers_want(map, number, wr_customer_plan_of(&record, test_now()), test_now());
}

/* Whose key (|identity|, |value|) is: his number; -1: nobody's. */
static inline int64_t who_is(const struct wr_customers *map, const char *identity,
                             const char *value)
{
    unsigned char digest[WR_CUSTOMER_DIGEST_BYTES];
    uint32_t number;

    wr_key_digest(slice(identity), slice(value), digest);
    return wr_customers_key_get(map, digest, &number) ? (int64_t)number : -1;
}

/* ---- a life before ----------------------------------------------------------------------------
 */

static inline int set_up_keeping(void **state)
{
    said.text[0] = '\0';
    test_clock_ns = NOW;
    return make_folder(state);
}

static inline struct wr_customer with_key(struct wr_database *database, const char *name,
                                          const char *value)
{
    struct wr_customer customer = make_customer(database, name, "free");

    assert_int_equal(
        wr_customer_add_key(database, customer.id, slice("api_key"), slice(value), &somebody, NULL),
        0);
    return customer;
}

static inline void in_the_folder(const char *command)
{
    char line[1000];

    (void)snprintf(line, sizeof line, "cd '%s' && %s", test_folder, command);
    assert_int_equal(system(line), 0);
}

/* A customer with some usage, all of it written, and the keeper ended. */
static inline uint32_t some_history(void)
{
    struct wr_keeper *keeper = start_keeper();
    struct wr_database *database = open_database();
    struct wr_usage *daily = open_usage_file("daily", WR_PER_DAY);
    uint32_t number;

    (void)with_key(database, "globex", "k-globex");
    number = with_key(database, "acme", "k-acme").number;
    pass(keeper);
    charge(daily, number, TODAY, 42, 2);
    wr_keeper_stop(keeper);
    wr_usage_close(daily);
    wr_database_close(database);
    said.text[0] = '\0';
    return number;
}

#endif
