/* check.c - weir_check beside the peer of peer.h and beside the machine's own limits.
 *
 * As measure.h has it: CPU time of the thread for one worker, wall time of a fixed window for two.
 * Prints one JSON line a case. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "measure.h"
#include "peer.h"
#include "weir/weir.h"

#define ROUNDS 7
#define KEY_LEN 24
#define BATCH 16
#define MILLION UINT64_C(1000000)
#define WINDOW_NS INT64_C(40000000) /* of a two-worker round */

static struct weir *weir;
static struct peer *peer;
static unsigned limit, denied_limit;
static atomic_uint_fast64_t sink;

static void make_key(char *key, uint64_t number)
{
    memcpy(key, "client-identity:", 16);
    memcpy(key + 16, &number, 8);
}

/* ---- one worker --------------------------------------------------------------------------- */

typedef void run_fn(uint64_t keys, uint64_t decisions, uint64_t seed);

static void run_ours(uint64_t keys, uint64_t decisions, uint64_t seed)
{
    struct weir_verdict verdict;
    uint64_t passed = 0;
    char key[KEY_LEN];

    for (uint64_t i = 0; i < decisions; i++) {
        make_key(key, mix(seed + i) % keys);
        (void)weir_check(weir, limit, (struct weir_slice){key, KEY_LEN}, 1, weir_now(weir),
                         &verdict);
        passed += verdict.outcome == WEIR_ALLOW;
    }
    sink += passed;
}

static void run_batch(uint64_t keys, uint64_t decisions, uint64_t seed)
{
    struct weir_verdict verdicts[BATCH];
    struct weir_charge charges[BATCH];
    char key[BATCH][KEY_LEN];
    uint64_t passed = 0;

    for (uint64_t i = 0; i < decisions; i += BATCH) {
        for (unsigned j = 0; j < BATCH; j++) {
            make_key(key[j], mix(seed + i + j) % keys);
            charges[j] = (struct weir_charge){{key[j], KEY_LEN}, 1, limit};
        }
        (void)weir_check_batch(weir, charges, BATCH, WEIR_NOW, verdicts);
        for (unsigned j = 0; j < BATCH; j++)
            passed += verdicts[j].outcome == WEIR_ALLOW;
    }
    sink += passed;
}

static void run_peer(uint64_t keys, uint64_t decisions, uint64_t seed)
{
    uint64_t passed = 0;
    char key[KEY_LEN];

    for (uint64_t i = 0; i < decisions; i++) {
        make_key(key, mix(seed + i) % keys);
        passed += peer_check(peer, key, KEY_LEN, 1, clock_ns(CLOCK_MONOTONIC));
    }
    sink += passed;
}

/* One dependent miss after another over as many bytes as the arena's slots take. */
static uint64_t *chase;
static uint64_t chase_lines;

static void make_chase(uint64_t bytes)
{
    uint64_t at = 0;

    chase_lines = bytes / 64;
    chase = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (chase == MAP_FAILED)
        abort();
    /* A full-period walk: step by an odd stride, scrambled by a power of two and one. */
    for (uint64_t i = 0; i < chase_lines; i++) {
        uint64_t next = (at * 6364136223846793005U + 1442695040888963407U) & (chase_lines - 1);
        chase[at * 8] = next;
        at = next;
    }
}

static void run_chase(uint64_t keys, uint64_t decisions, uint64_t seed)
{
    uint64_t at = mix(seed) & (chase_lines - 1);

    (void)keys;
    for (uint64_t i = 0; i < decisions; i++)
        at = chase[at * 8];
    sink += at;
}

static double ns_of(run_fn *run, uint64_t keys, uint64_t decisions, uint64_t seed)
{
    int64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);

    run(keys, decisions, seed);
    return (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - start) / (double)decisions;
}

