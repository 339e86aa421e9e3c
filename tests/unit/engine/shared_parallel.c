/* shared_parallel.c - many threads spend the leases of a few keys while one asks the store for
 * more: never more than was granted passes, and never more than the limit. The clock stands still,
 * so that no lease ends by time and the numbers are known. */
#include <pthread.h>
#include <stdatomic.h>

#include "shared_fixture.h"

#define THREADS 4
#define KEYS 3
#define LIMIT 3000
#define TRIES 4000

static struct memory_store *store;
static pthread_mutex_t store_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_llong granted[KEYS]; /* and the costs that the store itself let pass */
static atomic_llong admitted[KEYS];

static const char *const names[KEYS] = {"a", "b", "c"};

/* As fixture's request, with the store behind a lock. */
static bool passes(struct node *node, unsigned key)
{
    struct call call = {.api_key = names[key]};
    struct wr_remote_call *question = &node->pending.call;
    struct weir_answer answer;

    if (begin_call(node, T0, call, &answer))
        return answer.outcome == WEIR_ALLOW;
    assert_int_equal(question->count, 1);
    question->charge[0].extra = 7;
    question->charge[0].ttl_ns = 900 * MS;
    (void)pthread_mutex_lock(&store_lock);
    memory_store_take(store, question, T0);
    (void)pthread_mutex_unlock(&store_lock);
    if (question->charge[0].allowed)
        granted[key] += question->charge[0].granted + 1;
    (void)wr_engine_finish(node->weir->engine, &node->pending, WR_REMOTE_DONE, 1, T0, &answer);
    return answer.outcome == WEIR_ALLOW;
}

struct worker {
    struct weir *weir;
    pthread_t thread;
    unsigned number;
};

static void *hammer(void *argument)
{
    struct worker *worker = argument;
    struct node node = {.weir = worker->weir, .nodes = 1};

    for (unsigned i = 0; i < TRIES; i++) {
        unsigned key = (i + worker->number) % KEYS;
        if (passes(&node, key))
            admitted[key]++;
    }
    return NULL;
}

static void run(const char *algorithm)
{
    struct worker workers[THREADS];
    char policy[600];
    struct weir *weir;

    (void)snprintf(policy, sizeof policy,
                   "version: 1\n"
                   "identity: {api_key: {header: X-Api-Key}}\n"
                   "store: {ring: {self: a:1, peers: [b:1], password: p}, mode: leased}\n"
                   "limits: [{name: all, by: [api_key], rate: %d/hour, algorithm: %s, "
                   "shared: true}]\n",
                   LIMIT, algorithm);
    weir = open_text(policy, "");
    store = memory_store_new(1);
    for (unsigned i = 0; i < KEYS; i++)
        granted[i] = admitted[i] = 0;
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){weir, 0, i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, hammer, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        (void)pthread_join(workers[i].thread, NULL);
    for (unsigned i = 0; i < KEYS; i++) {
        assert_true(admitted[i] <= granted[i]);
        assert_true(granted[i] <= LIMIT);
        /* 5333 tries a key: all is used up, but for what merging of leases strands (an eighth). */
        assert_true(admitted[i] >= LIMIT * 7 / 8);
    }
    memory_store_free(store);
    weir_close(weir);
}

static void test_fixed_window(void **state)
{
    (void)state;
    run("fixed-window");
}

static void test_sliding_window(void **state)
{
    (void)state;
    run("sliding-window");
}

static void test_token_bucket(void **state)
{
    (void)state;
    run("token-bucket");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixed_window),
        cmocka_unit_test(test_sliding_window),
        cmocka_unit_test(test_token_bucket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
