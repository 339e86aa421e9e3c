/* redis_command.c - a ticket as a command of the script, and the answer as its charges.
 *
 * Commands are written into one buffer of the store and copied once into the connection's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "remote/redis_slot.h"
#include "remote/redis_store.h"

#define SCRATCH_FIRST 4096

bool wr_redis_reserve_scratch(struct wr_redis_store *store, size_t size)
{
    size_t wanted = store->scratch_size == 0 ? SCRATCH_FIRST : store->scratch_size;
    char *bytes;

    while (wanted < size)
        wanted *= 2;
    if (wanted == store->scratch_size)
        return true;
    bytes = realloc(store->scratch, wanted);
    if (bytes == NULL)
        return false;
    store->scratch = bytes;
    store->scratch_size = wanted;
    return true;
}

/* |before| the number, the number, CRLF. Returns the end. */
static char *put_number(char *out, char before, size_t value)
{
    char digits[20];
    unsigned count = 0;

    *out++ = before;
    do
        digits[count++] = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    while (count > 0)
        *out++ = digits[--count];
    *out++ = '\r';
    *out++ = '\n';
    return out;
}

/* As RESP, into the scratch buffer. */
static size_t write_args(struct wr_redis_store *store)
{
    const struct wr_script_args *args = &store->args;
    size_t size = 32;
    char *out;

    for (int i = 0; i < args->argc; i++)
        size += args->argvlen[i] + 32;
    if (!wr_redis_reserve_scratch(store, size))
        return 0;
    out = put_number(store->scratch, '*', (size_t)args->argc);
    for (int i = 0; i < args->argc; i++) {
        out = put_number(out, '$', args->argvlen[i]);
        memcpy(out, args->argv[i], args->argvlen[i]);
        out += args->argvlen[i];
        *out++ = '\r';
        *out++ = '\n';
    }
    return (size_t)(out - store->scratch);
}

/* The ticket's charges, and how many there are. */
static struct wr_remote_charge *charges_of(const struct wr_redis_ticket *ticket, unsigned *count,
                                           uint32_t *shadow,
                                           struct wr_remote_charge copy[WEIR_LIMITS_MAX])
{
    if (ticket->call != NULL) {
        *count = ticket->call->count;
        *shadow = ticket->call->shadow;
        return ticket->call->charge;
    }
    *count = ticket->count;
    *shadow = ticket->shadow;
    for (unsigned i = 0; i < ticket->count; i++)
        copy[i] = ticket->kept[i].charge;
    return copy;
}

static enum wr_script_op script_op(const struct wr_redis_ticket *ticket)
{
    static const enum wr_script_op ops[] = {
        [WR_REDIS_TAKE] = WR_SCRIPT_TAKE,     [WR_REDIS_JUDGE] = WR_SCRIPT_JUDGE,
        [WR_REDIS_REFUND] = WR_SCRIPT_REFUND, [WR_REDIS_FORCE] = WR_SCRIPT_FORCE,
        [WR_REDIS_DROP] = WR_SCRIPT_DROP,
    };
    return ops[ticket->op];
}

size_t wr_redis_encode(struct wr_redis_store *store, struct wr_redis_ticket *ticket)
{
    const struct wr_script_ask ask = {
        .prefix = store->prefix,
        .nodes = store->state.nodes,
        .about_ns = wr_clock_wall().ns + store->ahead_ns,
        .slack_ms = WR_SCRIPT_SLACK_MS,
    };
    struct wr_remote_charge copy[WEIR_LIMITS_MAX];
    const struct wr_remote_charge *charges;
    uint32_t shadow;
    unsigned count;

    if (store->router->encode != NULL)
        return store->router->encode(store, ticket);
    if (ticket->op == WR_REDIS_MEMBERS)
        return wr_redis_members_encode(store);
    charges = charges_of(ticket, &count, &shadow, copy);
    if (!wr_script_args(&store->args, &ask, script_op(ticket), charges, count, ticket->asked,
                        shadow))
        return 0;
    return write_args(store);
}

enum wr_script_result wr_redis_decode(struct wr_redis_ticket *ticket,
                                      const struct redisReply *reply, bool *passed)
{
    struct wr_remote_charge copy[WEIR_LIMITS_MAX], *charges;
    struct wr_script_answer answer = {0};
    enum wr_script_result result;
    uint32_t shadow;
    unsigned count;

    *passed = false;
    if (ticket->store->router->decode != NULL)
        return ticket->store->router->decode(ticket, reply, passed);
    if (ticket->op == WR_REDIS_REFUND || ticket->op == WR_REDIS_DROP)
        return reply->type == REDIS_REPLY_ARRAY ? WR_SCRIPT_DONE : WR_SCRIPT_NONSENSE;
    charges = charges_of(ticket, &count, &shadow, copy);
    result =
        wr_script_read(charges, count, ticket->asked, shadow, script_op(ticket), reply, &answer);
    if (result == WR_SCRIPT_AGAIN)
        ticket->store->ahead_ns = answer.now_ns - wr_clock_wall().ns;
    for (unsigned i = 0; ticket->call == NULL && i < count; i++)
        ticket->kept[i].charge = charges[i];
    *passed = answer.passed;
    return result;
}

bool wr_redis_load_command(struct wr_redis_greeting *out)
{
    const char *argv[] = {"SCRIPT", "LOAD", wr_script};
    const size_t lens[] = {6, 4, wr_script_len};
    char *bytes = NULL;
    int len = redisFormatCommandArgv(&bytes, 3, argv, lens);

    *out = (struct wr_redis_greeting){0};
    if (len < 0)
        return false;
    *out = (struct wr_redis_greeting){.bytes = bytes, .len = (size_t)len};
    return true;
}

/* A primary that is read only, paused (CLIENT PAUSE WRITE, as while it hands over), or cannot write
 * to its disk answers PING, and no decision. The nodes of a cluster have no key in common. */
bool wr_redis_trial_command(const struct wr_redis_store *store, bool cluster,
                            struct wr_redis_greeting *out)
{
    char key[WR_SCRIPT_KEY_MAX], *bytes = NULL;
    const char *keyed[] = {"EVAL", "return redis.pcall('ZREM', KEYS[1], '')", "1", key};
    const char *keyless[] = {"EVAL", "return 1", "0"};
    int len;

    *out = (struct wr_redis_greeting){0};
    (void)snprintf(key, sizeof key, "%s:trial", store->prefix);
    len = cluster ? redisFormatCommandArgv(&bytes, 3, keyless, NULL)
                  : redisFormatCommandArgv(&bytes, 4, keyed, NULL);
    if (len < 0)
        return false;
    *out = (struct wr_redis_greeting){.bytes = bytes, .len = (size_t)len, .trial = true};
    return true;
}

uint16_t wr_redis_charge_slot(const struct wr_redis_store *store,
                              const struct wr_remote_charge *charge)
{
    char key[WR_SCRIPT_KEY_MAX];

    return wr_redis_slot(key, wr_script_key(key, sizeof key, store->prefix, charge));
}
