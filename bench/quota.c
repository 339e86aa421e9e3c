/* quota.c - weir_decide with quotas of customers, beside the same policy with two plain limits.
 *
 * Two peers: limits of the same customers, which is what a quota replaces; and fixed windows by API
 * key, where nobody knows any customers, which is what customers cost as well.
 *
 * As measure.h has it, CPU time of the thread. A million customers with a key each, a daily and a
 * monthly quota. Prints one JSON line a case; opening and memory have their own. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "measure.h"
#include "store/customers.h"
#include "store/usage.h"
#include "weir/weir.h"

#define ROUNDS 9
#define KEY_LEN 24
#define BATCH 16
#define CUSTOMERS 1000000U
#define DECISIONS 1000000U /* of a round */
#define TARGET 1.2
#define TARGET_COLD 1.6 /* docs/decisions/0015 */
#define FIELDS 2        /* of either policy: the key as the program gives it, and the header */

static char folder[64];
static struct weir *quotas, *windows, *rates;
static uint64_t sink;

/* ---- who comes ----------------------------------------------------------------------------- */

typedef uint64_t who_fn(uint64_t draw);

static uint64_t always_one(uint64_t draw)
{
    (void)draw;
    return 0;
}

static uint64_t anybody(uint64_t draw)
{
    return mix(draw) % CUSTOMERS;
}

/* As real callers do: customer k comes k times more seldom than the first (Zipf's law, s = 1, by
 * the inverse of its continuous form). Drawn ahead, as a logarithm costs what a tenth of a decision
 * does. Neighbours in rank are not neighbours in memory. */
static uint32_t *by_rank;

static void draw_ranks(void)
{
    by_rank = malloc(CUSTOMERS * sizeof *by_rank);
    if (by_rank == NULL)
        abort();
    for (uint32_t i = 0; i < CUSTOMERS; i++) {
        double u = (double)(mix(i) >> 11) / (double)(UINT64_C(1) << 53);
        uint64_t rank = (uint64_t)exp(u * log((double)CUSTOMERS));
        by_rank[i] = (uint32_t)(rank * 382747 % CUSTOMERS); /* without a common divisor */
    }
}

static uint64_t as_real_callers(uint64_t draw)
{
    return by_rank[draw % CUSTOMERS];
}

/* 24 bytes that are a header's value. */
static void make_key(char *key, uint64_t number)
{
    static const char digits[] = "0123456789abcdef";

    memcpy(key, "k_live_customer:", 16);
    for (unsigned i = 0; i < 8; i++)
        key[16 + i] = digits[number >> (4 * i) & 15];
}

/* ---- the policies ---------------------------------------------------------------------- */

static const char with_quotas[] =
    "version: 1\n"
    "arena: {path: %s/quotas.arena, size: 64MiB}\n"
    "identity: {api_key: {header: X-Api-Key}}\n"
    "customers: {directory: %s/customers, by: [api_key], room: 1000000}\n"
    "limits:\n"
    "  - {name: daily, by: [customer], quota: {limit: 1000000000, per: day}}\n"
    "  - {name: monthly, by: [customer], quota: {limit: 1000000000, per: month}}\n";

static const char with_windows[] =
    "version: 1\n"
    "arena: {path: %s/windows.arena, size: 64MiB}\n"
    "identity: {api_key: {header: X-Api-Key}}\n"
    "limits:\n"
    "  - {name: daily, by: [api_key], rate: 1000000000/day, algorithm: fixed-window,\n"
    "     when_missing: skip}\n"
    "  - {name: weekly, by: [api_key], rate: 1000000000/week, algorithm: fixed-window,\n"
    "     when_missing: skip}\n";

/* Of the same customers. */
static const char with_rates[] =
    "version: 1\n"
    "arena: {path: %s/rates.arena, size: 64MiB}\n"
    "identity: {api_key: {header: X-Api-Key}}\n"
    "customers: {directory: %s/customers, by: [api_key], room: 1000000}\n"
    "limits:\n"
    "  - {name: daily, by: [customer], rate: 1000000000/day, algorithm: fixed-window,\n"
    "     when_missing: skip}\n"
    "  - {name: weekly, by: [customer], rate: 1000000000/week, algorithm: fixed-window,\n"
    "     when_missing: skip}\n";

