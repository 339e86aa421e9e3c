/* script_read.c - the answer of decide.lua, believed only as far as it makes sense.
 *
 * The answer is a flat list of whole numbers: the moment, then of each key its verdict and state.
 * How many there are of each follows from the algorithm. Whatever else comes (another script, a
 * proxy's idea of an answer) is NONSENSE, and nothing of it reaches a charge: all is read into
 * copies first. */
#include <hiredis/hiredis.h>
#include <string.h>

#include "base/arith.h"
#include "remote/script.h"
#include "remote/script_limit.h"

static unsigned fields_of(const struct wr_limit *limit)
{
    static const unsigned fields[WR_ALGO_MAX + 1] = {
        [WR_TOKEN_BUCKET] = 2,   [WR_LEAKY_BUCKET] = 2, [WR_FIXED_WINDOW] = 3,
        [WR_SLIDING_WINDOW] = 4, [WR_SLIDING_LOG] = 5,  [WR_CONCURRENCY] = 5,
    };
    return limit->algo <= WR_ALGO_MAX ? fields[limit->algo] : 0;
}

static bool number(const redisReply *reply, int64_t least, int64_t most, int64_t *out)
{
    *out = 0;
    if (reply == NULL || reply->type != REDIS_REPLY_INTEGER || reply->integer < least ||
        reply->integer > most)
        return false;
    *out = reply->integer;
    return true;
}

static bool read_charge(struct wr_remote_charge *charge, redisReply *const *element, int64_t now_us)
{
    const struct wr_limit *limit = charge->limit;
    unsigned count = fields_of(limit);
    int64_t field[WR_SCRIPT_FIELDS_MAX] = {0};

    if (count == 0 || !number(element[0], -1, wr_max_i64(0, charge->extra), &field[0]))
        return false;
    for (unsigned i = 1; i < count; i++) {
        /* A debt may be more than a moment; products of what we read fit 128 bits. */
        int64_t most = limit->algo <= WR_LEAKY_BUCKET ? INT64_MAX : 2 * WR_SCRIPT_NOW_MAX_US;
        if (!number(element[i], 0, most, &field[i]))
            return false;
    }
    charge->allowed = field[0] >= 0;
    charge->granted = wr_max_i64(0, field[0]);
    charge->never = false;
    charge->lease_ns = charge->remaining = charge->retry_after_ns = charge->delay_ns = 0;
    charge->next_ns = charge->reset_ns = 0;
    charge->receipt[0] = charge->receipt[1] = 0;
    if (limit->algo <= WR_LEAKY_BUCKET)
        return wr_script_bucket(charge, field, now_us);
    if (limit->algo <= WR_SLIDING_WINDOW)
        return field[1] <= WR_SCRIPT_NOW_MAX_US && wr_script_window(charge, field, now_us);
    return wr_script_stamps(charge, field, now_us);
}

/* How many fields the whole answer has. */
static size_t answer_len(const struct wr_remote_charge *charge, unsigned count, uint32_t which)
{
    size_t len = 1;

    for (unsigned i = 0; i < count; i++)
        len += (which >> i & 1) != 0 ? fields_of(charge[i].limit) : 0;
    return len;
}

static bool passes(const struct wr_remote_charge *charge, unsigned count, uint32_t which,
                   uint32_t shadow)
{
    for (unsigned i = 0; i < count; i++) {
        if ((which & ~shadow) >> i & 1 && !charge[i].allowed)
            return false;
    }
    return true;
}

/* Nothing was granted after all: a grant is part of what was taken. Those that were allowed are
 * read anew, without. */
static bool without_grants(struct wr_remote_charge *charge, redisReply *const *element,
                           int64_t now_us)
{
    redisReply refused = {.type = REDIS_REPLY_INTEGER, .integer = 0};
    redisReply *copy[WR_SCRIPT_FIELDS_MAX] = {&refused};

    if (charge->granted == 0)
        return true;
    for (unsigned i = 1; i < fields_of(charge->limit); i++)
        copy[i] = element[i];
    return read_charge(charge, copy, now_us);
}

static enum wr_script_result read_charges(struct wr_remote_charge *copy, unsigned count,
                                          uint32_t which, uint32_t shadow, bool takes,
                                          const redisReply *reply, struct wr_script_answer *out)
{
    int64_t now_us = out->now_ns / WR_NS_PER_US;
    size_t at = 1;

    for (unsigned i = 0; i < count; i++) {
        if ((which >> i & 1) == 0)
            continue;
        if (!read_charge(&copy[i], reply->element + at, now_us))
            return WR_SCRIPT_NONSENSE;
        at += fields_of(copy[i].limit);
    }
    out->passed = takes && passes(copy, count, which, shadow);
    at = 1;
    for (unsigned i = 0; i < count && !out->passed; i++) {
        if ((which >> i & 1) == 0)
            continue;
        if (!without_grants(&copy[i], reply->element + at, now_us))
            return WR_SCRIPT_NONSENSE;
        at += fields_of(copy[i].limit);
    }
    return WR_SCRIPT_DONE;
}

enum wr_script_result wr_script_read(struct wr_remote_charge *charge, unsigned count,
                                     uint32_t which, uint32_t shadow, enum wr_script_op op,
                                     const struct redisReply *reply, struct wr_script_answer *out)
{
    struct wr_remote_charge copy[WEIR_LIMITS_MAX];
    enum wr_script_result result;
    int64_t now_us;

    *out = (struct wr_script_answer){0};
    if (reply == NULL || reply->type != REDIS_REPLY_ARRAY || count > WEIR_LIMITS_MAX ||
        reply->elements == 0 || !number(reply->element[0], 1, WR_SCRIPT_NOW_MAX_US, &now_us))
        return WR_SCRIPT_NONSENSE;
    out->now_ns = now_us * WR_NS_PER_US;
    if (reply->elements == 1 && answer_len(charge, count, which) > 1)
        return WR_SCRIPT_AGAIN;
    if (reply->elements != answer_len(charge, count, which)) {
        out->now_ns = 0;
        return WR_SCRIPT_NONSENSE;
    }
    memcpy(copy, charge, count * sizeof *charge);
    result = read_charges(copy, count, which, shadow, op == WR_SCRIPT_TAKE, reply, out);
    if (result == WR_SCRIPT_DONE)
        memcpy(charge, copy, count * sizeof *charge);
    else
        *out = (struct wr_script_answer){0};
    return result;
}
