/* parallel.c - many threads, and many processes killed at random, on one arena: each limit admits
 * its number and never one more, and what is given back is given back exactly. The clock stands
 * still, so the number is known. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "fixture.h"

#define THREADS 4
#define KEYS 6
#define BROAD 500

/* |algorithm| with room for more than one broad limit lets through, so that it is the one that is
 * given back. */
static void policy_of(char *out, size_t size, const char *algorithm)
{
    (void)snprintf(out, size,
                   "version: 1\n"
                   "identity: {api_key: {header: X-Api-Key}}\n"
                   "limits:\n"
                   "  - {name: by-key, by: [api_key], rate: 200/hour, algorithm: %s}\n"
                   "  - {name: broad, rate: %d/hour, algorithm: %s}\n",
                   algorithm, BROAD, algorithm);
}

struct worker {
    struct weir *weir;
    pthread_t thread;
    unsigned number;
    atomic_uint *admitted; /* by key */
};

static void *hammer(void *argument)
{
    struct worker *worker = argument;
    static const char *const keys[KEYS] = {"a", "b", "c", "d", "e", "f"};

    for (unsigned i = 0; i < 600; i++) {
        unsigned key = (i + worker->number) % KEYS;
        struct weir_answer a = decide(worker->weir, T0, (struct call){.api_key = keys[key]});
        if (a.outcome != WEIR_DENY)
            worker->admitted[key]++;
    }
    return NULL;
}

static unsigned sum(const atomic_uint *admitted)
{
    unsigned total = 0;

    for (unsigned i = 0; i < KEYS; i++) {
        assert_true(admitted[i] <= 200);
        total += admitted[i];
    }
    return total;
}

static void threads_admit_exactly(const char *algorithm)
{
    struct worker workers[THREADS];
    atomic_uint admitted[KEYS] = {0};
    char policy[600];
    struct weir *w;

    policy_of(policy, sizeof policy, algorithm);
    w = open_text(policy, "");
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){w, 0, i, admitted};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, hammer, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        (void)pthread_join(workers[i].thread, NULL);
    assert_true(sum(admitted) <= BROAD);
    /* Requests that met at the end may have refused each other; alone, one fills what is left,
     * exactly. */
    workers[0].number = 0;
    (void)hammer(&workers[0]);
    assert_int_equal(sum(admitted), BROAD);
    /* What the broad limit refused was given back by key: the counts agree to the unit. */
    for (unsigned i = 0; i < KEYS; i++) {
        char key[2] = {(char)('a' + i), 0};
        struct weir_answer a =
            decide(w, T0, (struct call){.api_key = key, .cost = LOOK, .peek = true});
        assert_int_equal(left(w, &a, "by-key"), 200 - admitted[i]);
    }
    weir_close(w);
}

static void test_threads(void **state)
{
    static const char *const algorithms[] = {"token-bucket", "fixed-window", "sliding-window",
                                             "sliding-log"};
    (void)state;

    for (unsigned i = 0; i < 4; i++)
        threads_admit_exactly(algorithms[i]);
}

/* Children decide until all is refused; the parent kills one now and then and starts another. What
 * the children counted is less than the limit by at most one for each kill: taken, but dead before
 * counting. */
#define KILLS 40
#define LIMIT 60000

static pid_t start_child(struct weir *w, atomic_uint *counted)
{
    pid_t child = fork();

    if (child != 0)
        return child;
    if (weir_after_fork(w) != 0)
        _exit(1);
    for (unsigned denied = 0; denied < 100;) {
        struct weir_answer a = decide(w, T0, (struct call){.api_key = "k"});
        if (a.outcome == WEIR_DENY)
            denied++;
        else
            (*counted)++;
    }
    _exit(0);
}

static void kills_admit_no_more(const char *algorithm, unsigned limit)
{
    atomic_uint *counted =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char policy[600];
    pid_t child[2];
    unsigned kills = 0, seed = 1;
    struct weir *w;
    int status;

    assert_true(counted != MAP_FAILED);
    (void)snprintf(policy, sizeof policy,
                   "version: 1\nlimits:\n  - {name: x, rate: %u/day, algorithm: %s}\n", limit,
                   algorithm);
    w = open_text(policy, "");
    for (unsigned i = 0; i < 2; i++)
        child[i] = start_child(w, counted);
    while (kills < KILLS) {
        unsigned victim = (unsigned)rand_r(&seed) % 2;
        (void)usleep(500 + (useconds_t)(rand_r(&seed) % 2000));
        if (waitpid(child[victim], &status, WNOHANG) == child[victim])
            break; /* it has finished: all is refused */
        (void)kill(child[victim], SIGKILL);
        (void)waitpid(child[victim], &status, 0);
        kills++;
        child[victim] = start_child(w, counted);
    }
    for (unsigned i = 0; i < 2; i++)
        (void)waitpid(child[i], &status, 0);
    assert_true(*counted <= limit);
    assert_true(*counted + kills >= limit);
    (void)munmap(counted, 4096);
    weir_close(w);
}

static void test_kills(void **state)
{
    (void)state;
    kills_admit_no_more("token-bucket", LIMIT);
    kills_admit_no_more("fixed-window", LIMIT);
    kills_admit_no_more("sliding-window", LIMIT);
    kills_admit_no_more("sliding-log", 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads),
                                       cmocka_unit_test(test_kills)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
