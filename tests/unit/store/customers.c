/* customers.map: keys that lead to customers, their records, the cache, files that do not fit. */
#include "fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/customers.h"
#include "store/customers_file.h"

#define ROOM 1000

static char path[64];
static struct wr_diag diag;
static char text[4096];
static struct wr_customers_identity api_key, user;

static struct weir_slice slice(const char *s)
{
    return (struct weir_slice){s, strlen(s)};
}

static struct wr_customers *open_with(uint32_t room, bool writer, int expected)
{
    struct wr_customers_options options = {.path = path, .room = room, .writer = writer};
    struct wr_customers *map;
    int rc;

    wr_diag_init(&diag, path);
    rc = wr_customers_open(&map, &options, &diag);
    (void)wr_diag_format(&diag, text, sizeof text);
    if (rc != expected)
        fail_msg("%d, expected %d: %s", rc, expected, text);
    return map;
}

static int setup(void **state)
{
    struct wr_customers *map;

    (void)snprintf(path, sizeof path, "/tmp/weir-test-customers-%d", (int)getpid());
    (void)unlink(path);
    map = open_with(ROOM, true, 0);
    wr_customers_identity(map, slice("api_key"), &api_key);
    wr_customers_identity(map, slice("user"), &user);
    *state = map;
    return 0;
}

static int teardown(void **state)
{
    wr_customers_close(*state);
    (void)unlink(path);
    return 0;
}

static void digest_of(const char *identity, const char *value, unsigned char out[16])
{
    unsigned char whole[WR_SHA256_BYTES];

    wr_customer_digest(slice(identity), slice(value), whole);
    memcpy(out, whole, 16);
}

static void add_key(struct wr_customers *map, const char *value, uint32_t number)
{
    unsigned char digest[16];

    digest_of("api_key", value, digest);
    assert_int_equal(wr_customers_key_set(map, digest, number), 0);
}

static void drop_key(struct wr_customers *map, const char *value)
{
    unsigned char digest[16];

    digest_of("api_key", value, digest);
    assert_int_equal(wr_customers_key_drop(map, digest), 0);
}

/* The number that |value| leads to; -1: none. */
static int found(struct wr_customers *map, const struct wr_customers_identity *identity,
                 const char *value)
{
    uint64_t hash = wr_customers_hash(identity, slice(value));
    uint32_t number;

    wr_customers_prefetch(map, hash);
    return wr_customers_find(map, identity, slice(value), hash, wr_customers_guess(map, hash),
                             &number)
               ? (int)number
               : -1;
}

static void keys_lead_to_customers(void **state)
{
    add_key(*state, "alpha", 0);
    add_key(*state, "beta", 999);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(found(*state, &api_key, "alpha"), 0);
        assert_int_equal(found(*state, &api_key, "beta"), 999);
        assert_int_equal(found(*state, &api_key, "gamma"), -1);
        assert_int_equal(found(*state, &user, "alpha"), -1);
        assert_int_equal(found(*state, &api_key, ""), -1);
    }
}

/* SHA-256 of 07 00 00 00 "api_key" "alpha", by another implementation. */
static void a_digest_is_what_the_format_says(void **state)
{
    static const unsigned char expected[16] = {0x30, 0x4f, 0xec, 0xed, 0x50, 0x22, 0x80, 0x44,
                                               0x62, 0xb6, 0xa1, 0x74, 0xe4, 0x6c, 0x57, 0xb2};
    unsigned char digest[16];

    (void)state;
    digest_of("api_key", "alpha", digest);
    assert_memory_equal(digest, expected, 16);
}

