/* driver.c - calls at a store through its backend, for tests: so many in flight, until so many are
 * done or so long has passed, or until SIGINT. Prints a line of JSON every tenth of a second and
 * one at the end.
 *
 *   remote_driver --kind redis --address 127.0.0.1:6379 --calls 1000 --in-flight 64 --units 100 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/engine.h"
#include "remote/remote.h"

#define IN_FLIGHT_MAX 8192
#define SLICE_MS 100

static struct {
    struct wr_policy_address addresses[16];
    struct wr_policy_store store;
    int64_t calls, units, window_ns, cost, keys, first_key, seconds_ms;
    unsigned in_flight, charges, wait_nodes;
    enum wr_algo algo;
    bool spread;    /* each charge of a call under a key of its own */
    bool give_back; /* what was allowed is given back at once */
    bool quiet, stay;
    int64_t rate; /* calls a second; 0: as fast as answers come */
} option = {
    .store = {.kind = WR_STORE_REDIS,
              .deadline_ns = 200 * WR_NS_PER_MS,
              .prefix = "weir",
              .nodes = 3},
    .calls = INT64_MAX,
    .units = 1000000,
    .window_ns = WR_WINDOW_MAX_NS, /* none turns during a test */
    .cost = 1,
    .keys = 1,
    .in_flight = 1,
    .charges = 1,
    .algo = WR_FIXED_WINDOW,
};

struct slot {
    struct wr_remote_call call;
    uint64_t since_ns;
    bool busy;
};

struct tally {
    int64_t remaining; /* of the last answer */
    uint64_t allowed, refused, gone, slowest_us;
    uint64_t troubles[WR_TROUBLES];
};

static const char *arena_path;
static uv_signal_t terminated, interrupted;
static struct wr_backend backend;
static struct wr_limit limit;
static struct slot slots[IN_FLIGHT_MAX];
static struct tally total, slice;
static int64_t asked, under_way;
static uint64_t started_ns;
static uv_timer_t slicer, pacer;
static bool over;

static const char *const trouble_names[WR_TROUBLES] = {
    [WR_TROUBLE_CONNECT] = "connect", [WR_TROUBLE_TIMEOUT] = "timeout",
    [WR_TROUBLE_BREAKER] = "breaker", [WR_TROUBLE_BUSY] = "busy",
    [WR_TROUBLE_DENIED] = "denied",   [WR_TROUBLE_PROTOCOL] = "protocol",
};

static void print_tally(const struct tally *tally, const char *what)
{
    struct wr_backend_state state;

    backend.ops->state(backend.context, &state);
    printf("{\"event\": \"%s\", \"ms\": %" PRIu64 ", \"allowed\": %" PRIu64
           ", \"refused\": %" PRIu64 ", \"gone\": %" PRIu64 ", \"slowest_us\": %" PRIu64
           ", \"remaining\": %" PRId64,
           what, (uv_hrtime() - started_ns) / 1000000, tally->allowed, tally->refused, tally->gone,
           tally->slowest_us, tally->remaining);
    for (unsigned i = 1; i < WR_TROUBLES; i++)
        printf(", \"%s\": %" PRIu64, trouble_names[i], tally->troubles[i]);
    printf(", \"reachable\": %s, \"nodes\": %u, \"calls\": %" PRIu64 ", \"commands\": %" PRIu64
           ", \"detail\": \"",
           state.reachable ? "true" : "false", state.nodes, state.calls, state.commands);
    for (const char *p = state.detail; *p != '\0'; p++)
        if (*p == '"' || *p == '\\' || (unsigned char)*p < ' ')
            printf("\\u%04x", *p);
        else
            putchar(*p);
    puts("\"}");
    (void)fflush(stdout);
}

static void end(void)
{
    if (over || under_way > 0)
        return;
    over = true;
    print_tally(&total, "end");
    backend.ops->close(backend.context);
    uv_close((uv_handle_t *)&slicer, NULL);
    uv_close((uv_handle_t *)&pacer, NULL);
    uv_close((uv_handle_t *)&interrupted, NULL);
    if (option.store.kind == WR_STORE_RING)
        uv_close((uv_handle_t *)&terminated, NULL);
}