static struct weir *open_policy(const char *text)
{
    struct weir *weir;
    char path[128], errors[2000];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/policy.yaml", folder);
    file = fopen(path, "w");
    if (file == NULL)
        abort();
        /* Both have one place for the folder or two. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
    (void)fprintf(file, text, folder, folder);
#pragma GCC diagnostic pop
    (void)fclose(file);
    if (weir_open(&weir, path, NULL, errors, sizeof errors) != 0) {
        (void)fprintf(stderr, "%s", errors);
        exit(1);
    }
    return weir;
}

static void fill(void)
{
    struct wr_customers_options options = {.writer = true};
    struct wr_customer_record record = {.flags = WR_CUSTOMER_ACTIVE, .until_ns = INT64_MAX};
    unsigned char digest[WR_SHA256_BYTES];
    struct wr_customers *map;
    char path[128], key[KEY_LEN];

    (void)snprintf(path, sizeof path, "%s/customers/" WR_CUSTOMERS_NAME, folder);
    options.path = path;
    if (wr_customers_open(&map, &options, NULL) != 0 || wr_customers_plan(map, "default") != 0)
        abort();
    for (uint32_t i = 0; i < CUSTOMERS; i++) {
        record.id = i;
        make_key(key, i);
        wr_customer_digest((struct weir_slice){"api_key", 7}, (struct weir_slice){key, KEY_LEN},
                           digest);
        if (wr_customers_set(map, i, &record, false) != 0 ||
            wr_customers_key_set(map, digest, i) != 0)
            abort();
    }
    wr_customers_close(map);
}

static void clean(void)
{
    static const char *const names[] = {"customers/daily.usage",
                                        "customers/monthly.usage",
                                        "customers/" WR_CUSTOMERS_NAME,
                                        "quotas.arena",
                                        "windows.arena",
                                        "rates.arena",
                                        "policy.yaml"};
    char path[128];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    (void)snprintf(path, sizeof path, "%s/customers", folder);
    (void)rmdir(path);
    (void)rmdir(folder);
}

/* ---- measuring ----------------------------------------------------------------------------- */

static struct weir_request request_of(const struct weir_slice fields[FIELDS])
{
    return (struct weir_request){.method = {"GET", 3},
                                 .path = {"/", 1},
                                 .peer = {"192.0.2.1", 9},
                                 .fields = fields,
                                 .field_count = FIELDS,
                                 .cost_units = 1,
                                 .plan = -1};
}

static void run_one(struct weir *weir, who_fn *who, uint64_t decisions, uint64_t seed)
{
    static struct weir_answer answer;
    int64_t now = weir_now(weir);
    char key[KEY_LEN];
    struct weir_slice fields[FIELDS] = {{NULL, 0}, {key, KEY_LEN}};
    struct weir_request request = request_of(fields);

    for (uint64_t i = 0; i < decisions; i++) {
        make_key(key, who(seed + i));
        (void)weir_decide(weir, &request, now, &answer);
        sink += answer.outcome == WEIR_ALLOW && answer.count == 2;
    }
}

static void run_batch(struct weir *weir, who_fn *who, uint64_t decisions, uint64_t seed)
{
    static struct weir_answer answers[BATCH];
    int64_t now = weir_now(weir);
    char key[BATCH][KEY_LEN];
    struct weir_slice fields[BATCH][FIELDS];
    struct weir_request requests[BATCH];

    for (uint64_t i = 0; i < decisions; i += BATCH) {
        for (unsigned j = 0; j < BATCH; j++) {
            make_key(key[j], who(seed + i + j));
            fields[j][0] = (struct weir_slice){NULL, 0};
            fields[j][1] = (struct weir_slice){key[j], KEY_LEN};
            requests[j] = request_of(fields[j]);
        }
        (void)weir_decide_batch(weir, requests, BATCH, now, answers);
        for (unsigned j = 0; j < BATCH; j++)
            sink += answers[j].outcome == WEIR_ALLOW && answers[j].count == 2;
    }
}

typedef void run_fn(struct weir *weir, who_fn *who, uint64_t decisions, uint64_t seed);

static double ns_of(run_fn *run, struct weir *weir, who_fn *who, uint64_t decisions, uint64_t seed)
{
    uint64_t passed = sink;
    int64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);

