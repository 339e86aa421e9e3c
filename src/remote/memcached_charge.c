/* memcached_charge.c - judging by the algorithms of the arena what memcached holds.
 *
 * A word is stored with the numbers of the limit that it was computed under, so that another limit
 * of the same name (a changed policy) carries the history over as an arena does:
 *
 *     w1 ALGO UNITS WINDOW_NS BURST WORD
 *
 * Invariants.
 *   1. Whatever lies under a key: a verdict, or "makes no sense". A word under numbers that are no
 * limit counts as nothing.
 *   2. A count includes cost + extra of every charge that is under way, so that two nodes cannot
 * both have the last unit: they may both be refused it.
 *   3. A lease is at most half of what is left, over the nodes.
 *
 * Time is the nodes' own: memcached tells none. Windows of nodes whose clocks differ overlap by
 * that much. Counters can be evicted at any time; then they start anew. Both are said in
 * docs/distributed.md.
 *
 * Rejected: words for windows as well (every charge of a hot key would fight for the same CAS). */
#include "remote/memcached_charge.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/leasing.h"
#include "algo/period.h"
#include "algo/window.h"
#include "base/arith.h"
#include "base/hex.h"
#include "base/units.h"

#define WORD_BYTES 128

bool wr_mc_holds(const struct wr_limit *limit)
{
    return wr_limit_is_word(limit);
}

bool wr_mc_is_count(const struct wr_limit *limit)
{
    return limit->algo == WR_FIXED_WINDOW || limit->algo == WR_SLIDING_WINDOW;
}

static const struct wr_word_algo *algo_of(const struct wr_mc_charge *charge)
{
    return wr_word_algo((enum wr_algo)charge->limit.algo);
}

/* What is added to a count before it is known whether it fits; 0: it is only looked at. */
static uint64_t amount(const struct wr_mc_charge *charge)
{
    const struct wr_remote_charge *asked = charge->asked;

    if (asked->cost == 0 || asked->cost > charge->limit.units)
        return 0;
    return (uint64_t)(asked->cost + asked->extra);
}

/* ---- keys ---------------------------------------------------------------------------------- */

size_t wr_mc_charge_key(const struct wr_mc_charge *charge, const char *prefix, uint64_t index,
                        char *out)
{
    const struct wr_remote_charge *asked = charge->asked;
    char tag[2 * WR_TAG_BYTES + 1];
    int len;

    wr_hex_write(tag, asked->tag, WR_TAG_BYTES);
    tag[sizeof tag - 1] = '\0';
    if (!wr_mc_is_count(&charge->limit))
        len = snprintf(out, WR_MC_KEY_MAX + 1, "%s:%s:%s", prefix, tag, asked->name);
    else /* windows of another length are counted apart */
        len = snprintf(out, WR_MC_KEY_MAX + 1, "%s:%s:%s:%" PRId64 ".%" PRId64 ":%" PRIu64, prefix,
                       tag, asked->name, charge->limit.window_ns / WR_NS_PER_MS,
                       wr_limit_windows_id(&charge->limit), index);
    return len < 0 ? 0 : wr_min_u64((size_t)len, WR_MC_KEY_MAX);
}

/* ---- asking -------------------------------------------------------------------------------- */

/* Which window |now_ns| lies in. */
static void find_window(struct wr_mc_charge *charge, int64_t now_ns)
{
    const struct wr_limit *limit = &charge->limit;
    int64_t moment_ns = wr_moment_ns(now_ns);

    if (limit->calendar != WR_CALENDAR_NONE) {
        struct wr_period period = wr_limit_period_at(limit, moment_ns);
        charge->index = period.index;
        charge->end_ns = period.end_ns;
    } else {
        charge->index = (uint64_t)(moment_ns / limit->window_ns);
        charge->end_ns = ((int64_t)charge->index + 1) * limit->window_ns;
    }
}

void wr_mc_charge_begin(struct wr_mc_charge *charge, struct wr_remote_charge *asked, int64_t now_ns)
{
    struct wr_limit *limit = &charge->limit;
    int64_t reserve = wr_leasing_reserve(asked->limit, asked->ttl_ns);

    *charge = (struct wr_mc_charge){.asked = asked, .limit = *asked->limit};
    if (wr_mc_is_count(limit))
        find_window(charge, now_ns);
    else if (reserve > 0)
        limit->burst = wr_max_i64(1, limit->burst - reserve);
}

/* How long what is stored now must be kept: while it says anything. */
static struct wr_mc_ttl keep(const struct wr_mc_charge *charge, int64_t now_ns)
{
    const struct wr_limit *limit = &charge->limit;
    int64_t next_ns, needed_ns;

    if (wr_mc_is_count(limit))
        needed_ns =
            charge->end_ns - now_ns + (limit->algo == WR_SLIDING_WINDOW ? limit->window_ns : 0);
    else
        algo_of(charge)->times(limit, charge->left, now_ns, &next_ns, &needed_ns);
    return (struct wr_mc_ttl){needed_ns / WR_NS_PER_S + 1 + WR_MC_SKEW_S, now_ns / WR_NS_PER_S};
}