static void a_revoked_key_leads_nowhere_at_once(void **state)
{
    struct wr_customers *other = open_with(ROOM, false, 0);

    add_key(*state, "alpha", 7);
    add_key(*state, "beta", 8);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(found(other, &api_key, "alpha"), 7); /* then from the cache */
        assert_int_equal(found(*state, &api_key, "beta"), 8);
    }
    drop_key(*state, "alpha");
    assert_int_equal(found(other, &api_key, "alpha"), -1);
    assert_int_equal(found(other, &api_key, "beta"), 8);
    add_key(*state, "alpha", 9);
    assert_int_equal(found(other, &api_key, "alpha"), 9);
    add_key(*state, "alpha", 10); /* to somebody else */
    assert_int_equal(found(other, &api_key, "alpha"), 10);
    wr_customers_close(other);
}

/* What |value| leads to, whatever is guessed. */
static int found_from(struct wr_customers *map, const char *value, uint32_t guess)
{
    uint64_t hash = wr_customers_hash(&api_key, slice(value));
    uint32_t number;

    return wr_customers_find(map, &api_key, slice(value), hash, guess, &number) ? (int)number : -1;
}

static void no_guess_is_believed(void **state)
{
    static const uint32_t guesses[] = {0, 7, 8, ROOM - 1, ROOM, UINT32_MAX - 1, UINT32_MAX};

    add_key(*state, "alpha", 7);
    add_key(*state, "beta", 8);
    for (unsigned round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof guesses / sizeof guesses[0]; i++) {
            assert_int_equal(found_from(*state, "alpha", guesses[i]), 7);
            assert_int_equal(found_from(*state, "beta", guesses[i]), 8);
            assert_int_equal(found_from(*state, "gamma", guesses[i]), -1);
        }
    }
    assert_int_equal(wr_customers_guess(*state, wr_customers_hash(&api_key, slice("alpha"))), 7);
    drop_key(*state, "alpha");
    add_key(*state, "beta", 7);
    for (size_t i = 0; i < sizeof guesses / sizeof guesses[0]; i++) {
        assert_int_equal(found_from(*state, "alpha", guesses[i]), -1);
        assert_int_equal(found_from(*state, "beta", guesses[i]), 7);
    }
}

/* With the digests gone, what is found was remembered. */
static void what_was_found_is_remembered(void **state)
{
    struct wr_customers *map = *state;
    unsigned in_record = 0, in_line = 0;
    char value[32];

    for (unsigned i = 0; i < 10; i++) {
        (void)snprintf(value, sizeof value, "key %u", i);
        add_key(map, value, i < 2 ? 1 : 5); /* two of one customer, eight of another */
        assert_int_equal(found(map, &api_key, value), i < 2 ? 1 : 5);
    }
    memset(map->keys, 0, map->key_count * sizeof *map->keys);
    for (unsigned i = 0; i < 10; i++) {
        (void)snprintf(value, sizeof value, "key %u", i);
        assert_int_equal(found(map, &api_key, value), i < 2 ? 1 : 5);
        assert_int_equal(found_from(map, value, UINT32_MAX), i < 2 ? 1 : 5);
    }
    memset(map->cache, 0, map->line_count * sizeof *map->cache);
    for (unsigned i = 0; i < 10; i++) {
        (void)snprintf(value, sizeof value, "key %u", i);
        if (found(map, &api_key, value) >= 0)
            in_record++;
        else
            in_line++;
    }
    assert_int_equal(in_record, 2 * WR_RECORD_ENTRIES);
    assert_int_equal(in_line, 10 - 2 * WR_RECORD_ENTRIES);
}

static void many_keys_come_and_go(void **state)
{
    unsigned char digest[16];
    uint32_t at = 0, number, count = 0;
    char value[32];

    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 2 * ROOM; i++) {
            (void)snprintf(value, sizeof value, "key %d %u", round, (unsigned)i);
            add_key(*state, value, i % ROOM);
        }
        for (uint32_t i = 0; i < 2 * ROOM; i++) {
            (void)snprintf(value, sizeof value, "key %d %u", round, (unsigned)i);
            assert_int_equal(found(*state, &api_key, value), i % ROOM);
            if (round < 2)
                drop_key(*state, value);
        }
    }
    while (wr_customers_key_next(*state, &at, digest, &number)) {
        uint32_t again;
        count++;
        assert_true(wr_customers_key_get(*state, digest, &again));
        assert_int_equal(again, number);
    }
    assert_int_equal(count, 2 * ROOM);
}

