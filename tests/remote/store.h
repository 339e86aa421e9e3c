/* store.h - deciding at a test's Redis by the script, one call after the other. */
#ifndef TESTS_REMOTE_STORE_H
#define TESTS_REMOTE_STORE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/units.h"
#include "remote/script.h"
#include "server.h"

/* A key must not end by the real clock while a test's goes its own way. */
#define STORE_SLACK_MS 3600000

struct store {
    struct server server;
    redisContext *redis;   /* anything */
    redisContext *decider; /* the least that deciding needs: docs/formats/redis.md */
    struct wr_script_ask ask;
};

void store_open(struct store *store);
void store_close(struct store *store);

/* Any command, printf-like as hiredis has it. To be freed with freeReplyObject. */
redisReply *store_run(struct store *store, const char *format, ...);

/* One call; the script is loaded when it is missing. A WR_SCRIPT_AGAIN is obeyed once. */
enum wr_script_result store_call(struct store *store, enum wr_script_op op,
                                 struct wr_remote_charge *charge, unsigned count, uint32_t shadow,
                                 struct wr_script_answer *out);

/* TAKE at |now_ns| (whole microseconds). Returns whether it passed. */
bool store_take(struct store *store, struct wr_remote_charge *charge, unsigned count,
                uint32_t shadow, int64_t now_ns);

/* FORCE, REFUND, DROP or JUDGE at |now_ns|. */
void store_do(struct store *store, enum wr_script_op op, struct wr_remote_charge *charge,
              unsigned count, int64_t now_ns);

/* A charge of |cost| under |limit|; |who| numbers the caller. */
struct wr_remote_charge store_charge(const struct wr_limit *limit, const char *name, uint64_t who,
                                     int64_t cost);

#endif
