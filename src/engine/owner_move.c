/* owner_move.c - the state of a key, told by one node and added to by another.
 *
 * Idea. A state is told as it lies in the arena: a word, or stamps. Where the new owner has nothing
 * of the key it goes on from there, exactly. Where it has (both counted for a while: views
 * differed, a node was thought dead, or came back with its arena), both counts are true, so they
 * are added.
 *
 * Invariants.
 *   1. What is used afterwards is at least what either had counted, up to what the word can say.
 *   2. Moments are shifted by how far the clocks are apart, if that is more than what is ordinary
 *      between nodes; windows are the clock's, and follow each node's own.
 *
 * Rejected: the greater of the two counts (each has counted requests that the other has not). */
#include "base/arith.h"
#include "engine/list.h"
#include "engine/owner_key.h"
#include "engine/word.h"
#include "store/log.h"

#include <string.h>

/* ---- telling --------------------------------------------------------------------------------- */

static bool export_word(struct wr_owner *owner, struct wr_charge *charge, int64_t now,
                        struct wr_owner_state *out)
{
    wr_word_evaluate(owner->arena, charge, now);
    out->word = charge->base;
    return out->word != 0 && wr_word_used_q32(charge->limit, out->word, now) > 0;
}

static bool export_list(struct wr_owner *owner, struct wr_charge *charge, int64_t now,
                        struct wr_owner_state *out)
{
    const struct wr_worth worth = {1, charge->limit->window_ns};
    struct wr_log log;
    uint32_t skip;

    wr_charge_evaluate(owner->arena, charge, now);
    if (charge->newest_ns == 0 ||
        wr_log_open(&log, owner->arena, charge->hash, charge->class_id, &worth, now) != 0)
        return false;
    out->stamps = (uint32_t)wr_min_u64(log.live, WR_OWNER_STAMPS_MAX);
    skip = log.live - out->stamps;
    for (uint32_t i = 0; i < out->stamps; i++)
        out->stamp[i] = wr_log_stamp(&log, skip + i);
    wr_log_close(&log);
    return out->stamps > 0;
}

bool wr_owner_export(struct wr_owner *owner, const struct wr_remote_charge *asked, int64_t now,
                     struct wr_owner_state *out)
{
    struct wr_charge charge;

    out->now_ns = now;
    out->word = 0;
    out->stamps = 0;
    if (!wr_owner_charge(owner, asked, 0, &charge))
        return false;
    return wr_limit_is_word(charge.limit) ? export_word(owner, &charge, now, out)
                                          : export_list(owner, &charge, now, out);
}

/* ---- adding ---------------------------------------------------------------------------------- */

/* How far to shift moments of the other node's. */
static int64_t apart_ns(const struct wr_owner_state *state, int64_t now)
{
    int64_t apart = wr_moment_ns(now) - wr_moment_ns(state->now_ns);

    return apart > WR_CLOCK_NOISE_NS || apart < -WR_CLOCK_NOISE_NS ? apart : 0;
}

/* |word| as of our clock. A bucket's is carried through what it has used, at its own moment. */
static uint64_t shifted(const struct wr_limit *limit, const struct wr_owner_state *state,
                        int64_t now)
{
    const struct wr_word_algo *algo = wr_word_algo((enum wr_algo)limit->algo);
    struct wr_take look;

    if (apart_ns(state, now) == 0 || limit->algo > WR_LEAKY_BUCKET)
        return state->word;
    algo->take(limit, state->word, wr_moment_ns(state->now_ns), 0, &look);
    return algo->force(limit, 0, now, wr_limit_capacity(limit) - look.remaining);
}

static void import_word(struct wr_owner *owner, struct wr_charge *charge, uint64_t word,
                        int64_t now)
{
    const struct wr_word_algo *algo = wr_word_algo((enum wr_algo)charge->limit->algo);
    int tries = 0, result;

    do {
        uint64_t state = word;

        wr_word_evaluate(owner->arena, charge, now);
        if (charge->base != 0)
            state = algo->force(charge->limit, word, now,
                                wr_limit_capacity(charge->limit) - charge->take.remaining);
        result = wr_word_store(owner->arena, charge, state, now);
    } while (result == WEIR_EAGAIN && ++tries < 1000);
}

static void append_at(struct wr_owner *owner, const struct wr_charge *charge, int64_t moment_ns,
                      uint32_t count)
{
    const struct wr_worth worth = {1, charge->limit->window_ns};
    struct wr_log log;
    int64_t stamp;

    if (wr_log_open(&log, owner->arena, charge->hash, charge->class_id, &worth, moment_ns) != 0)
        return;
    if ((int64_t)log.live + count <= 2 * charge->limit->units)
        (void)wr_log_append(&log, count, &stamp);
    wr_log_close(&log);
}

static void import_list(struct wr_owner *owner, const struct wr_charge *charge,
                        const struct wr_owner_state *state, int64_t now)
{
    int64_t shift_ns = apart_ns(state, now);

    for (uint32_t i = 0; i < state->stamps;) {
        uint32_t same = 1;
        while (i + same < state->stamps && state->stamp[i + same] == state->stamp[i])
            same++;
        append_at(owner, charge, wr_moment_ns(state->stamp[i]) + shift_ns, same);
        i += same;
    }
}

void wr_owner_import(struct wr_owner *owner, const struct wr_remote_charge *asked,
                     const struct wr_owner_state *state, int64_t now)
{
    struct wr_charge charge;

    if (!wr_owner_charge(owner, asked, 0, &charge))
        return;
    if (!wr_limit_is_word(charge.limit))
        import_list(owner, &charge, state, now);
    else if (state->word != 0)
        import_word(owner, &charge, shifted(charge.limit, state, now), now);
}
