/* word.c - charging a limit whose state is one word of the arena.
 *
 * The loop of every lock-free counter: read, compute, compare-and-swap, and anew if somebody else
 * was first. What is peculiar here:
 *   1. A slot may carry another class than the limit has now (the policy changed, the caller
 * changed plan): its state is converted by the algorithm's carry, and the swap writes class and
 * state at once.
 *   2. A refusal writes nothing, except a state that the algorithm had to move because the clock
 * was set back; losing that write to somebody else is harmless.
 *   3. A key that is not stored because all its neighbours are worth more is decided as new:
 * allowed, and there is nothing to give back. */
#include "engine/word.h"

#include <string.h>

/* Losing the swap this often in a row takes thousands of threads on one key; then the answer is a
 * refusal for a moment, never a pass. */
#define COMMIT_TRIES 1000

static struct wr_worth worth_of(const struct wr_limit *limit, uint64_t state, int64_t now)
{
    return (struct wr_worth){wr_word_algo((enum wr_algo)limit->algo)->used_q32(limit, state, now),
                             limit->window_ns};
}

/* The state of a slot of another class, as |limit| would have it. What cannot be understood, or was
 * a list, starts anew. */
static uint64_t carried(const struct wr_arena *arena, const struct wr_limit *limit,
                        const struct wr_slot_view *view, int64_t now)
{
    struct wr_class spec;
    struct wr_limit old;

    if (!wr_arena_class_get(arena, view->class_id, &spec))
        return 0;
    memcpy(&old, spec.params, sizeof old);
    if (!wr_limit_valid(&old) || !wr_limit_is_word(&old))
        return 0;
    return wr_word_algo((enum wr_algo)limit->algo)->carry(limit, &old, view->state, now);
}

static inline uint64_t load(struct wr_arena *arena, struct wr_charge *charge, int64_t now)
{
    wr_slot_find(arena, charge->hash, &charge->view);
    if (charge->view.slot == NULL)
        return 0;
    if (charge->view.class_id == charge->class_id)
        return charge->view.state;
    return carried(arena, charge->limit, &charge->view, now);
}

static inline int store(struct wr_arena *arena, const struct wr_charge *charge, uint64_t state,
                        int64_t now)
{
    struct wr_worth worth = {0, 0};

    if (charge->view.slot == NULL)
        worth = worth_of(charge->limit, state, now);
    return wr_slot_put(arena, charge->hash, &charge->view, charge->class_id, state, &worth, now);
}

int wr_word_store(struct wr_arena *arena, const struct wr_charge *charge, uint64_t state,
                  int64_t now)
{
    return store(arena, charge, state, now);
}

/* The most used algorithms are named, so that the compiler can inline them here. */
static inline void take(struct wr_charge *charge, int64_t now)
{
    if (charge->limit->algo == WR_TOKEN_BUCKET)
        wr_token_bucket.take(charge->limit, charge->base, now, charge->cost, &charge->take);
    else if (charge->limit->algo == WR_SLIDING_WINDOW)
        wr_sliding_window.take(charge->limit, charge->base, now, charge->cost, &charge->take);
    else
        wr_word_algo((enum wr_algo)charge->limit->algo)
            ->take(charge->limit, charge->base, now, charge->cost, &charge->take);
}

static inline void evaluate(struct wr_arena *arena, struct wr_charge *charge, int64_t now)
{
    charge->busy = false;
    charge->base = load(arena, charge, now);
    take(charge, now);
}

void wr_word_evaluate(struct wr_arena *arena, struct wr_charge *charge, int64_t now)
{
    evaluate(arena, charge, now);
}

static void refuse_for_a_moment(struct wr_charge *charge)
{
    charge->busy = true;
    charge->take.allowed = false;
    charge->take.never = false;
    charge->take.retry_after_ns = WR_BUSY_RETRY_NS;
    charge->take.delay_ns = 0;
}

static inline bool commit(struct wr_arena *arena, struct wr_charge *charge, int64_t now)
{
    for (int tries = 0; tries < COMMIT_TRIES; tries++) {
        int result;

        if (charge->take.state == charge->base)
            return false; /* a look, or a refusal */
        result = store(arena, charge, charge->take.state, now);
        if (result == 0 || !charge->take.allowed)
            return charge->take.allowed;
        if (result == WEIR_EFULL)
            return false; /* allowed, but there is nothing to give back */
        evaluate(arena, charge, now);
    }
    refuse_for_a_moment(charge);
    return false;
}

bool wr_word_commit(struct wr_arena *arena, struct wr_charge *charge, int64_t now)
{
    return commit(arena, charge, now);
}

void wr_word_take(struct wr_arena *arena, struct wr_charge *charge, int64_t now)
{
    evaluate(arena, charge, now);
    (void)commit(arena, charge, now);
}

/* Apply |change| to the state behind |hash| until nobody else was first. */
static void update(struct wr_arena *arena, struct wr_charge *charge, int64_t now, uint64_t receipt,
                   bool refund)
{
    const struct wr_word_algo *algo = wr_word_algo((enum wr_algo)charge->limit->algo);

    for (int tries = 0; tries < COMMIT_TRIES; tries++) {
        uint64_t state = load(arena, charge, now);
        uint64_t wanted = refund ? algo->refund(charge->limit, state, receipt, now, charge->cost)
                                 : algo->force(charge->limit, state, now, charge->cost);
        if (wanted == state || (refund && charge->view.slot == NULL))
            return;
        if (store(arena, charge, wanted, now) != WEIR_EAGAIN)
            return;
    }
}

void wr_word_force(struct wr_arena *arena, struct wr_charge charge, int64_t now)
{
    update(arena, &charge, now, 0, false);
}

void wr_word_refund(struct wr_arena *arena, struct wr_charge charge, uint64_t receipt, int64_t now)
{
    update(arena, &charge, now, receipt, true);
}

void wr_word_change(struct wr_arena *arena, struct wr_charge charge, int64_t now,
                    wr_word_change_fn *change, int64_t deadline_ns)
{
    for (int tries = 0; tries < COMMIT_TRIES; tries++) {
        uint64_t state = load(arena, &charge, now);
        uint64_t wanted = change(state, now, charge.cost, deadline_ns);
        if (wanted == state || store(arena, &charge, wanted, now) != WEIR_EAGAIN)
            return;
    }
}
