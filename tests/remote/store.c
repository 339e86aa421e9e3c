/* store.c - a synchronous caller of the script. */
#include "store.h"

#include <string.h>

/* The user that docs/formats/redis.md shows. */
static const char user[] =
    "ACL SETUSER weir on >secret resetchannels ~weir:* -@all +evalsha +script|load +time +mget "
    "+set +del +pttl +pexpire +llen +lindex +lrange +ltrim +rpush +lrem +zadd +zcount "
    "+zrangebyscore +zrevrange +zremrangebyscore +zrem";

static void expect_ok(redisReply *reply)
{
    assert_non_null(reply);
    assert_string_equal(reply->str, "OK");
    freeReplyObject(reply);
}

void store_open(struct store *store)
{
    server_start(&store->server);
    store->redis = server_connect(&store->server);
    store->decider = server_connect(&store->server);
    assert_non_null(store->redis);
    assert_non_null(store->decider);
    expect_ok(redisCommand(store->redis, user));
    expect_ok(redisCommand(store->decider, "AUTH weir secret"));
    store->ask = (struct wr_script_ask){.prefix = "weir", .nodes = 1, .slack_ms = STORE_SLACK_MS};
}

void store_close(struct store *store)
{
    redisFree(store->redis);
    redisFree(store->decider);
    server_stop(&store->server);
}

redisReply *store_run(struct store *store, const char *format, ...)
{
    redisReply *reply;
    va_list args;

    va_start(args, format);
    reply = redisvCommand(store->redis, format, args);
    va_end(args);
    assert_non_null(reply);
    return reply;
}

static redisReply *evalsha(struct store *store, struct wr_script_args *args)
{
    redisReply *reply = redisCommandArgv(store->decider, args->argc, args->argv, args->argvlen);

    assert_non_null(reply);
    if (reply->type != REDIS_REPLY_ERROR || strncmp(reply->str, "NOSCRIPT", 8) != 0)
        return reply;
    freeReplyObject(reply);
    reply = redisCommand(store->decider, "SCRIPT LOAD %b", wr_script, wr_script_len);
    assert_non_null(reply);
    assert_int_equal(reply->type, REDIS_REPLY_STRING);
    assert_string_equal(reply->str, wr_script_sha1);
    freeReplyObject(reply);
    reply = redisCommandArgv(store->decider, args->argc, args->argv, args->argvlen);
    assert_non_null(reply);
    return reply;
}

static enum wr_script_result call_once(struct store *store, enum wr_script_op op,
                                       struct wr_remote_charge *charge, unsigned count,
                                       uint32_t shadow, struct wr_script_answer *out)
{
    static struct wr_script_args args;
    uint32_t all = (UINT32_C(1) << count) - 1;
    enum wr_script_result result = WR_SCRIPT_DONE;
    redisReply *reply;

    *out = (struct wr_script_answer){0};
    assert_true(wr_script_args(&args, &store->ask, op, charge, count, all, shadow));
    reply = evalsha(store, &args);
    if (reply->type == REDIS_REPLY_ERROR)
        print_error("%s\n", reply->str);
    if (op != WR_SCRIPT_REFUND && op != WR_SCRIPT_DROP)
        result = wr_script_read(charge, count, all, shadow, op, reply, out);
    else if (reply->type != REDIS_REPLY_ARRAY)
        result = WR_SCRIPT_NONSENSE;
    freeReplyObject(reply);
    return result;
}

enum wr_script_result store_call(struct store *store, enum wr_script_op op,
                                 struct wr_remote_charge *charge, unsigned count, uint32_t shadow,
                                 struct wr_script_answer *out)
{
    enum wr_script_result result = call_once(store, op, charge, count, shadow, out);

    if (result != WR_SCRIPT_AGAIN)
        return result;
    store->ask.about_ns = out->now_ns;
    return call_once(store, op, charge, count, shadow, out);
}

static void set_moment(struct store *store, int64_t now_ns)
{
    assert_int_equal(now_ns % WR_NS_PER_US, 0);
    store->ask.moment_us = now_ns / WR_NS_PER_US;
    store->ask.about_ns = now_ns;
}

bool store_take(struct store *store, struct wr_remote_charge *charge, unsigned count,
                uint32_t shadow, int64_t now_ns)
{
    struct wr_script_answer answer;

    set_moment(store, now_ns);
    assert_int_equal(store_call(store, WR_SCRIPT_TAKE, charge, count, shadow, &answer),
                     WR_SCRIPT_DONE);
    assert_int_equal(answer.now_ns, now_ns);
    return answer.passed;
}

void store_do(struct store *store, enum wr_script_op op, struct wr_remote_charge *charge,
              unsigned count, int64_t now_ns)
{
    struct wr_script_answer answer;

    set_moment(store, now_ns);
    assert_int_equal(store_call(store, op, charge, count, 0, &answer), WR_SCRIPT_DONE);
}

struct wr_remote_charge store_charge(const struct wr_limit *limit, const char *name, uint64_t who,
                                     int64_t cost)
{
    struct wr_remote_charge charge = {.limit = limit, .name = name, .cost = cost};

    memcpy(charge.tag, &who, sizeof who);
    return charge;
}