/* How many times the rate of |other| is ours (|rate|), or how many times its time (not |rate|). */
static void race(const char *name, run_fn *ours, run_fn *other, uint64_t keys, uint64_t decisions,
                 double target, bool rate)
{
    double a[ROUNDS], b[ROUNDS], ratios[ROUNDS];

    for (unsigned i = 0; i < ROUNDS; i++) {
        a[i] = ns_of(ours, keys, decisions, i * decisions);
        b[i] = ns_of(other, keys, decisions, i * decisions);
        ratios[i] = rate ? b[i] / a[i] : a[i] / b[i];
    }
    report_rounds((struct measured){.bench = "check",
                                    .name = name,
                                    .unit = "ns CPU a decision",
                                    .target = target,
                                    .at_most = !rate},
                  a, b, ratios, ROUNDS);
}

/* ---- two workers -------------------------------------------------------------------------- */

static atomic_int_fast64_t window_end;

typedef uint64_t work_fn(uint64_t worker, int64_t end); /* returns decisions made */

static uint64_t work_ours(uint64_t worker, int64_t end)
{
    struct weir_verdict verdict;
    uint64_t i = 0;
    char key[KEY_LEN];
    int64_t now;

    for (now = weir_now(weir); clock_ns(CLOCK_MONOTONIC) < end; now = weir_now(weir)) {
        for (unsigned j = 0; j < 16; j++, i++) {
            make_key(key, mix(worker << 40 | i) % MILLION);
            (void)weir_check(weir, limit, (struct weir_slice){key, KEY_LEN}, 1, now, &verdict);
        }
    }
    return i;
}

static uint64_t work_denied(uint64_t worker, int64_t end)
{
    struct weir_verdict verdict;
    uint64_t i = 0;
    int64_t now;

    (void)worker;
    for (now = weir_now(weir); clock_ns(CLOCK_MONOTONIC) < end; now = weir_now(weir)) {
        for (unsigned j = 0; j < 16; j++, i++)
            (void)weir_check(weir, denied_limit, (struct weir_slice){"flood", 5}, 1, now, &verdict);
    }
    return i;
}

static uint64_t work_peer(uint64_t worker, int64_t end)
{
    uint64_t i = 0;
    char key[KEY_LEN];
    int64_t now;

    for (now = clock_ns(CLOCK_MONOTONIC); now < end; now = clock_ns(CLOCK_MONOTONIC)) {
        for (unsigned j = 0; j < 16; j++, i++) {
            make_key(key, mix(worker << 40 | i) % MILLION);
            (void)peer_check(peer, key, KEY_LEN, 1, now);
        }
    }
    return i;
}

struct worker {
    work_fn *work;
    uint64_t number;
    uint64_t done;
    pthread_t thread;
};

static void *work_thread(void *argument)
{
    struct worker *worker = argument;
    worker->done = worker->work(worker->number, window_end);
    return NULL;
}

/* Decisions per microsecond of |count| threads. */
static double threads(work_fn *work, unsigned count)
{
    struct worker workers[2];
    uint64_t done = 0;

    window_end = clock_ns(CLOCK_MONOTONIC) + WINDOW_NS;
    for (unsigned i = 0; i < count; i++) {
        workers[i] = (struct worker){.work = work, .number = i};
        if (pthread_create(&workers[i].thread, NULL, work_thread, &workers[i]) != 0)
            abort();
    }
    for (unsigned i = 0; i < count; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        done += workers[i].done;
    }
    return (double)done * 1000 / (double)WINDOW_NS;
}

/* The same with two child processes on the one arena. */
static double processes(work_fn *work)
{
    uint64_t *done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child[2];
    double rate;

    if (done == MAP_FAILED)
        abort();
    window_end = clock_ns(CLOCK_MONOTONIC) + WINDOW_NS;
    for (unsigned i = 0; i < 2; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            if (weir_after_fork(weir) != 0)
                _exit(1);
            done[i * 8] = work(i, window_end);
            _exit(0);
        }
    }
    for (unsigned i = 0; i < 2; i++)
        (void)waitpid(child[i], NULL, 0);
    rate = (double)(done[0] + done[8]) * 1000 / (double)WINDOW_NS;
    (void)munmap(done, 4096);
    return rate;
}

