/* sim.c - the run: `sim [--seeds N] [--decisions N] [--break WHAT] [--verbose]`.
 *
 * Without WEIR_SEED seeds 1..N; with it that one. With --break something is done wrong on purpose,
 * and it is a success when some seed notices. */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "engine/part.h"

const char *const broken_names[BROKENS] = {
    [BROKEN_LATE] = "late",     [BROKEN_WINDOW] = "window",     [BROKEN_ANSWERED] = "answered",
    [BROKEN_WHOLE] = "whole",   [BROKEN_RESERVED] = "reserved", [BROKEN_DOUBLE] = "double",
    [BROKEN_KEPT] = "kept",     [BROKEN_TWICE] = "twice",       [BROKEN_LOST] = "lost",
    [BROKEN_HELD] = "held",     [BROKEN_DENIED] = "denied",     [BROKEN_PLAN] = "plan",
    [BROKEN_SHADOW] = "shadow", [BROKEN_REFUSED] = "refused",   [BROKEN_REST] = "rest",
    [BROKEN_BOOK] = "book",
};

/* What the product draws at random, from the seed: secrets of arenas, names of places. */
static struct rng drawn;

ssize_t getrandom(void *bytes, size_t len, unsigned flags)
{
    unsigned char *out = bytes;

    (void)flags;
    for (size_t i = 0; i < len; i++)
        out[i] = (unsigned char)rng_next(&drawn);
    return (ssize_t)len;
}

void fail(struct sim *sim, const char *format, ...)
{
    va_list list;

    if (sim->failed[0] != '\0')
        return;
    va_start(list, format);
    (void)vsnprintf(sim->failed, sizeof sim->failed, format, list);
    va_end(list);
}

int64_t node_now(const struct sim *sim, unsigned number)
{
    const struct node *node = &sim->node[number];

    return sim->now_ns + node->offset_ns + (sim->now_ns - T0) / 1000000 * node->drift_ppm;
}

const char *key_name(unsigned key)
{
    static char name[KEYS][8];

    if (name[key][0] == '\0')
        (void)snprintf(name[key], sizeof name[key], "k%u", key);
    return name[key];
}

const struct wr_limit *limit_of(const struct sim *sim, unsigned limit, unsigned key)
{
    return &sim->limit[limit]->by[plan_of(key)];
}

/* ---- set up and tear down ---------------------------------------------------------------- */

static void read_policy(struct sim *sim)
{
    static struct wr_diag diag;
    static char text[2000];

    wr_diag_init(&diag, "policy");
    if (wr_policy_load_text(&sim->policy, sim->setup.policy, strlen(sim->setup.policy), &diag) !=
        0) {
        (void)wr_diag_format(&diag, text, sizeof text);
        (void)fprintf(stderr, "%s\n%s\n", sim->setup.policy, text);
        exit(2);
    }
    for (unsigned i = 0; i < LIMITS; i++) {
        sim->limit[i] = wr_policy_limit(sim->policy, i);
        for (unsigned plan = 0; plan < PLANS; plan++)
            (void)wr_limit_divide(&sim->part[i][plan], &sim->limit[i]->by[plan],
                                  wr_part_nodes(sim->setup.nodes));
        for (unsigned plan = 0; i == COUNTED && plan < PLANS; plan++) {
            sim->forgiving[plan] = sim->limit[i]->by[plan];
            sim->forgiving[plan].count_denied = 0;
        }
    }
}

static struct sim *sim_new(uint64_t seed, uint64_t wanted, enum broken broken)
{
    struct sim *sim = calloc(1, sizeof *sim);

    if (sim == NULL)
        abort();
    sim->seed = seed;
    sim->wanted = wanted;
    sim->broken = broken;
    sim->rng.state = seed;
    drawn.state = ~seed;
    sim->now_ns = T0 + rng_between(&sim->rng, 0, 20 * S);
    setup_draw(&sim->setup, &sim->rng);
    read_policy(sim);
    sim->store = memory_store_new(sim->setup.nodes);
    sim->ideal = memory_store_new(1);
    sim->store_up = true;
    for (unsigned i = 0; i < sim->setup.nodes; i++) {
        sim->node[i].offset_ns = rng_between(&sim->rng, -3600 * S, 3600 * S);
        sim->node[i].drift_ppm = rng_between(&sim->rng, -500, 500);
        node_start(sim, i, true);
    }
    events_add(&sim->events, sim->now_ns, ARRIVES, 0, NULL);
    events_add(&sim->events, sim->now_ns + sim->setup.fault_ns, FAULT, 0, NULL);
    return sim;
}

