/* strict.c - decisions at a Redis, strict: through the backend, or by a bare client that sends the
 * same commands (hiredis's asynchronous context on libuv, with hiredis's own adapter) and looks at
 * nothing but that an answer came. A client for bench/strict.py.
 *
 *   bench_strict ours|raw HOST PORT CALLS IN-FLIGHT LIMITS
 *
 * Prints decisions a second. Each call is of one of KEYS callers, in turn. */
#include <hiredis/adapters/libuv.h>
#include <hiredis/async.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "remote/remote.h"
#include "remote/script.h"

#define KEYS 100000
#define IN_FLIGHT_MAX 1024

static const char *const names[] = {"a", "b", "c", "d"};

static struct {
    const char *host;
    uint16_t port;
    long calls, begun, done;
    unsigned in_flight, limits;
    uint64_t since_ns;
} run;

static struct wr_limit limit;
static struct wr_remote_call calls[IN_FLIGHT_MAX];

static void fill(struct wr_remote_call *call)
{
    uint64_t key = (uint64_t)run.begun++ % KEYS;

    call->count = run.limits;
    for (unsigned i = 0; i < run.limits; i++) {
        call->charge[i] = (struct wr_remote_charge){.limit = &limit, .name = names[i], .cost = 1};
        memcpy(call->charge[i].tag, &key, sizeof key);
    }
}

static void print_rate(void)
{
    double seconds = (double)(uv_hrtime() - run.since_ns) / 1e9;

    printf("%.0f\n", (double)run.calls / seconds);
}

/* ---- ours ----------------------------------------------------------------------------------- */

static struct wr_backend backend;

static void ours_next(struct wr_remote_call *call)
{
    if (run.begun >= run.calls)
        return;
    fill(call);
    backend.ops->take(backend.context, call);
}

static void ours_done(struct wr_remote_call *call, enum wr_remote_result result)
{
    if (result != WR_REMOTE_DONE) {
        fprintf(stderr, "strict: gone: %d\n", (int)call->trouble);
        exit(1);
    }
    if (++run.done == run.calls) {
        print_rate();
        backend.ops->close(backend.context);
        return;
    }
    ours_next(call);
}

static void ours(uv_loop_t *loop)
{
    struct wr_policy_address address = {.host = run.host, .port = run.port};
    struct wr_policy_store store = {.kind = WR_STORE_REDIS,
                                    .addresses = &address,
                                    .address_count = 1,
                                    .deadline_ns = 5 * WR_NS_PER_S,
                                    .prefix = "weir",
                                    .nodes = 1};

    if (wr_remote_open(&backend, loop, &store) != 0)
        exit(1);
    for (unsigned i = 0; i < run.in_flight; i++) {
        calls[i].done = ours_done;
        ours_next(&calls[i]);
    }
}

/* ---- raw ------------------------------------------------------------------------------------ */

static void raw_next(redisAsyncContext *context, struct wr_remote_call *call);

static void raw_done(redisAsyncContext *context, void *reply, void *privdata)
{
    if (reply == NULL || ((redisReply *)reply)->type != REDIS_REPLY_ARRAY) {
        fprintf(stderr, "strict: %s\n", reply == NULL ? "lost" : ((redisReply *)reply)->str);
        exit(1);
    }
    if (++run.done == run.calls) {
        print_rate();
        redisAsyncDisconnect(context);
        return;
    }
    raw_next(context, privdata);
}

static void raw_next(redisAsyncContext *context, struct wr_remote_call *call)
{
    static struct wr_script_args args;
    const struct wr_script_ask ask = {.prefix = "weir", .nodes = 1, .slack_ms = WR_SCRIPT_SLACK_MS};

    if (run.begun >= run.calls)
        return;
    fill(call);
    if (!wr_script_args(&args, &ask, WR_SCRIPT_TAKE, call->charge, call->count,
                        (1U << call->count) - 1, 0))
        exit(1);
    (void)redisAsyncCommandArgv(context, raw_done, call, args.argc, args.argv, args.argvlen);
}

static void raw(uv_loop_t *loop)
{
    redisAsyncContext *context = redisAsyncConnect(run.host, run.port);

    if (context == NULL || context->err != 0)
        exit(1);
    (void)redisLibuvAttach(context, loop);
    (void)redisAsyncCommand(context, NULL, NULL, "SCRIPT LOAD %b", wr_script, wr_script_len);
    for (unsigned i = 0; i < run.in_flight; i++)
        raw_next(context, &calls[i]);
}

int main(int argc, char **argv)
{
    uv_loop_t loop;

    if (argc != 7) {
        fprintf(stderr, "usage: bench_strict ours|raw HOST PORT CALLS IN-FLIGHT LIMITS\n");
        return 2;
    }
    run.host = argv[2];
    run.port = (uint16_t)strtoul(argv[3], NULL, 10);
    run.calls = strtol(argv[4], NULL, 10);
    run.in_flight = (unsigned)strtoul(argv[5], NULL, 10);
    run.limits = (unsigned)strtoul(argv[6], NULL, 10);
    if (run.in_flight > IN_FLIGHT_MAX || run.limits < 1 || run.limits > 4 ||
        wr_limit_make(&limit, WR_TOKEN_BUCKET, 100, 60 * WR_NS_PER_S, -1, false) != NULL)
        return 2;
    (void)uv_loop_init(&loop);
    run.since_ns = uv_hrtime();
    if (strcmp(argv[1], "ours") == 0)
        ours(&loop);
    else
        raw(&loop);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    return 0;
}
