/* redis_members.c - how many processes of weir share the store.
 *
 * Each puts its random name into the sorted set <prefix>:nodes, at the moment that the store's
 * clock says, every BEAT_NS, and counts those that did so within three beats. A process that has
 * just ended is counted for that long; one behind a broken network no longer is, and knows how many
 * there were before.
 *
 * Whoever starts finds others that start with it not there yet: until all have had the time to be
 * seen, it goes by the larger of what it counts and what the policy says. A store that comes back
 * (empty, or from a file) finds nobody there yet either: where nobody was seen for longer than a
 * beat takes, the set is marked as young, for as long as it takes to be seen, and meanwhile all
 * loops of all processes go by the larger of what they count and what they knew. The mark is in the
 * set, under the name "", at the moment when it ends, so that one clock rules it: the store's.
 *
 * Rejected: the sign that one's own name is no longer there (of the loops of a process the first
 * one sees it, and the others' answers may be read before); the larger of the last 15 s always (who
 * drains would be counted as if it had died).
 *
 * Who drains takes its name out, so that the others divide by one less at once; each loop does,
 * behind its own last beat, so none is put in again.
 *
 * Every loop of a process does so under the process's one name, so loops are not counted. A script
 * of its own, small enough to be sent whole: it must not depend on what is in the server's cache.
 * Where an ACL does not let us (NOPERM), the number stays what the policy says. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "remote/redis_slot.h"
#include "remote/redis_store.h"

#define BEAT_NS (5 * WR_NS_PER_S)
#define SEEN_MS "15000"
#define SEEN_NS (15 * WR_NS_PER_S)
#define SILENT_MS "7000" /* a beat is at most 6 s behind another: the timer ticks each second */
#define NODES_MAX 100000

static const char script[] =
    "local key, name, seen, silent = KEYS[1], ARGV[1], ARGV[2], ARGV[3]\n"
    "local t = redis.call('TIME')\n"
    "local now = t[1] * 1000 + (t[2] - t[2] % 1000) / 1000\n"
    "redis.call('ZREMRANGEBYSCORE', key, '-inf', now - seen)\n"
    "redis.call('ZREMRANGEBYSCORE', key, '(' .. now + seen, '+inf')\n"
    "if redis.call('ZCOUNT', key, now - silent, now) == 0 then\n"
    "  redis.call('ZADD', key, now + seen, '')\n"
    "end\n"
    "redis.call('ZADD', key, now, name)\n"
    "redis.call('PEXPIRE', key, seen)\n"
    "local count = redis.call('ZCARD', key)\n"
    "if redis.call('ZCOUNT', key, '(' .. now, '+inf') > 0 then return {count - 1, 1} end\n"
    "return {count - redis.call('ZREM', key, ''), 0}\n";

static int make_key(const struct wr_redis_store *store, char *out, size_t size)
{
    return snprintf(out, size, "%s:nodes", store->prefix);
}

uint16_t wr_redis_members_slot(const struct wr_redis_store *store)
{
    char key[256];
    int len = make_key(store, key, sizeof key);

    return wr_redis_slot(key, (size_t)len);
}

size_t wr_redis_members_encode(struct wr_redis_store *store)
{
    char key[256], name[40], *bytes = NULL;
    const char *count[] = {"EVAL", script, "1", key, name, SEEN_MS, SILENT_MS};
    const char *leave[] = {"ZREM", key, name};
    int len;

    (void)make_key(store, key, sizeof key);
    (void)snprintf(name, sizeof name, "%016" PRIx64 "%016" PRIx64, store->member[0],
                   store->member[1]);
    len = store->leaving ? redisFormatCommandArgv(&bytes, 3, leave, NULL)
                         : redisFormatCommandArgv(&bytes, 7, count, NULL);
    if (len < 0 || !wr_redis_reserve_scratch(store, (size_t)len)) {
        redisFreeCommand(bytes);
        return 0;
    }
    memcpy(store->scratch, bytes, (size_t)len);
    redisFreeCommand(bytes);
    return (size_t)len;
}

/* {count, young} */
static bool read_answer(const struct redisReply *reply, unsigned *seen, bool *young)
{
    bool ok = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
              reply->element[0]->type == REDIS_REPLY_INTEGER &&
              reply->element[1]->type == REDIS_REPLY_INTEGER && reply->element[0]->integer >= 1 &&
              reply->element[0]->integer <= NODES_MAX;

    *seen = ok ? (unsigned)reply->element[0]->integer : 0;
    *young = ok && reply->element[1]->integer != 0;
    return ok;
}

void wr_redis_members_answer(struct wr_redis_store *store, const struct redisReply *reply)
{
    int64_t now_ns = wr_redis_now_ns();
    unsigned seen, least = 0;
    bool young;

    if (store->leaving || !read_answer(reply, &seen, &young))
        return;
    if (store->first_counted_ns == 0)
        store->first_counted_ns = now_ns;
    if (now_ns - store->first_counted_ns < SEEN_NS)
        least = store->nodes_said;
    if (young && store->state.nodes > least)
        least = store->state.nodes;
    store->state.nodes = seen > least ? seen : least;
}

/* With a deadline, unlike other orders: it is also how an idle connection shows that it lives. */
static void ask(struct wr_redis_ticket *ticket)
{
    wr_redis_wait(ticket);
    if (wr_redis_dispatch(ticket) != WR_TROUBLE_NONE)
        wr_redis_finish(ticket, WR_REMOTE_GONE, WR_TROUBLE_NONE);
}

void wr_redis_members_beat(struct wr_redis_store *store, int64_t now_ns)
{
    struct wr_redis_ticket *ticket;

    if (store->leaving || (store->counted_ns != 0 && now_ns - store->counted_ns < BEAT_NS))
        return;
    ticket = wr_redis_ticket_new(store, WR_REDIS_MEMBERS);
    if (ticket == NULL)
        return;
    store->counted_ns = now_ns;
    ask(ticket);
}

void wr_redis_members_leave(struct wr_redis_store *store, void (*left)(void *context),
                            void *context)
{
    struct wr_redis_ticket *ticket = wr_redis_ticket_new(store, WR_REDIS_MEMBERS);

    store->leaving = true;
    if (ticket == NULL) {
        left(context);
        return;
    }
    store->parting = ticket;
    store->left = left;
    store->left_context = context;
    ask(ticket);
}

void wr_redis_members_ended(struct wr_redis_store *store, const struct wr_redis_ticket *ticket)
{
    if (ticket != store->parting || ticket == NULL)
        return;
    store->parting = NULL;
    store->left(store->left_context);
}
