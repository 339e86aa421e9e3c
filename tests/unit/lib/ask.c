/* ask.c - asking a weir serve that is played here, by the bytes. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "../engine/fixture.h"
#include "engine/bound.h"
#include "lib/handle.h"
#include "wire/agent.h"

static const char *const policy_text =
    "version: 1\n"
    "store: {redis: {url: \"redis://127.0.0.1:1/0\"}, shared: true, deadline: 200ms,\n"
    "  agent: \"unix:%s\", when_gone: %s}\n"
    "limits:\n"
    "  - {name: keys, by: [api_key], rate: 10/hour, algorithm: fixed-window}\n"
    "  - {name: places, concurrent: 3}\n"
    "identity: {api_key: {header: X-Api-Key}}\n";

static struct weir *open_shared(const char *socket_path, const char *when_gone)
{
    char text[1000];

    (void)snprintf(text, sizeof text, policy_text, socket_path, when_gone);
    return open_text(text, "");
}

static struct weir_request request_by(const struct weir *w, const char *key,
                                      struct weir_slice fields[FIELDS_MAX])
{
    return request_of(w, &(struct call){.api_key = key}, fields);
}

/* ---- bytes --------------------------------------------------------------------------------- */

/* The daemon's answer to |asked|: allowed, with a place that is held. */
static size_t answer_to(const struct weir *w, const uint8_t *asked, uint8_t *out, int64_t left)
{
    static const uint8_t hold[16] = {1, 2, 3};
    struct weir_answer answer = {.outcome = WEIR_ALLOW, .count = 2, .cost_units = 1};
    struct wr_agent_frame frame;

    assert_true(wr_agent_find(asked, WEIR_ASK_BYTES, &frame) > 0);
    for (unsigned i = 0; i < 2; i++) {
        answer.verdicts[i] = (struct weir_verdict){
            .limit = (uint16_t)i, .capacity_units = i == 0 ? 10 : 3, .remaining_units = left};
        answer.verdicts[i].flags = WR_VERDICT_MOMENTS;
        answer.verdicts[i].priv[0] = (uint64_t)S;
        answer.verdicts[i].priv[1] = (uint64_t)(5 * S);
    }
    return wr_weir_write_answer(w, &answer, frame.id, hold, out);
}

static void test_bytes(void **state)
{
    struct weir *w = open_shared("/nowhere", "local"), *other;
    struct weir_slice fields[FIELDS_MAX];
    struct weir_request request = request_by(w, "ann", fields);
    static uint8_t asked[WEIR_ASK_BYTES];
    uint8_t answer[WEIR_ANSWER_BYTES], release[WEIR_ANSWER_BYTES];
    struct weir_asked out;
    int64_t next, reset;
    int len = weir_ask_begin(w, &request, 42, asked, sizeof asked);
    size_t answer_len;
    (void)state;

    assert_string_equal(weir_ask_socket(w), "/nowhere");
    assert_int_equal(weir_ask_deadline(w), 210 * MS);
    assert_true(len > 0);
    assert_int_equal(weir_ask_begin(w, &request, 42, asked, (size_t)len - 1), WEIR_EFULL);
    answer_len = answer_to(w, asked, answer, 2);
    for (size_t i = 0; i < answer_len; i++)
        assert_int_equal(weir_ask_next(w, answer, i, T0, &out), 0);
    assert_int_equal(weir_ask_next(w, answer, sizeof answer, T0, &out), answer_len);
    assert_int_equal(out.id, 42);
    assert_int_equal(out.status, 0);
    assert_int_equal(out.answer.outcome, WEIR_ALLOW);
    weir_verdict_times(w, &out.answer.verdicts[0], T0, &next, &reset);
    assert_int_equal(next, S);
    assert_int_equal(reset, 5 * S);
    assert_true(weir_holds(w, &out.answer));
    len = weir_ask_release(w, &out.answer, release, sizeof release);
    assert_int_equal(len, 40);
    assert_int_equal(release[5], WR_AGENT_RELEASE);
    assert_memory_equal(release + 24, answer + 56, 16);
    assert_int_equal(weir_ask_release(w, &out.answer, release, sizeof release), 0);

    answer[72 + 4] = 2; /* there is no third limit */
    assert_int_equal(weir_ask_next(w, answer, answer_len, T0, &out), WEIR_EFORMAT);
    answer[72 + 4] = 0;
    answer[16] ^= 1; /* another policy has answered */
    assert_int_equal(weir_ask_next(w, answer, answer_len, T0, &out), answer_len);
    assert_int_equal(out.status, WEIR_EPOLICY);
    other = open_text("version: 1\nlimits:\n  - {name: x, rate: 1/hour}\n", "");
    assert_null(weir_ask_socket(other));
    weir_close(other);
    weir_close(w);
}

