/* shared.c - the golden vectors through a strict shared limit: begin, a store in memory, finish.
 * The same verdicts as without a store. The first argument is a file of vectors. */
#include <unistd.h>

#include "engine/shared.h"
#include "lib/handle.h"
#include "store_in_memory.h"
#include "vectors.h"

struct shared {
    struct weir *weir;
    struct memory_store *store;
};

/* The limit as a person would write it. */
static void write_policy(const struct vectors *run, char *out, size_t size)
{
    static const char *const pers[] = {"", "day", "week", "month"};
    const struct wr_limit *limit = &run->limit;
    const char *kind = limit->algo == WR_LEAKY_BUCKET ? " queue" : " burst";
    long long units = (long long)limit->units, ms = (long long)(limit->window_ns / WR_NS_PER_MS);
    char what[200], more[40] = "";

    if (limit->algo == WR_LEAKY_BUCKET || (limit->algo == WR_TOKEN_BUCKET && units > 0))
        (void)snprintf(more, sizeof more, "%s %lld", kind, (long long)limit->burst);
    if (limit->calendar == WR_CALENDAR_CIVIL && limit->civil.per == WR_PER_MONTH)
        (void)snprintf(more, sizeof more, ", anchor: %u", limit->civil.anchor);
    if (limit->calendar == WR_CALENDAR_CIVIL)
        (void)snprintf(what, sizeof what, "quota: {limit: %lld, per: %s, zone: %s%s}", units,
                       pers[limit->civil.per], run->zone, more);
    else if (limit->algo == WR_CONCURRENCY)
        (void)snprintf(what, sizeof what, "concurrent: %lld, hold: %lldms", units, ms);
    else
        (void)snprintf(what, sizeof what, "rate: %lld/%lldms%s, algorithm: %s, count_denied: %s",
                       units, ms, more, wr_algo_name((enum wr_algo)limit->algo),
                       limit->count_denied != 0 ? "true" : "false");
    (void)snprintf(out, size,
                   "version: 1\n"
                   "store: {ring: {self: a:1, peers: [b:1], password: p}}\n"
                   "limits: [{name: l, by: [ip], %s, shared: true}]\n",
                   what);
}

static struct weir *open_policy(const char *text)
{
    const struct weir_options options = {.arena_path = "", .arena_bytes = UINT64_C(2) << 20};
    char path[] = "/tmp/weir-golden-XXXXXX", errors[4000];
    struct weir *weir = NULL;
    int fd = mkstemp(path);
    size_t len = strlen(text);

    if (fd < 0 || write(fd, text, len) != (ssize_t)len)
        exit(1);
    (void)close(fd);
    if (weir_open(&weir, path, &options, errors, sizeof errors) != 0) {
        (void)fputs(errors, stderr);
        exit(1);
    }
    (void)unlink(path);
    return weir;
}

static void stop(struct shared *shared)
{
    weir_close(shared->weir);
    if (shared->store != NULL)
        memory_store_free(shared->store);
}

static void start(struct vectors *run)
{
    struct shared *shared = run->context;
    char policy[600];

    stop(shared);
    write_policy(run, policy, sizeof policy);
    shared->weir = open_policy(policy);
    shared->store = memory_store_new(1);
}

static bool decide(struct vectors *run, int64_t now_ns, int64_t cost, struct wr_take *out)
{
    static struct wr_pending pending;
    struct shared *shared = run->context;
    const struct weir_verdict *v;
    struct weir_answer answer;

    if (!wr_engine_begin_check(shared->weir->engine, 0, (struct weir_slice){"k", 1}, cost, false,
                               now_ns, &answer, &pending)) {
        memory_store_take(shared->store, &pending.call, now_ns);
        (void)wr_engine_finish(shared->weir->engine, &pending, WR_REMOTE_DONE, 1, now_ns, &answer);
    }
    v = &answer.verdicts[0];
    *out =
        (struct wr_take){.allowed = v->outcome != WEIR_DENY,
                         .never = v->retry_after_ns == WEIR_NEVER,
                         .remaining = v->remaining_units,
                         .retry_after_ns = v->retry_after_ns == WEIR_NEVER ? 0 : v->retry_after_ns,
                         .delay_ns = v->delay_ns};
    return true;
}

int main(int argc, char **argv)
{
    struct shared shared = {NULL, NULL};
    struct vectors run = {.start = start, .decide = decide, .context = &shared};
    int status = read_files(&run, argc, argv);

    stop(&shared);
    return status;
}
