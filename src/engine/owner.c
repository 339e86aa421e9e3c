/* owner.c - deciding for others.
 *
 * Idea. A charge of a ring is a charge on the arena like any other, with a hash of its own. What is
 * more here is the lease: units besides the cost, taken in the same swap. A token bucket that
 * leases holds some units back (algo/leasing.h): it is asked for cost + reserve, and charged cost +
 * what is granted.
 *
 * Invariants.
 *   1. A call that does not pass has taken nothing when this returns, but count_denied.
 *   2. What is granted is in the state before it is told.
 *   3. A charge whose class or slot is not to be had is answered (refused for a moment, or as a key
 *      never seen, without a lease), never left unwritten.
 *
 * Rejected: a class of its own for a bucket of lower capacity (a change of the time to live would
 * convert every slot; the classes of an arena are few). */
#include "engine/owner.h"

#include <stdlib.h>
#include <string.h>

#include "algo/fixed_window.h"
#include "algo/leasing.h"
#include "algo/sliding_log.h"
#include "algo/window.h"
#include "engine/bound.h"
#include "engine/owner_key.h"
#include "engine/word.h"

#define PART_RING 16 /* kind of the first part of a ring key's hash */
#define TRIES 1000   /* to win a swap, as word.c */

/* One charge on its way. */
struct part {
    struct wr_remote_charge *asked;
    struct wr_charge charge;
    int64_t reserve, granted;
    uint64_t left; /* receipt */
    bool known;    /* its class is */
    bool taken;
};

/* ---- life ------------------------------------------------------------------------------------ */

int wr_owner_new(struct wr_owner **out, const struct wr_engine *engine)
{
    struct wr_owner *owner = calloc(1, sizeof *owner);

    *out = owner;
    if (owner == NULL)
        return WEIR_ENOMEM;
    owner->arena = engine->arena;
    wr_arena_share(owner->arena);
    wr_class_set_init(&owner->classes, engine->arena);
    owner->base = wr_sip_init(wr_arena_secret(engine->arena));
    wr_sip_part(&owner->base, PART_RING, "ring", 4);
    return 0;
}

void wr_owner_free(struct wr_owner *owner)
{
    if (owner == NULL)
        return;
    wr_class_set_leave(&owner->classes);
    wr_arena_close(owner->arena);
    free(owner);
}