/* ---- a daemon ------------------------------------------------------------------------------ */

struct daemon {
    struct weir *w;
    char path[64];
    int listener;
    int released;    /* atomic */
    int silent;      /* atomic: reads and says nothing */
    int connections; /* atomic, at most: */
    struct one {
        struct daemon *d;
        int fd;
        pthread_t thread;
    } one[256];
    pthread_t thread;
};

static void serve(struct daemon *d, int fd)
{
    static _Thread_local uint8_t in[WEIR_ASK_BYTES];
    uint8_t out[WEIR_ANSWER_BYTES];
    size_t len = 0;

    for (;;) {
        struct wr_agent_frame frame;
        ssize_t n = read(fd, in + len, sizeof in - len);
        if (n <= 0)
            break;
        len += (size_t)n;
        while (wr_agent_find(in, len, &frame) > 0) {
            if (frame.kind == WR_AGENT_RELEASE)
                __atomic_add_fetch(&d->released, 1, __ATOMIC_RELAXED);
            else if (!__atomic_load_n(&d->silent, __ATOMIC_RELAXED))
                assert_true(write(fd, out, answer_to(d->w, in, out, 3)) > 0);
            len -= frame.len;
            memmove(in, in + frame.len, len);
        }
    }
    (void)shutdown(fd, SHUT_RDWR); /* closed by stop() */
}

static void *serve_thread(void *arg)
{
    const struct one *one = arg;

    serve(one->d, one->fd);
    return NULL;
}

static void *run(void *arg)
{
    struct daemon *d = arg;
    int fd;

    while ((fd = accept(d->listener, NULL, NULL)) >= 0) {
        struct one *one = &d->one[d->connections];
        assert_true((size_t)d->connections < sizeof d->one / sizeof *d->one);
        *one = (struct one){.d = d, .fd = fd};
        __atomic_add_fetch(&d->connections, 1, __ATOMIC_RELAXED); /* before it is answered */
        assert_int_equal(pthread_create(&one->thread, NULL, serve_thread, one), 0);
    }
    return NULL;
}

static void start(struct daemon *d, const char *when_gone)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    memset(d, 0, sizeof *d);
    (void)snprintf(d->path, sizeof d->path, "/tmp/weir-ask-%d.sock", (int)getpid());
    (void)unlink(d->path);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", d->path);
    d->w = open_shared(d->path, when_gone);
    d->listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(d->listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(d->listener, 64), 0);
    assert_int_equal(pthread_create(&d->thread, NULL, run, d), 0);
}

static void stop(struct daemon *d)
{
    (void)shutdown(d->listener, SHUT_RDWR);
    (void)pthread_join(d->thread, NULL);
    (void)close(d->listener);
    (void)unlink(d->path);
    for (int i = 0; i < d->connections; i++) {
        (void)shutdown(d->one[i].fd, SHUT_RDWR);
        assert_int_equal(pthread_join(d->one[i].thread, NULL), 0);
        (void)close(d->one[i].fd);
    }
}