static void a_full_run_is_said(void **state)
{
    unsigned char digest[16];
    char value[32];
    int rc = 0;

    for (uint32_t i = 0; i < 3 * ROOM + 1 && rc == 0; i++) {
        (void)snprintf(value, sizeof value, "%u", (unsigned)i);
        digest_of("api_key", value, digest);
        rc = wr_customers_key_set(*state, digest, 1);
    }
    assert_int_equal(rc, WEIR_EFULL);
    assert_int_equal(wr_customers_key_drop(*state, digest), WEIR_ENOENT);
}

static void records_are_what_they_were_set_to(void **state)
{
    const struct wr_customer_record set = {.id = -5,
                                           .plan = 1,
                                           .plan_after = 2,
                                           .anchor = 31,
                                           .flags = WR_CUSTOMER_ACTIVE | WR_CUSTOMER_PARTNER,
                                           .until_ns = NOW};
    struct wr_customer_record record = set, got;

    assert_false(wr_customers_get(*state, 3, &got));
    assert_int_equal(wr_customers_set(*state, 3, &set, false), 0);
    assert_true(wr_customers_get(*state, 3, &got));
    assert_true(got.id == set.id && got.plan == 1 && got.plan_after == 2 && got.anchor == 31 &&
                got.flags == set.flags && got.until_ns == NOW);
    assert_int_equal(wr_customer_plan_of(&got, NOW - 1), 1);
    assert_int_equal(wr_customer_plan_of(&got, NOW), 2);
    record.anchor = 32;
    assert_int_equal(wr_customers_set(*state, 3, &record, false), WEIR_EINVAL);
    record = set;
    record.plan = WR_CUSTOMER_PLANS;
    assert_int_equal(wr_customers_set(*state, 3, &record, false), WEIR_EINVAL);
    assert_int_equal(wr_customers_set(*state, ROOM, &set, false), WEIR_EINVAL);
    assert_false(wr_customers_get(*state, ROOM, &got));
    record = set;
    record.flags = 0;
    assert_int_equal(wr_customers_set(*state, 3, &record, false), 0);
    assert_false(wr_customers_get(*state, 3, &got));
}

static void a_wish_is_kept_until_it_is_met(void **state)
{
    struct wr_customer_record record = {
        .id = 1, .flags = WR_CUSTOMER_ACTIVE, .until_ns = INT64_MAX};
    struct wr_customers *other = open_with(ROOM, false, 0);
    uint32_t at = 0, number;

    assert_int_equal(wr_customers_set(*state, 77, &record, false), 0);
    wr_customers_want(other, 77, 3, 0); /* he was on another plan then */
    assert_false(wr_customers_wanting_next(*state, &at, &number));
    at = 0;
    wr_customers_want(other, 77, 0, 0);
    wr_customers_want(other, 78, 0, 0);                           /* no customer */
    wr_customers_want(other, ROOM, 0, 0);                         /* nobody */
    assert_false(wr_customers_wanting_next(other, &at, &number)); /* no writer */
    at = 0;
    assert_true(wr_customers_wanting_next(*state, &at, &number));
    assert_int_equal(number, 77);
    assert_false(wr_customers_wanting_next(*state, &at, &number));
    record.plan = record.plan_after = 4;
    assert_int_equal(wr_customers_set(*state, 77, &record, false), 0);
    assert_true(wr_customers_get(other, 77, &record));
    assert_int_equal(record.flags, WR_CUSTOMER_ACTIVE | WR_CUSTOMER_WANTS_UPGRADE);
    record.flags = WR_CUSTOMER_ACTIVE;
    assert_int_equal(wr_customers_set(*state, 77, &record, true), 0);
    assert_true(wr_customers_get(other, 77, &record));
    assert_int_equal(record.flags, WR_CUSTOMER_ACTIVE);
    assert_int_equal(record.plan, 4);
    wr_customers_close(other);
}