int64_t wr_owner_now(const struct wr_owner *owner)
{
    return wr_arena_now(owner->arena);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static size_t index_of(const struct wr_limit *limit)
{
    uint64_t mix = ((uint64_t)limit->units ^ (uint64_t)limit->window_ns << 7 ^
                    (uint64_t)limit->burst << 13 ^ limit->algo) *
                   UINT64_C(0x9e3779b97f4a7c15);

    static_assert(WR_OWNER_CLASSES == 1 << 6, "six bits of the mix");
    return mix >> 58;
}

static bool knows(const struct wr_owner *owner, size_t i, const struct wr_limit *limit)
{
    return owner->known[i].class_id != 0 &&
           memcmp(&owner->known[i].limit, limit, sizeof *limit) == 0;
}

bool wr_owner_valid(const struct wr_owner *owner, const struct wr_limit *limit)
{
    return knows(owner, index_of(limit), limit) || wr_limit_valid(limit);
}

static uint16_t class_of(struct wr_owner *owner, const struct wr_limit *limit)
{
    size_t i = index_of(limit);
    struct wr_class spec;
    uint16_t number;

    if (knows(owner, i, limit))
        return owner->known[i].class_id;
    wr_bound_class(limit, &spec);
    if (wr_class_set_take(&owner->classes, &spec, &number) != 0)
        return 0;
    owner->asked++;
    owner->known[i].limit = *limit;
    owner->known[i].class_id = number;
    return number;
}

bool wr_owner_charge(struct wr_owner *owner, const struct wr_remote_charge *asked, int64_t cost,
                     struct wr_charge *out)
{
    struct wr_sip sip = owner->base;

    wr_sip_part(&sip, 0, asked->name, strlen(asked->name));
    wr_sip_part(&sip, 0, asked->tag, WR_TAG_BYTES);
    *out = (struct wr_charge){.limit = asked->limit,
                              .hash = wr_sip_finish(sip),
                              .cost = cost,
                              .class_id = class_of(owner, asked->limit)};
    return out->class_id != 0;
}

/* ---- one charge ------------------------------------------------------------------------------ */

static void refuse_for_a_moment(struct part *part)
{
    part->granted = 0;
    part->charge.take = (struct wr_take){.retry_after_ns = WR_BUSY_RETRY_NS};
}

/* What the key's state says of it, and what taking cost and lease would make of the state. */
static void evaluate_word(struct wr_owner *owner, struct part *part, unsigned nodes, int64_t now)
{
    const struct wr_remote_charge *asked = part->asked;
    struct wr_charge *charge = &part->charge;
    int64_t left;

    part->granted = 0;
    charge->cost = asked->cost == 0 ? 0 : asked->cost + part->reserve;
    wr_word_evaluate(owner->arena, charge, now);
    left = charge->take.remaining;
    if (part->reserve == 0 && (asked->extra <= 0 || asked->cost == 0))
        return;
    if (charge->take.allowed && asked->cost > 0) {
        if (wr_can_lease(charge->limit))
            part->granted = wr_leasing_grant(left, asked->extra, nodes);
        charge->cost = asked->cost + part->granted;
        wr_word_algo((enum wr_algo)charge->limit->algo)
            ->take(charge->limit, charge->base, now, charge->cost, &charge->take);
    }
    charge->take.remaining = wr_max_i64(0, charge->take.remaining - part->reserve);
}

static void evaluate(struct wr_owner *owner, struct part *part, unsigned nodes, int64_t now)
{
    if (!part->known)
        refuse_for_a_moment(part);
    else if (wr_limit_is_word(part->charge.limit))
        evaluate_word(owner, part, nodes, now);
    else
        wr_charge_evaluate(owner->arena, &part->charge, now);
}

/* True: it is taken, or passes without being stored. */
static bool commit_word(struct wr_owner *owner, struct part *part, unsigned nodes, int64_t now)
{
    struct wr_charge *charge = &part->charge;

    for (int tries = 0; tries < TRIES; tries++) {
        int result;

        if (charge->take.state == charge->base)
            return charge->take.allowed;
        result = wr_word_store(owner->arena, charge, charge->take.state, now);
        if (!charge->take.allowed)
            return false;
        if (result == 0) {
            part->taken = true;
            part->left = charge->take.state;
            return true;
        }
        if (result == WEIR_EFULL) {
            part->granted = 0;
            return true;
        }
        evaluate_word(owner, part, nodes, now);
    }
    refuse_for_a_moment(part);
    return false;
}

static bool commit(struct wr_owner *owner, struct part *part, unsigned nodes, int64_t now)
{
    struct weir_receipt receipt;

    if (!part->known)
        return false;
    if (wr_limit_is_word(part->charge.limit))
        return commit_word(owner, part, nodes, now);
    wr_charge_commit(owner->arena, &part->charge, now, &receipt);
    part->taken = wr_receipt_taken(&receipt);
    part->left = wr_receipt_left(&receipt);
    return part->charge.take.allowed;
}

static void refund(struct wr_owner *owner, const struct wr_charge *charge, uint64_t left,
                   int64_t units, int64_t now)
{
    struct weir_receipt receipt;

    wr_charge_receipt(charge, left, &receipt);
    wr_charge_refund(owner->arena, charge->limit, &receipt, units, now);
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* Of a lease from |state|: until it is void. */
static int64_t lease_ns(const struct part *part, int64_t now)
{
    const struct wr_limit *limit = part->charge.limit;
    int64_t end_ns;

    if (part->granted == 0)
        return 0;
    if (limit->algo == WR_TOKEN_BUCKET)
        return part->asked->ttl_ns;
    if (limit->algo == WR_FIXED_WINDOW)
        (void)wr_fixed_window_count(limit, part->charge.take.state, now, &end_ns);
    else
        end_ns = wr_window_at(limit, part->charge.take.state, 64U - 2U * limit->count_bits,
                              wr_moment_ns(now))
                     .end_ns;
    return wr_max_i64(0, wr_min_i64(part->asked->ttl_ns, end_ns - now));
}

static void word_times(const struct part *part, int64_t now, struct wr_remote_charge *out)
{
    const struct wr_limit *limit = part->charge.limit;
    const struct wr_word_algo *algo = wr_word_algo((enum wr_algo)limit->algo);
    uint64_t state = part->charge.take.told;
    struct wr_take one;

    algo->times(limit, state, now, &out->next_ns, &out->reset_ns);
    if (part->reserve == 0 || part->charge.take.remaining > 0)
        return;
    algo->take(limit, state, now, part->reserve + 1, &one);
    out->next_ns = one.retry_after_ns;
}

static void answer(const struct part *part, int64_t now)
{
    const struct wr_charge *charge = &part->charge;
    struct wr_remote_charge *out = part->asked;

    out->allowed = charge->take.allowed;
    out->never = charge->take.never;
    out->granted = part->granted;
    out->lease_ns = lease_ns(part, now);
    out->remaining = charge->take.remaining;
    out->retry_after_ns = charge->take.retry_after_ns;
    out->delay_ns = charge->take.delay_ns;
    out->next_ns = out->reset_ns = 0;
    out->receipt[0] = part->taken ? part->left : 0;
    out->receipt[1] = part->taken;
    if (!part->known)
        return;
    if (wr_limit_is_word(charge->limit)) {
        word_times(part, now, out);
    } else if (charge->oldest_ns != 0) {
        out->next_ns = wr_sliding_log_left(charge->limit, charge->oldest_ns, now);
        out->reset_ns = wr_sliding_log_left(charge->limit, charge->newest_ns, now);
    }
}

/* ---- all or none ----------------------------------------------------------------------------- */

struct ballot {
    struct wr_owner *owner;
    struct part part[WEIR_LIMITS_MAX];
    unsigned count, nodes;
    uint32_t shadow;
    int64_t now;
};

static bool is_shadow(const struct ballot *b, unsigned i)
{
    return (b->shadow >> i & 1) != 0;
}

static bool evaluate_all(struct ballot *b, unsigned nodes)
{
    bool pass = true;

    for (unsigned i = 0; i < b->count; i++) {
        evaluate(b->owner, &b->part[i], nodes, b->now);
        pass = pass && (b->part[i].charge.take.allowed || is_shadow(b, i));
    }
    return pass;
}

/* Leaky buckets come last: a departure that others have queued behind cannot be given back. */
static bool commit_some(struct ballot *b, bool shadow, bool leaky)
{
    for (unsigned i = 0; i < b->count; i++) {
        struct part *part = &b->part[i];
        if (is_shadow(b, i) != shadow || (part->charge.limit->algo == WR_LEAKY_BUCKET) != leaky)
            continue;
        if (!commit(b->owner, part, b->nodes, b->now) && !shadow)
            return false;
    }
    return true;
}

static void give_back(struct ballot *b)
{
    for (unsigned i = 0; i < b->count; i++) {
        struct part *part = &b->part[i];
        if (part->taken)
            refund(b->owner, &part->charge, part->left, part->charge.cost, b->now);
        part->taken = false;
    }
}

static bool commit_all(struct ballot *b)
{
    if (!commit_some(b, false, false) || !commit_some(b, false, true)) {
        give_back(b);
        return false;
    }
    (void)commit_some(b, true, false);
    (void)commit_some(b, true, true);
    return true;
}

/* Of a refused call: without leases, states that the clock moved are written, and trying costs
 * where the limit says so. */
static void refuse(struct ballot *b)
{
    for (unsigned i = 0; i < b->count; i++) {
        struct part *part = &b->part[i];
        int64_t extra = part->asked->extra;

        part->asked->extra = 0;
        evaluate(b->owner, part, b->nodes, b->now);
        part->asked->extra = extra;
        if (!part->known)
            continue;
        if (!part->charge.take.allowed)
            (void)commit(b->owner, part, b->nodes, b->now);
        if (part->charge.limit->count_denied) {
            struct wr_charge charge = part->charge;
            charge.cost = part->asked->cost;
            wr_charge_force(b->owner->arena, &charge, b->now);
        }
    }
}

/* Peers change their policies, and the classes of old ones must come free: between two calls, none
 * is in use. */
static void forget_classes(struct wr_owner *owner)
{
    wr_class_set_leave(&owner->classes);
    memset(owner->known, 0, sizeof owner->known);
    owner->asked = 0;
}

bool wr_owner_take(struct wr_owner *owner, struct wr_remote_charge *charge, unsigned count,
                   uint32_t shadow, unsigned nodes, bool judge, int64_t now)
{
    struct ballot b = {
        .owner = owner, .count = count, .nodes = nodes, .shadow = shadow, .now = now};
    bool pass;

    if (owner->asked > WR_OWNER_ASKED_MAX)
        forget_classes(owner);
    for (unsigned i = 0; i < count; i++) {
        struct part *part = &b.part[i];
        part->asked = &charge[i];
        part->known = wr_owner_charge(owner, &charge[i], charge[i].cost, &part->charge);
        part->reserve = wr_leasing_reserve(charge[i].limit, charge[i].ttl_ns);
        wr_slot_prefetch(owner->arena, part->charge.hash);
    }
    pass = evaluate_all(&b, nodes) && !judge;
    pass = pass && commit_all(&b);
    if (!pass)
        refuse(&b);
    for (unsigned i = 0; i < count; i++)
        answer(&b.part[i], now);
    return pass;
}

/* ---- without an answer ----------------------------------------------------------------------- */

void wr_owner_refund(struct wr_owner *owner, const struct wr_remote_charge *asked, int64_t now)
{
    struct wr_charge charge;

    if (asked->receipt[1] == 0 || !wr_owner_charge(owner, asked, asked->cost, &charge))
        return;
    refund(owner, &charge, asked->receipt[0], asked->cost, now);
}

void wr_owner_force(struct wr_owner *owner, const struct wr_remote_charge *asked, int64_t now)
{
    struct wr_charge charge;

    if (wr_owner_charge(owner, asked, asked->cost, &charge))
        wr_charge_force(owner->arena, &charge, now);
}

void wr_owner_drop(struct wr_owner *owner, const struct wr_remote_charge *asked)
{
    struct wr_charge charge;

    if (wr_owner_charge(owner, asked, 0, &charge))
        (void)wr_slot_drop(owner->arena, charge.hash);
}
