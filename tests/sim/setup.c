/* setup.c - what a seed stands for. */
#include "sim.h"

#include <stdio.h>
#include <string.h>

uint64_t rng_next(struct rng *rng) /* splitmix64 (Steele, Lea, Flood 2014) */
{
    uint64_t z = rng->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

int64_t rng_between(struct rng *rng, int64_t low, int64_t high)
{
    return low + (int64_t)(rng_next(rng) % (uint64_t)(high - low + 1));
}

static void add(struct setup *setup, const char *text)
{
    size_t used = strlen(setup->policy);

    (void)snprintf(setup->policy + used, sizeof setup->policy - used, "%s", text);
}

static void add_rate(struct setup *setup, struct rng *rng, const char *algorithm, int window_ms,
                     int64_t units_max)
{
    int64_t units = rng_between(rng, 12, units_max);
    char line[80], burst[40] = "";

    if (strcmp(algorithm, "token-bucket") == 0)
        (void)snprintf(burst, sizeof burst, " burst %lld",
                       (long long)rng_between(rng, units / 2 > 8 ? units / 2 : 8, 2 * units));
    if (strcmp(algorithm, "leaky-bucket") == 0)
        (void)snprintf(burst, sizeof burst, " queue %lld", (long long)rng_between(rng, 0, 12));
    (void)snprintf(line, sizeof line, "%lld/%dms%s", (long long)units, window_ms, burst);
    add(setup, line);
}

/* Keys of one plan and of the other, in turns. */
static void add_identity(struct setup *setup)
{
    char line[40];

    add(setup, "version: 1\nidentity: {api_key: {header: X-Api-Key}, plan: {default: p0, keys: {");
    for (unsigned key = 0; key < KEYS; key++) {
        (void)snprintf(line, sizeof line, "%s%s: p%u", key == 0 ? "" : ", ", key_name(key),
                       plan_of(key));
        add(setup, line);
    }
    add(setup, "}}}\n");
}

/* A limit whose rate is |algorithm|'s, of random size. */
static void add_limit(struct setup *setup, struct rng *rng, unsigned limit, const char *path,
                      const char *algorithm, int64_t units_max)
{
    static const int window_ms[] = {500, 1000, 1000, 2000, 10000};
    static const char *const gone[] = {"closed", "closed", "local", "open"};
    static const char *const names[LIMITS] = {
        "fixed",   "sliding",   "bucket",     "leaky",       "log",        "places",
        "counted", "mix-fixed", "mix-bucket", "mix-sliding", "mix-shadow", "mix-local"};
    int window = window_ms[rng_next(rng) % 5];
    char line[300];

    (void)snprintf(line, sizeof line,
                   "  - {name: %s, match: {path: /%s}, by: [api_key], algorithm: %s, rate: ",
                   names[limit], path, algorithm);
    add(setup, line);
    if (limit == MIX_LOCAL) {
        add_rate(setup, rng, algorithm, window, units_max);
        add(setup, "}\n");
        return;
    }
    add(setup, "{p0: ");
    add_rate(setup, rng, algorithm, window, units_max);
    add(setup, ", p1: ");
    add_rate(setup, rng, algorithm, window, units_max);
    add(setup, "}");
    setup->leased[limit] = limit != LEAKY && limit != LOG && limit != COUNTED &&
                           rng_chance(rng, limit == MIX_SLIDING ? 300 : 800);
    if (limit == MIX_SHADOW)
        add(setup, ", mode: shadow");
    if (limit == COUNTED)
        add(setup, ", count_denied: true");
    (void)snprintf(line, sizeof line, ", shared: true, store_mode: %s, when_store_gone: %s}\n",
                   setup->leased[limit] ? "leased" : "strict", gone[rng_next(rng) % 4]);
    add(setup, line);
}

void setup_draw(struct setup *setup, struct rng *rng)
{
    int64_t most = rng_chance(rng, 300) ? 3000 : 400;
    char line[200];

    memset(setup, 0, sizeof *setup);
    setup->nodes = (unsigned)rng_between(rng, 1, NODES_MAX);
    setup->loops = (unsigned)rng_between(rng, 1, LOOPS_MAX);
    setup->gap_ns = rng_between(rng, 200, 3000) * WR_NS_PER_US;
    setup->delay_ns = rng_between(rng, 50, 3000) * WR_NS_PER_US;
    setup->deadline_ns = 20 * MS;
    setup->slow = (unsigned)rng_between(rng, 0, 50);
    setup->lost = (unsigned)rng_between(rng, 0, 30);
    setup->paused = (unsigned)rng_between(rng, 0, 20);
    setup->fault_ns = rng_between(rng, 50, 2000) * MS;
    add_identity(setup);
    (void)snprintf(line, sizeof line,
                   "store: {ring: {self: a:1, peers: [b:1], password: p}, nodes: %u}\nlimits:\n",
                   setup->nodes);
    add(setup, line);
    add_limit(setup, rng, FIXED, "fixed", "fixed-window", most);
    add_limit(setup, rng, SLIDING, "sliding", "sliding-window", most);
    add_limit(setup, rng, BUCKET, "bucket", "token-bucket", most);
    add_limit(setup, rng, LEAKY, "leaky", "leaky-bucket", 100);
    add_limit(setup, rng, LOG, "log", "sliding-log", 60);
    (void)snprintf(line, sizeof line,
                   "  - {name: places, match: {path: /places}, by: [api_key], concurrent: %lld, "
                   "hold: %lldms, shared: true, when_store_gone: closed}\n",
                   (long long)rng_between(rng, 1, 8), (long long)rng_between(rng, 50, 2000));
    add(setup, line);
    add_limit(setup, rng, COUNTED, "counted", "fixed-window", 300);
    add_limit(setup, rng, MIX_FIXED, "mix", "fixed-window", 300);
    add_limit(setup, rng, MIX_BUCKET, "mix", "token-bucket", 300);
    add_limit(setup, rng, MIX_SLIDING, "mix", "sliding-window", 300);
    add_limit(setup, rng, MIX_SHADOW, "mix", "sliding-window", 100);
    add_limit(setup, rng, MIX_LOCAL, "mix", "fixed-window", 200);
}