static bool time_is_up(void)
{
    return option.seconds_ms > 0 &&
           uv_hrtime() - started_ns >= (uint64_t)option.seconds_ms * 1000000;
}

static void add(struct tally *tally, const struct slot *slot, enum wr_remote_result result)
{
    uint64_t us = (uv_hrtime() - slot->since_ns) / 1000;
    bool allowed = result == WR_REMOTE_DONE;

    for (unsigned i = 0; i < slot->call.count; i++)
        allowed = allowed && slot->call.charge[i].allowed;
    if (result == WR_REMOTE_GONE) {
        tally->gone++;
        tally->troubles[slot->call.trouble]++;
    } else if (allowed) {
        tally->allowed++;
    } else {
        tally->refused++;
    }
    if (result == WR_REMOTE_DONE)
        tally->remaining = slot->call.charge[0].remaining;
    if (us > tally->slowest_us)
        tally->slowest_us = us;
}

static void done(struct wr_remote_call *call, enum wr_remote_result result)
{
    struct slot *slot = call->context;

    add(&total, slot, result);
    add(&slice, slot, result);
    if (option.give_back && result == WR_REMOTE_DONE)
        for (unsigned i = 0; i < call->count; i++)
            if (call->charge[i].allowed)
                backend.ops->refund(backend.context, &call->charge[i], call->charge[i].cost,
                                    call->now_ns);
    slot->busy = false;
    under_way--;
    /* As a server whose policy is replaced: closed in the turn in which it gave back. */
    if (option.give_back && asked >= option.calls)
        end();
}

static void make_tag(unsigned char tag[WR_TAG_BYTES], uint64_t key)
{
    memset(tag, 0, WR_TAG_BYTES);
    memcpy(tag, &key, sizeof key);
}

/* Of the wall: memcached is told moments by it. */
static int64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * WR_NS_PER_S + now.tv_nsec;
}

static void ask(struct slot *slot)
{
    static const char *const names[WEIR_LIMITS_MAX] = {"l0",  "l1",  "l2",  "l3", "l4",  "l5",
                                                       "l6",  "l7",  "l8",  "l9", "l10", "l11",
                                                       "l12", "l13", "l14", "l15"};
    struct wr_remote_call *call = &slot->call;
    uint64_t key = (uint64_t)(option.first_key + asked % option.keys);

    *call = (struct wr_remote_call){
        .count = option.charges, .now_ns = now_ns(), .done = done, .context = slot};
    for (unsigned i = 0; i < option.charges; i++) {
        struct wr_remote_charge *charge = &call->charge[i];
        *charge = (struct wr_remote_charge){
            .limit = &limit, .name = names[i], .cost = option.cost, .place = uv_hrtime()};
        make_tag(charge->tag, option.spread ? key * WEIR_LIMITS_MAX + i : key);
    }
    slot->since_ns = uv_hrtime();
    slot->busy = true;
    asked++;
    under_way++;
    backend.ops->take(backend.context, call);
}

/* ---- ring ----------------------------------------------------------------------------------- */

static struct wr_policy *ring_policy;
static struct wr_arena *ring_arena;
static struct wr_engine *ring_engine;

static bool open_ring(void)
{
    static const char text[] = "version: 1\nlimits:\n  - {name: any, by: [ip], rate: 1/second}\n";
    const struct wr_arena_options options = {.path = arena_path,
                                             .size_bytes = UINT64_C(64) << 20,
                                             .node_share = 30,
                                             .judge = wr_engine_judge};
    struct wr_diag diag;

    wr_diag_init(&diag, "driver");
    if (wr_policy_load_text(&ring_policy, text, sizeof text - 1, &diag) != 0 ||
        wr_arena_open(&ring_arena, &options, NULL) != 0 ||
        wr_engine_new(&ring_engine, ring_policy, ring_arena) != 0)
        return false;
    backend.ops->own(backend.context, ring_engine);
    return true;
}