static int ask_once(struct weir *w, int64_t deadline, struct weir_answer *answer)
{
    struct weir_slice fields[FIELDS_MAX];
    struct weir_request request = request_by(w, "ann", fields);

    return weir_ask(w, &request, deadline, answer);
}

static void test_asking(void **state)
{
    struct daemon d;
    struct weir_answer answer;
    (void)state;

    start(&d, "local");
    for (int i = 0; i < 50; i++) {
        assert_int_equal(ask_once(d.w, 20 * S, &answer), 0);
        assert_int_equal(answer.outcome, WEIR_ALLOW);
        assert_int_equal(answer.verdicts[0].remaining_units, 3);
        weir_release(d.w, &answer, weir_now(d.w));
        weir_release(d.w, &answer, weir_now(d.w)); /* harmless */
    }
    assert_int_equal(__atomic_load_n(&d.connections, __ATOMIC_RELAXED), 1);
    assert_int_equal(ask_once(d.w, 20 * S, &answer), 0); /* behind all releases, as it answers */
    assert_int_equal(__atomic_load_n(&d.released, __ATOMIC_RELAXED), 50);
    stop(&d);
    weir_close(d.w);
}

static void test_alone(void **state)
{
    struct daemon d;
    struct weir_answer answer;
    int64_t began;
    (void)state;

    start(&d, "closed");
    __atomic_store_n(&d.silent, 1, __ATOMIC_RELAXED);
    began = weir_now(d.w);
    assert_int_equal(ask_once(d.w, 30 * MS, &answer), 1);
    assert_true(weir_now(d.w) - began >= 30 * MS);
    assert_int_equal(answer.outcome, WEIR_DENY);
    assert_int_equal(answer.reason, WEIR_REASON_STORE);
    __atomic_store_n(&d.silent, 0, __ATOMIC_RELAXED);
    assert_int_equal(ask_once(d.w, 20 * S, &answer), 0); /* on another connection */
    assert_int_equal(__atomic_load_n(&d.connections, __ATOMIC_RELAXED), 2);
    stop(&d);
    assert_int_equal(ask_once(d.w, -1, &answer), WEIR_EINVAL);
    weir_close(d.w);

    d.w = open_shared("/nowhere/at/all", "open"); /* nobody listens: nobody is waited for */
    assert_int_equal(ask_once(d.w, 0, &answer), 1);
    assert_int_equal(answer.outcome, WEIR_ALLOW);
    weir_close(d.w);
}

static void *ask_often(void *arg)
{
    struct daemon *d = arg;

    for (int i = 0; i < 100; i++) {
        struct weir_answer answer;
        if (ask_once(d->w, 60 * S, &answer) != 0 || answer.count != 2)
            return d;
    }
    return NULL;
}

static void test_threads(void **state)
{
    pthread_t threads[WR_ASK_LINKS + 8];
    struct daemon d;
    void *failed;
    (void)state;

    start(&d, "closed");
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_often, &d), 0);
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    stop(&d);
    weir_close(d.w);
}

/* The child speaks on a connection of its own, and the parent's goes on. */
static void test_fork(void **state)
{
    struct daemon d;
    struct weir_answer answer;
    pid_t child;
    int status;
    (void)state;

    start(&d, "closed");
    assert_int_equal(ask_once(d.w, 20 * S, &answer), 0);
    child = fork();
    if (child == 0)
        _exit(weir_after_fork(d.w) == 0 && ask_once(d.w, 20 * S, &answer) == 0 && answer.count == 2
                  ? 0
                  : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(ask_once(d.w, 20 * S, &answer), 0);
    assert_int_equal(__atomic_load_n(&d.connections, __ATOMIC_RELAXED), 2);
    stop(&d);
    weir_close(d.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),   cmocka_unit_test(test_asking), cmocka_unit_test(test_alone),
        cmocka_unit_test(test_threads), cmocka_unit_test(test_fork),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