static void get(const struct wr_mc_charge *charge, const char *prefix, uint64_t index,
                struct wr_mc_out *out)
{
    char key[WR_MC_KEY_MAX + 1];

    wr_mc_get(out, (struct weir_slice){key, wr_mc_charge_key(charge, prefix, index, key)});
}

unsigned wr_mc_charge_ask(const struct wr_mc_charge *charge, const char *prefix, int64_t now_ns,
                          struct wr_mc_out *out, enum wr_mc_want want[2])
{
    char key[WR_MC_KEY_MAX + 1];
    size_t len;

    want[0] = want[1] = WR_MC_WANT_PREVIOUS;
    if (!wr_mc_is_count(&charge->limit)) {
        want[0] = WR_MC_WANT_WORD;
        get(charge, prefix, 0, out);
        return 1;
    }
    want[0] = WR_MC_WANT_COUNT;
    if (amount(charge) == 0) {
        get(charge, prefix, charge->index, out);
    } else {
        len = wr_mc_charge_key(charge, prefix, charge->index, key);
        wr_mc_add(out, (struct weir_slice){key, len}, amount(charge), keep(charge, now_ns));
    }
    if (charge->limit.algo != WR_SLIDING_WINDOW)
        return 1;
    get(charge, prefix, charge->index - 1, out);
    return 2;
}

/* ---- hearing ------------------------------------------------------------------------------- */

/* The numbers behind "w1": ALGO UNITS WINDOW_NS BURST, and WORD. */
static bool read_numbers(const char *at, int64_t number[4], uint64_t *word)
{
    char *end;

    *word = 0;
    if (strncmp(at, "w1 ", 3) != 0)
        return false;
    at += 3;
    for (unsigned i = 0; i < 4; i++, at = end) {
        errno = 0;
        number[i] = strtoll(at, &end, 10);
        if (end == at || errno != 0)
            return false;
    }
    errno = 0;
    *word = strtoull(at, &end, 10);
    return end != at && errno == 0;
}

/* "w1 ALGO UNITS WINDOW_NS BURST WORD" -> the word under charge->limit. */
static uint64_t read_word(const struct wr_mc_charge *charge, struct weir_slice value,
                          int64_t now_ns)
{
    char text[WORD_BYTES];
    int64_t number[4]; /* algorithm, units, window, burst */
    uint64_t word;
    struct wr_limit old;

    if (value.len >= sizeof text)
        return 0;
    memcpy(text, value.ptr, value.len);
    text[value.len] = '\0';
    if (!read_numbers(text, number, &word) ||
        (number[0] != WR_TOKEN_BUCKET && number[0] != WR_LEAKY_BUCKET) || number[3] < 0 ||
        wr_limit_make(&old, (enum wr_algo)number[0], number[1], number[2], number[3],
                      charge->limit.count_denied) != NULL)
        return 0;
    if (memcmp(&old, &charge->limit, sizeof old) == 0)
        return word;
    return algo_of(charge)->carry(&charge->limit, &old, word, now_ns);
}

/* A number, where there is one. */
static bool read_count(enum wr_mc_step step, const struct wr_mc_reply *reply, uint64_t *out)
{
    *out = 0;
    return step == WR_MC_MISS || step == WR_MC_NOT_FOUND ||
           (step == WR_MC_VALUE && wr_mc_number(reply->value, out));
}

static bool hear_count(struct wr_mc_charge *charge, enum wr_mc_step step,
                       const struct wr_mc_reply *reply)
{
    bool adds = amount(charge) > 0;
    uint64_t sum;

    if (!read_count(step, reply, &sum) || (adds && step != WR_MC_VALUE))
        return false;
    charge->added = adds;
    charge->count = adds ? wr_monus_u64(sum, amount(charge)) : sum;
    return true;
}

bool wr_mc_charge_hear(struct wr_mc_charge *charge, enum wr_mc_want want, enum wr_mc_step step,
                       const struct wr_mc_reply *reply, int64_t now_ns)
{
    switch (want) {
    case WR_MC_WANT_COUNT:
        return hear_count(charge, step, reply);
    case WR_MC_WANT_PREVIOUS:
        return read_count(step, reply, &charge->before);
    case WR_MC_WANT_WORD:
        charge->cas = step == WR_MC_VALUE ? reply->cas : 0;
        charge->word = step == WR_MC_VALUE ? read_word(charge, reply->value, now_ns) : 0;
        return step == WR_MC_MISS || (step == WR_MC_VALUE && reply->cas != 0);
    case WR_MC_WANT_STORED:
        charge->stored = step == WR_MC_STORED;
        return step == WR_MC_STORED || step == WR_MC_EXISTS || step == WR_MC_NOT_STORED ||
               step == WR_MC_NOT_FOUND;
    case WR_MC_WANT_NOTHING:
        break;
    }
    return true;
}

/* ---- judging ------------------------------------------------------------------------------- */