static void close_ring(void)
{
    wr_engine_free(ring_engine);
    wr_arena_close(ring_arena);
    wr_policy_free(ring_policy);
}

static void on_left(void *context)
{
    (void)context;
    option.calls = 0;
    option.stay = false;
}

/* SIGTERM: hand over, deciding on meanwhile, then end. */
static void on_terminated(uv_signal_t *signal, int number)
{
    (void)signal;
    (void)number;
    option.stay = true;
    backend.ops->leave(backend.context, on_left, NULL);
}

/* SIGINT: no more calls. What is under way is waited for. */
static void on_interrupted(uv_signal_t *signal, int number)
{
    (void)signal;
    (void)number;
    option.calls = 0;
}

static bool sees_enough(void)
{
    struct wr_backend_state state;

    if (option.wait_nodes == 0)
        return true;
    backend.ops->state(backend.context, &state);
    if (state.nodes != option.wait_nodes || !state.reachable)
        return false;
    option.wait_nodes = 0;
    started_ns = uv_hrtime();
    return true;
}

/* Calls begin here, never from done: one that is refused at once would recurse. */
static void on_pace(uv_timer_t *timer)
{
    uint64_t passed_ms = (uv_hrtime() - started_ns) / 1000000;
    (void)timer;

    if (!sees_enough())
        return;
    for (unsigned i = 0; i < option.in_flight && !over; i++) {
        if (asked >= option.calls || time_is_up())
            break;
        if (option.rate > 0 && (uint64_t)asked * 1000 >= (uint64_t)option.rate * passed_ms)
            break;
        if (!slots[i].busy)
            ask(&slots[i]);
    }
    if ((asked >= option.calls || time_is_up()) && !option.stay)
        end();
}

static void on_slice(uv_timer_t *timer)
{
    (void)timer;
    if (!option.quiet)
        print_tally(&slice, "slice");
    slice = (struct tally){0};
}

/* ---- options -------------------------------------------------------------------------------- */

static void read_address(char *text, struct wr_policy_address *address)
{
    char *colon = strrchr(text, ':');

    address->text = text;
    if (text[0] == '/') {
        address->path = text;
        return;
    }
    if (colon == NULL)
        exit(2);
    *colon = '\0';
    address->host = text;
    address->port = (uint16_t)strtoul(colon + 1, NULL, 10);
}

static void add_address(char *text)
{
    if (option.store.address_count > 15)
        exit(2);
    read_address(text, &option.addresses[option.store.address_count++]);
}

static void set(int which, char *value)
{
    static char nothing[] = "0"; /* of options without a value */
    static const char *const kinds[] = {"redis", "sentinel", "cluster", "memcached", "ring"};
    int64_t number;

    if (value == NULL)
        value = nothing;
    number = strtoll(value, NULL, 10);

    switch (which) {
    case 'k':
        for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
            if (strcmp(kinds[i], value) == 0)
                option.store.kind = (enum wr_store_kind)i;
        break;
    case 'a':
        add_address(value);
        break;
    case 'u':
        option.store.user = value;
        break;
    case 'p':
        option.store.password = value;
        break;
    case 'f':
        option.store.password_file = value;
        break;
    case 'm':
        option.store.master = value;
        break;
    case 'S':
        option.store.sentinel_password = value;
        break;
    case 'd':
        option.store.deadline_ns = number * WR_NS_PER_MS;
        break;
    case 'D':
        option.store.database = (unsigned)number;
        break;
    case 'n':
        option.calls = number;
        break;
    case 'U':
        option.units = number;
        break;
    case 'W':
        option.window_ns = number * WR_NS_PER_MS;
        break;
    case 'A':
        option.algo = (enum wr_algo)number;
        break;
    case 'c':
        option.in_flight = (unsigned)number;
        break;
    case 'C':
        option.charges = (unsigned)number;
        break;
    case 'o':
        option.cost = number;
        break;
    case 'K':
        option.keys = number;
        break;
    case 't':
        option.seconds_ms = number;
        break;
    case 'r':
        option.rate = number;
        break;
    case 's':
        option.spread = true;
        break;
    case 'F':
        option.first_key = number;
        break;
    case 'g':
        option.give_back = true;
        break;
    case 'l':
        read_address(value, &option.store.self);
        break;
    case 'N':
        read_address(value, &option.store.dns);
        break;
    case 'y':
        option.stay = true;
        break;
    case 'e':
        arena_path = value;
        break;
    case 'w':
        option.wait_nodes = (unsigned)number;
        break;
    case 'q':
        option.quiet = true;
        break;
    default:
        exit(2);
    }
}