static void plans_are_numbered_once(void **state)
{
    struct wr_customers *other = open_with(ROOM, false, 0);
    char name[WR_CUSTOMER_PLAN_BYTES + 1], longest[WR_CUSTOMER_PLAN_BYTES + 2];

    assert_int_equal(wr_customers_plan(*state, "free"), 0);
    assert_int_equal(wr_customers_plan(*state, "pro"), 1);
    assert_int_equal(wr_customers_plan(*state, "free"), 0);
    assert_int_equal(wr_customers_plan(other, "pro"), 1);
    assert_int_equal(wr_customers_plan(other, "new"), WEIR_EINVAL);
    memset(longest, 'x', sizeof longest);
    longest[WR_CUSTOMER_PLAN_BYTES + 1] = '\0';
    assert_int_equal(wr_customers_plan(*state, longest), WEIR_EINVAL);
    longest[WR_CUSTOMER_PLAN_BYTES] = '\0';
    assert_int_equal(wr_customers_plan(*state, longest), 2);
    assert_true(wr_customers_plan_name(other, 2, name));
    assert_string_equal(name, longest);
    assert_false(wr_customers_plan_name(other, 3, name));
    for (int i = 3; i < WR_CUSTOMER_PLANS; i++) {
        (void)snprintf(name, sizeof name, "plan %d", i);
        assert_int_equal(wr_customers_plan(*state, name), i);
    }
    assert_int_equal(wr_customers_plan(*state, "one more"), WEIR_EFULL);
    wr_customers_close(other);
}

static void one_process_changes_it(void **state)
{
    struct wr_customer_record record = {.flags = WR_CUSTOMER_ACTIVE};
    unsigned char digest[16] = {0};
    struct wr_customers *other = open_with(ROOM, true, WEIR_EBUSY);

    assert_null(other);
    assert_non_null(strstr(text, "another process changes it"));
    other = open_with(0, false, 0);
    assert_int_equal(wr_customers_set(other, 0, &record, false), WEIR_EINVAL);
    assert_int_equal(wr_customers_key_set(other, digest, 0), WEIR_EINVAL);
    assert_int_equal(wr_customers_key_drop(other, digest), WEIR_EINVAL);
    assert_int_equal(wr_customers_set_mark(other, 1), WEIR_EINVAL);
    assert_int_equal(wr_customers_set_mark(*state, 17), 0);
    assert_int_equal(wr_customers_mark(other), 17);
    wr_customers_close(*state);
    *state = other;
    other = open_with(ROOM, true, 0); /* free again */
    wr_customers_close(other);
}

static void files_that_do_not_fit_are_refused(void **state)
{
    unsigned char byte = 'X';
    struct wr_customers *map = open_with(2 * ROOM, false, 0);
    int fd;

    (void)state;
    assert_non_null(strstr(text, "warning: has room for 1000 customers, 2000 are wanted"));
    wr_customers_close(map);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pwrite(fd, &byte, 1, 3), 1);
    map = open_with(ROOM, false, WEIR_EFORMAT);
    assert_non_null(strstr(text, "is not a file of customers; stop weir, remove it"));
    byte = 0x69;
    assert_int_equal(pwrite(fd, &byte, 1, 3), 1);
    byte = 9;
    assert_int_equal(pwrite(fd, &byte, 1, 12), 1);
    map = open_with(ROOM, false, WEIR_EFORMAT);
    assert_non_null(strstr(text, "its version is 9, this build expects 2"));
    byte = 2;
    assert_int_equal(pwrite(fd, &byte, 1, 12), 1);
    assert_int_equal(pwrite(fd, &byte, 1, 28), 1); /* room */
    map = open_with(ROOM, false, WEIR_ECORRUPT);
    assert_non_null(strstr(text, "its header is damaged"));
    assert_null(map);
    (void)close(fd);
}