void wr_mc_charge_judge(struct wr_mc_charge *charge, unsigned nodes, int64_t now_ns)
{
    struct wr_remote_charge *asked = charge->asked;
    const struct wr_word_algo *algo = algo_of(charge);
    bool count = wr_mc_is_count(&charge->limit);
    struct wr_take take, lease;

    if (count)
        charge->word = wr_window_word(&charge->limit, charge->index, charge->before, charge->count);
    algo->take(&charge->limit, charge->word, now_ns, asked->cost, &take);
    asked->allowed = take.allowed;
    asked->never = take.never;
    asked->granted = take.allowed ? wr_leasing_grant(take.remaining, asked->extra, nodes) : 0;
    asked->lease_ns = asked->granted == 0 ? 0
                      : count             ? wr_min_i64(asked->ttl_ns, charge->end_ns - now_ns)
                                          : asked->ttl_ns;
    asked->remaining = take.remaining - asked->granted;
    asked->retry_after_ns = take.retry_after_ns;
    asked->delay_ns = take.delay_ns;
    charge->left = take.state;
    if (asked->granted > 0) {
        algo->take(&charge->limit, take.state, now_ns, asked->granted, &lease);
        charge->left = lease.state;
    }
    algo->times(&charge->limit, take.allowed ? charge->left : take.told, now_ns, &asked->next_ns,
                &asked->reset_ns);
    asked->receipt[0] = count ? charge->index : charge->left;
    asked->receipt[1] = 0;
    charge->stored = count || charge->left == charge->word;
}

static size_t write_word(const struct wr_mc_charge *charge, char out[WORD_BYTES])
{
    const struct wr_limit *limit = &charge->limit;
    int len = snprintf(out, WORD_BYTES, "w1 %u %" PRId64 " %" PRId64 " %" PRId64 " %" PRIu64,
                       limit->algo, limit->units, limit->window_ns, limit->burst, charge->left);

    return len < 0 ? 0 : (size_t)len;
}

static void subtract(const struct wr_mc_charge *charge, const char *prefix, uint64_t index,
                     uint64_t units, struct wr_mc_out *out)
{
    char key[WR_MC_KEY_MAX + 1];
    size_t len = wr_mc_charge_key(charge, prefix, index, key);

    wr_mc_subtract(out, (struct weir_slice){key, len}, units);
}

unsigned wr_mc_charge_commit(struct wr_mc_charge *charge, const char *prefix, int64_t now_ns,
                             struct wr_mc_out *out, enum wr_mc_want *want)
{
    char key[WR_MC_KEY_MAX + 1], word[WORD_BYTES];
    uint64_t surplus = (uint64_t)(charge->asked->extra - charge->asked->granted);

    *want = WR_MC_WANT_NOTHING;
    if (charge->added && surplus > 0) {
        subtract(charge, prefix, charge->index, surplus, out);
        return 1;
    }
    if (charge->stored)
        return 0;
    *want = WR_MC_WANT_STORED;
    wr_mc_set(out, (struct weir_slice){key, wr_mc_charge_key(charge, prefix, 0, key)},
              (struct weir_slice){word, write_word(charge, word)}, charge->cas,
              keep(charge, now_ns));
    return 1;
}

unsigned wr_mc_charge_undo(struct wr_mc_charge *charge, const char *prefix, struct wr_mc_out *out)
{
    if (!charge->added)
        return 0;
    charge->added = false;
    subtract(charge, prefix, charge->index, amount(charge), out);
    return 1;
}

/* ---- afterwards ---------------------------------------------------------------------------- */

bool wr_mc_charge_change(struct wr_mc_charge *charge, enum wr_mc_change change, int64_t units,
                         const char *prefix, int64_t now_ns, struct wr_mc_out *out)
{
    bool count = wr_mc_is_count(&charge->limit);
    char key[WR_MC_KEY_MAX + 1];
    size_t len;

    if (change == WR_MC_DROP) {
        len = wr_mc_charge_key(charge, prefix, charge->index, key);
        wr_mc_delete(out, (struct weir_slice){key, len});
        if (charge->limit.algo == WR_SLIDING_WINDOW) {
            len = wr_mc_charge_key(charge, prefix, charge->index - 1, key);
            wr_mc_delete(out, (struct weir_slice){key, len});
        }
        return true;
    }
    if (!count)
        return false;
    if (change == WR_MC_REFUND) {
        subtract(charge, prefix, charge->asked->receipt[0], (uint64_t)units, out);
        return true;
    }
    len = wr_mc_charge_key(charge, prefix, charge->index, key);
    wr_mc_add(out, (struct weir_slice){key, len}, (uint64_t)units, keep(charge, now_ns));
    return true;
}

void wr_mc_charge_apply(struct wr_mc_charge *charge, enum wr_mc_change change, int64_t units,
                        int64_t now_ns)
{
    const struct wr_word_algo *algo = algo_of(charge);

    charge->left =
        change == WR_MC_REFUND
            ? algo->refund(&charge->limit, charge->word, charge->asked->receipt[0], now_ns, units)
            : algo->force(&charge->limit, charge->word, now_ns, units);
    charge->stored = charge->left == charge->word;
}