static void read_options(int argc, char **argv)
{
    static const struct option known[] = {
        {"kind", 1, NULL, 'k'},
        {"address", 1, NULL, 'a'},
        {"user", 1, NULL, 'u'},
        {"password", 1, NULL, 'p'},
        {"password-file", 1, NULL, 'f'},
        {"master", 1, NULL, 'm'},
        {"sentinel-password", 1, NULL, 'S'},
        {"deadline-ms", 1, NULL, 'd'},
        {"database", 1, NULL, 'D'},
        {"calls", 1, NULL, 'n'},
        {"units", 1, NULL, 'U'},
        {"window-ms", 1, NULL, 'W'},
        {"algorithm", 1, NULL, 'A'},
        {"in-flight", 1, NULL, 'c'},
        {"charges", 1, NULL, 'C'},
        {"cost", 1, NULL, 'o'},
        {"keys", 1, NULL, 'K'},
        {"run-ms", 1, NULL, 't'},
        {"rate", 1, NULL, 'r'},
        {"spread", 0, NULL, 's'},
        {"give-back", 0, NULL, 'g'},
        {"quiet", 0, NULL, 'q'},
        {"first-key", 1, NULL, 'F'},
        {"self", 1, NULL, 'l'},       /* ring: the address of this node, */
        {"arena", 1, NULL, 'e'},      /* and where its keys lie; none: memory */
        {"wait-nodes", 1, NULL, 'w'}, /* calls begin when so many are seen */
        {"dns", 1, NULL, 'N'},
        {"stay", 0, NULL, 'y'}, /* until SIGTERM, whatever has been asked */
        {0},
    };
    int which;

    while ((which = getopt_long(argc, argv, "", known, NULL)) != -1)
        set(which, optarg);
    option.store.addresses = option.addresses;
    if (option.in_flight > IN_FLIGHT_MAX || option.charges > WEIR_LIMITS_MAX || option.keys < 1)
        exit(2);
}

int main(int argc, char **argv)
{
    uv_loop_t loop;
    const char *wrong;

    read_options(argc, argv);
    wrong = wr_limit_make(&limit, option.algo, option.units, option.window_ns, -1, false);
    if (wrong != NULL) {
        fprintf(stderr, "driver: %s\n", wrong);
        return 2;
    }
    (void)uv_loop_init(&loop);
    if (wr_remote_open(&backend, &loop, &option.store) != 0) {
        fprintf(stderr, "driver: no such backend\n");
        return 2;
    }
    if (option.store.kind == WR_STORE_RING) {
        if (!open_ring())
            return 2;
        (void)uv_signal_init(&loop, &terminated);
        (void)uv_signal_start(&terminated, on_terminated, SIGTERM);
    }
    (void)uv_signal_init(&loop, &interrupted);
    (void)uv_signal_start(&interrupted, on_interrupted, SIGINT);
    started_ns = uv_hrtime();
    (void)uv_timer_init(&loop, &slicer);
    (void)uv_timer_init(&loop, &pacer);
    (void)uv_timer_start(&slicer, on_slice, SLICE_MS, SLICE_MS);
    (void)uv_timer_start(&pacer, on_pace, 0, 1);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    close_ring();
    return uv_loop_close(&loop) == 0 ? 0 : 1;
}