static void sim_free(struct sim *sim)
{
    while (sim->events.count > 0) {
        struct event event = events_next(&sim->events);
        if (event.call != NULL)
            call_drop(sim, event.call);
    }
    while (sim->spare != NULL) {
        struct call *call = sim->spare;
        sim->spare = call->next_spare;
        free(call);
    }
    for (unsigned n = 0; n < NODES_MAX; n++) {
        struct node *node = &sim->node[n];
        node_stop(sim, n);
        wr_arena_close(node->arena);
        for (unsigned i = 0; i < LOOPS_MAX; i++) {
            free(node->sizes[i]);
            free(node->book[i]);
            free(node->flights[i]);
        }
        for (unsigned i = 0; i < LIMITS * KEYS; i++)
            meter_free(&node->meter[i / KEYS][i % KEYS]);
    }
    for (unsigned i = 0; i < LIMITS * KEYS; i++) {
        meter_free(&sim->passed[i / KEYS][i % KEYS]);
        meter_free(&sim->counted[i / KEYS][i % KEYS]);
    }
    memory_store_free(sim->store);
    memory_store_free(sim->ideal);
    wr_policy_free(sim->policy);
    free(sim->events.heap);
    free(sim);
}

/* ---- recovery ---------------------------------------------------------------------------- */

/* Ask for one limit, more than it lets through; for a window and a second to come to rest, then
 * counted over a whole one. */
static void recover(struct sim *sim, unsigned path)
{
    struct wr_remote_charge charge;
    int64_t window_ns = sim->limit[path]->by[0].window_ns;

    sim->path = path;
    sim->admitted = sim->ideally = 0;
    memory_store_clear(sim->ideal);
    charge = (struct wr_remote_charge){.limit = &sim->limit[path]->by[0],
                                       .name = sim->limit[path]->name};
    if (path == BUCKET) /* as used up as the real one may be */
        memory_store_force(sim->ideal, &charge, charge.limit->burst, sim->now_ns);
    sim->from_ns = (sim->now_ns / window_ns + 2 + S / window_ns) * window_ns;
    sim->until_ns = sim->from_ns + window_ns;
}

/* What an ideal limiter lets through, less what may lie unspent: a lease for each loop, and what is
 * on its way when the windows turn. Where no windows turn for all at once, chance has the two of
 * them see different requests: a twentieth. */
static void check_recovered(struct sim *sim)
{
    const struct wr_limit *limit = &sim->limit[sim->path]->by[0];
    int64_t lease = wr_limit_capacity(limit) / sim->setup.nodes / 8 + 1;
    int64_t loops = (int64_t)sim->setup.nodes * sim->setup.loops;
    int64_t way = limit->units * 2 * sim->setup.deadline_ns / limit->window_ns + 1;
    int64_t least = sim->ideally - way - (sim->path == FIXED ? 0 : sim->ideally / 20);

    if (sim->setup.leased[sim->path])
        least -= loops * lease;
    if (sim->verbose)
        (void)printf("  %s %lld/%lldms: %lld of %lld in a window, at least %lld\n",
                     sim->limit[sim->path]->name, (long long)limit->units,
                     (long long)(limit->window_ns / MS), (long long)sim->admitted,
                     (long long)sim->ideally, (long long)least);
    if (sim->admitted < least)
        fail(sim, "%s lets %lld through in a window, an ideal one %lld; at least %lld",
             sim->limit[sim->path]->name, (long long)sim->admitted, (long long)sim->ideally,
             (long long)least);
}

static int64_t gap(struct sim *sim)
{
    const struct wr_limit *limit = &sim->limit[sim->path]->by[0];
    int64_t gap_ns = sim->recovering ? limit->window_ns / limit->units / 2 : sim->setup.gap_ns;

    if (sim->pulse.on && !sim->recovering)
        gap_ns /= 20;

    return rng_between(&sim->rng, 0, 2 * gap_ns);
}

/* A request comes, and the next is planned. False: it was the last. */
static bool arrive(struct sim *sim)
{
    if (!sim->recovering && sim->totals.decisions >= sim->wanted) {
        faults_end(sim);
        recover(sim, FIXED);
    }
    if (sim->recovering && sim->now_ns >= sim->until_ns + 2 * sim->setup.deadline_ns) {
        check_recovered(sim);
        if (sim->path == LOG)
            return false;
        recover(sim, sim->path + 1);
    }
    request_arrives(sim);
    events_add(&sim->events, sim->now_ns + gap(sim), ARRIVES, 0, NULL);
    return true;
}

/* ---- the run ----------------------------------------------------------------------------- */

static void happen_node(struct sim *sim, const struct event *event)
{
    if (sim->recovering)
        return;
    if (event->what == STARTS)
        node_start(sim, event->node, rng_chance(&sim->rng, 400));
    else if (event->what == HEALS)
        sim->node[event->node].deaf = sim->node[event->node].mute = false;
    else if (event->what == STORE_STARTS)
        store_start(sim);
    else
        fault_happens(sim);
    if (event->what == FAULT)
        events_add(&sim->events, sim->now_ns + rng_between(&sim->rng, 1, 2 * sim->setup.fault_ns),
                   FAULT, 0, NULL);
}