    run(weir, who, decisions, seed);
    if (sink - passed != decisions)
        abort(); /* both limits, every time */
    return (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - start) / (double)decisions;
}

static void race(const char *name, const char *who_comes, run_fn *run, who_fn *who,
                 struct weir *peer, double target)
{
    double a[ROUNDS], b[ROUNDS], ratios[ROUNDS];
    char text[128];

    for (unsigned i = 0; i < ROUNDS; i++) {
        a[i] = ns_of(run, quotas, who, DECISIONS, i * DECISIONS);
        b[i] = ns_of(run, peer, who, DECISIONS, i * DECISIONS);
        ratios[i] = a[i] / b[i];
    }
    (void)snprintf(text, sizeof text, "%s: %s", name, who_comes);
    report_rounds((struct measured){.bench = "quota",
                                    .name = text,
                                    .unit = "ns CPU a decision",
                                    .target = target,
                                    .at_most = true},
                  a, b, ratios, ROUNDS);
}

static void race_all(const char *name, struct weir *peer, double target_cold)
{
    race(name, "one customer", run_one, always_one, peer, TARGET);
    race(name, "of 1 M as real callers come", run_one, as_real_callers, peer, target_cold);
    race(name, "of 1 M anybody, 16 at once", run_batch, anybody, peer, TARGET);
    race(name, "of 1 M anybody", run_one, anybody, peer, target_cold);
}

static void report_bound(const char *name, const char *unit, double ours, double bound)
{
    report(&(struct measured){"quota", name, unit, ours, bound, ours / bound, 1, true});
}

/* Milliseconds until a file for a million customers is open; a scan would take a second. */
static void race_open(void)
{
    struct wr_customers_options options = {.must_exist = true};
    double a[ROUNDS];
    char path[128];

    (void)snprintf(path, sizeof path, "%s/customers/" WR_CUSTOMERS_NAME, folder);
    options.path = path;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct wr_customers *map;
        int64_t start = clock_ns(CLOCK_MONOTONIC);
        if (wr_customers_open(&map, &options, NULL) != 0)
            abort();
        a[i] = (double)(clock_ns(CLOCK_MONOTONIC) - start) / 1e6;
        wr_customers_close(map);
    }
    report_bound("1 M customers: open the file", "ms", median(a, ROUNDS), 10);
}

static void report_memory(void)
{
    struct stat st;
    double bytes = 0;
    char path[128];
    static const char *const names[] = {"daily.usage", "monthly.usage", WR_CUSTOMERS_NAME};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/customers/%s", folder, names[i]);
        if (stat(path, &st) != 0)
            abort();
        bytes += (double)st.st_size;
    }
    report_bound("bytes a customer with two quotas", "bytes", bytes / CUSTOMERS, 330);
}

int main(void)
{
    (void)snprintf(folder, sizeof folder, "/dev/shm/weir-bench-quota-XXXXXX");
    if (mkdtemp(folder) == NULL)
        abort();
    quotas = open_policy(with_quotas);
    windows = open_policy(with_windows);
    rates = open_policy(with_rates);
    fill();
    draw_ranks();
    for (uint64_t seed = 0; seed < 4; seed++) {
        run_one(quotas, anybody, CUSTOMERS, seed << 40);
        run_one(windows, anybody, CUSTOMERS, seed << 40);
        run_one(rates, anybody, CUSTOMERS, seed << 40);
    }
    race_open();
    report_memory();
    race_all("two quotas beside as many windows", windows, TARGET_COLD);
    race_all("two quotas beside as many rates of the same customers", rates, TARGET);
    free(by_rank);
    weir_close(quotas);
    weir_close(windows);
    weir_close(rates);
    clean();
    return 0;
}