static double two_threads_ours(void)
{
    return threads(work_ours, 2);
}

static double two_threads_peer(void)
{
    return threads(work_peer, 2);
}

static double two_processes(void)
{
    return processes(work_ours);
}

static double two_denied(void)
{
    return threads(work_denied, 2);
}

static double one_denied(void)
{
    return threads(work_denied, 1);
}

static void race_pairs(const char *name, double (*ours)(void), double (*other)(void), double target)
{
    double a[ROUNDS], b[ROUNDS], ratios[ROUNDS];

    for (unsigned i = 0; i < ROUNDS; i++) {
        a[i] = ours();
        b[i] = other();
        ratios[i] = a[i] / b[i];
    }
    report_rounds(
        (struct measured){
            .bench = "check", .name = name, .unit = "M decisions/s", .target = target},
        a, b, ratios, ROUNDS);
}

/* ---- the cases ---------------------------------------------------------------------------- */

static const char policy[] =
    "version: 1\n"
    "limits:\n"
    "  - {name: wide, by: [client], rate: 1000000/second burst 1000000, algorithm: token-bucket}\n"
    "  - {name: tight, by: [client], rate: 1/day, algorithm: token-bucket}\n"
    "identity:\n"
    "  client: {given: true}\n";

static void open_weir(uint64_t arena_bytes)
{
    struct weir_options options = {.arena_path = "", .arena_bytes = arena_bytes};
    char path[] = "/tmp/weir-bench-XXXXXX", errors[2000];
    int fd = mkstemp(path);

    if (fd < 0 || write(fd, policy, sizeof policy - 1) != (ssize_t)(sizeof policy - 1))
        abort();
    (void)close(fd);
    if (weir_open(&weir, path, &options, errors, sizeof errors) != 0) {
        (void)fprintf(stderr, "%s", errors);
        exit(1);
    }
    (void)unlink(path);
    limit = (unsigned)weir_limit_find(weir, "wide");
    denied_limit = (unsigned)weir_limit_find(weir, "tight");
}

static void load_ours(uint64_t keys)
{
    struct weir_verdict verdict;
    char key[KEY_LEN];

    for (uint64_t i = 0; i < keys; i++) {
        make_key(key, i);
        (void)weir_check(weir, limit, (struct weir_slice){key, KEY_LEN}, 1, weir_now(weir),
                         &verdict);
    }
}

static void *idle(void *argument)
{
    (void)argument;
    (void)pause();
    return NULL;
}

int main(int argc, char **argv)
{
    bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    uint64_t many = quick ? UINT64_C(4) << 20 : UINT64_C(16) << 20;
    pthread_t thread;

    /* glibc drops the lock prefix from a mutex while a process has one thread; no server has one.
     */
    if (pthread_create(&thread, NULL, idle, NULL) != 0)
        abort();
    open_weir(UINT64_C(64) << 20);
    peer = peer_new(1U << 20, 1e6, 1e6);
    load_ours(MILLION);
    run_peer(MILLION, 4 * MILLION, 1);
    race("one limit, hot key", run_ours, run_peer, 1, 2 * MILLION, 1.6, true);
    race("one limit, 1 M keys", run_ours, run_peer, MILLION, MILLION, 3, true);
    race("one limit, 1 M keys, batch of 16", run_batch, run_peer, MILLION, MILLION, 12, true);
    race_pairs("two threads, 1 M keys", two_threads_ours, two_threads_peer, 10);
    race_pairs("two processes beside two threads", two_processes, two_threads_ours, 0.85);
    race_pairs("denied hot key, two workers beside one", two_denied, one_denied, 1.8);
    peer_free(peer);
    weir_close(weir);

    open_weir(many * 32);
    load_ours(many);
    make_chase(many * 32);
    race(quick ? "4 M keys beside one dependent miss" : "16 M keys beside one dependent miss",
         run_ours, run_chase, many, MILLION, 1.6, false);
    weir_close(weir);
    return sink == 1;
}