/* Returns false at the end. */
static bool happen(struct sim *sim, const struct event *event)
{
    struct call *call = event->call;

    switch (event->what) {
    case ARRIVES:
        return arrive(sim);
    case ASKED:
        request_asked(sim, call);
        break;
    case ANSWERED:
        request_answered(sim, call);
        break;
    case TIMED_OUT:
        request_timed_out(sim, call);
        break;
    case RESUMES:
        if (sim->node[call->node].up && sim->node[call->node].life == call->life)
            request_finish(sim, call, WR_REMOTE_DONE);
        call->paused = false;
        break;
    case ENDS:
        request_ends(sim, call);
        break;
    case ADJUSTS:
        adjust_arrives(sim, call);
        break;
    case FAULT:
    case STARTS:
    case STORE_STARTS:
    case HEALS:
        happen_node(sim, event);
        break;
    }
    return true;
}

static void print_totals(const struct sim *sim)
{
    const struct totals *t = &sim->totals;

    (void)printf(
        "seed %llu: %u nodes, %u loops: %llu decisions (%llu admitted, %llu refused), "
        "%llu asked, %llu gone, %llu granted, %llu spent, %llu returned (%llu as they ended), "
        "%llu faults, "
        "%lld ms\n",
        (unsigned long long)sim->seed, sim->setup.nodes, sim->setup.loops,
        (unsigned long long)t->decisions, (unsigned long long)t->admitted,
        (unsigned long long)t->refused, (unsigned long long)t->asked, (unsigned long long)t->gone,
        (unsigned long long)t->granted, (unsigned long long)t->spent,
        (unsigned long long)t->returned, (unsigned long long)t->ended,
        (unsigned long long)t->faults, (long long)((sim->now_ns - T0) / MS));
}

/* Returns whether all held. */
static bool run(uint64_t seed, uint64_t wanted, enum broken broken, bool verbose)
{
    struct sim *sim = sim_new(seed, wanted, broken);
    bool more = true, held;

    sim->verbose = verbose;
    while (more && sim->failed[0] == '\0') {
        struct event event = events_next(&sim->events);
        sim->now_ns = event.at_ns;
        more = happen(sim, &event);
        if (event.call != NULL)
            call_drop(sim, event.call);
    }
    if (verbose)
        print_totals(sim);
    held = sim->failed[0] == '\0';
    if (!held)
        (void)printf("WEIR_SEED=%llu: after %llu decisions, at %lld ns: %s\n",
                     (unsigned long long)seed, (unsigned long long)sim->totals.decisions,
                     (long long)(sim->now_ns - T0), sim->failed);
    sim_free(sim);
    return held;
}

static int usage(void)
{
    (void)fprintf(stderr,
                  "usage: sim [--seeds N] [--decisions N] [--break WHAT] [--verbose]\nWHAT:");
    for (unsigned i = 1; i < BROKENS; i++)
        (void)fprintf(stderr, " %s", broken_names[i]);
    (void)fprintf(stderr, "\n");
    return 2;
}

static enum broken broken_of(const char *name)
{
    unsigned i = 1;

    while (i < BROKENS && strcmp(broken_names[i], name) != 0)
        i++;
    return (enum broken)i;
}

int main(int argc, char **argv)
{
    const char *seed = getenv("WEIR_SEED");
    uint64_t first = seed != NULL ? strtoull(seed, NULL, 10) : 1, seeds = 10, wanted = 100000;
    enum broken broken = BROKEN_NOTHING;
    uint64_t failures = 0;
    bool verbose = false;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--verbose") == 0)
            verbose = true;
        else if (i + 1 < argc && strcmp(argv[i], "--seeds") == 0)
            seeds = strtoull(argv[++i], NULL, 10);
        else if (i + 1 < argc && strcmp(argv[i], "--decisions") == 0)
            wanted = strtoull(argv[++i], NULL, 10);
        else if (i + 1 < argc && strcmp(argv[i], "--break") == 0)
            broken = broken_of(argv[++i]);
        else
            return usage();
    }
    if (broken == BROKENS)
        return usage();
    if (seed != NULL)
        seeds = 1;
    for (uint64_t i = 0; i < seeds && (broken == BROKEN_NOTHING || failures == 0); i++)
        failures += run(first + i, wanted, broken, verbose) ? 0 : 1;
    (void)printf("%llu seeds of %llu decisions: %llu failed\n", (unsigned long long)seeds,
                 (unsigned long long)wanted, (unsigned long long)failures);
    return (failures > 0) == (broken != BROKEN_NOTHING) ? 0 : 1;
}