/* Keys that lead beyond the room, wherever keys may be. */
static void damaged_keys_lead_nowhere(void **state)
{
    const uint64_t word =
        UINT64_C(1) << 24 | 0xffffff; /* LIVE, of the last customer there can be */
    unsigned char digest[16];
    uint32_t at = 0, number;
    int fd = open(path, O_WRONLY);
    struct stat st;

    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    for (off_t to = 24576; to < st.st_size; to += (off_t)sizeof word)
        assert_int_equal(pwrite(fd, &word, sizeof word, to), sizeof word);
    assert_false(wr_customers_key_next(*state, &at, digest, &number));
    (void)close(fd);
}

/* A million: opened without being read, its memory not touched. */
static void a_large_file_opens_at_once(void **state)
{
    struct wr_customers *map;
    int64_t start;

    wr_customers_close(*state);
    assert_int_equal(unlink(path), 0);
    map = open_with(1000000, false, 0);
    assert_true(wr_customers_bytes(map) < UINT64_C(200) << 20);
    wr_customers_close(map);
    start = wr_clock_mono().ns;
    *state = open_with(1000000, true, 0);
    assert_true(wr_clock_mono().ns - start < 2 * WR_NS_PER_S); /* micros; a scan of 200 MB is not */
}

/* ---- threads ------------------------------------------------------------------------------- */

#define READERS 3
#define ROUNDS 3000

static int stop;

/* Whoever a key leads to, the number and what his record says belong together, as it was set. */
static void *look(void *argument)
{
    struct wr_customers *map = argument;
    uint64_t looks = 0;

    while (__atomic_load_n(&stop, __ATOMIC_ACQUIRE) == 0) {
        int number = found(map, &api_key, looks % 2 == 0 ? "moving" : "still");
        struct wr_customer_record record;

        if (looks++ % 2 != 0)
            assert_int_equal(number, 5);
        else
            assert_true(number == -1 || (number >= 10 && number < 14));
        if (number >= 0 && wr_customers_get(map, (uint32_t)number, &record))
            assert_true(record.plan == record.plan_after && record.until_ns == record.plan);
    }
    return NULL;
}

static void readers_see_whole_changes(void **state)
{
    struct wr_customer_record record = {.flags = WR_CUSTOMER_ACTIVE};
    pthread_t readers[READERS];

    stop = 0;
    add_key(*state, "still", 5);
    for (unsigned i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, look, *state), 0);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        record.plan = record.plan_after = (uint8_t)(round % WR_CUSTOMER_PLANS);
        record.until_ns = record.plan;
        record.id = round % 7;
        assert_int_equal(wr_customers_set(*state, 10 + round % 4, &record, false), 0);
        add_key(*state, "moving", 10 + round % 4);
        if (round % 3 == 0) {
            drop_key(*state, "moving");
            assert_int_equal(found(*state, &api_key, "moving"), -1);
        } else {
            assert_int_equal(found(*state, &api_key, "moving"), 10 + round % 4);
        }
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < READERS; i++)
        assert_int_equal(pthread_join(readers[i], NULL), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(keys_lead_to_customers),
        T(a_digest_is_what_the_format_says),
        T(a_revoked_key_leads_nowhere_at_once),
        T(no_guess_is_believed),
        T(what_was_found_is_remembered),
        T(many_keys_come_and_go),
        T(a_full_run_is_said),
        T(records_are_what_they_were_set_to),
        T(a_wish_is_kept_until_it_is_met),
        T(plans_are_numbered_once),
        T(one_process_changes_it),
        T(files_that_do_not_fit_are_refused),
        T(damaged_keys_lead_nowhere),
        T(a_large_file_opens_at_once),
        T(readers_see_whole_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
