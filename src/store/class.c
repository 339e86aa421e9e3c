/* class.c - the table of classes: what the slots of each class are slots of.
 *
 * A class is a limit of a plan, by value: two processes with the same policy have the same classes,
 * and any process can judge any slot. Written inside the gate, one at a time; read by anybody, as a
 * seqlock: an entry is valid while its sequence is odd and the same before and after.
 *
 * A number may get another meaning only when no slot has it and no living process could still write
 * slots of it (class_room.c finds one): each entry has a bit for each claim, set when that process
 * asks for the class, and cleared when its last set of classes that has it is left: a policy that
 * is replaced, and that no answer is computed by any more. The bits of the dead mean nothing (their
 * claim is not held) and are cleared when the claim is taken again. A kill while an entry is
 * written leaves its sequence even: a free entry.
 *
 * Rejected: a class once asked for is used for ever. A daemon could be reloaded until it had seen
 * 4095 different limits, and kept them from all others. */
#include "store/class.h"

#include <stdlib.h>
#include <string.h>

#include "store/claim.h"
#include "store/list.h"

#define READ_TRIES 64 /* of an entry that changes meanwhile; changes are rare */
/* Bounds that keep sums of times in 64 bits. */
#define WINDOW_MAX_NS (INT64_C(1) << 60)
#define TICKS_MAX (INT64_C(1) << 31)

static_assert(sizeof(((struct wr_class *)0)->params) ==
                  sizeof(((struct wr_class_entry *)0)->params),
              "");
static_assert(WR_CLASSES_MAX == WR_CLASS_MASK + 1, "");

static bool valid(int64_t window_ns, int64_t tick_ns)
{
    if (window_ns == 0)
        return true;
    return window_ns > 0 && window_ns <= WINDOW_MAX_NS && tick_ns > 0 && window_ns % tick_ns == 0 &&
           window_ns / tick_ns <= TICKS_MAX;
}

bool wr_arena_class_get(const struct wr_arena *arena, uint16_t number, struct wr_class *out)
{
    const struct wr_class_entry *entry;
    uint64_t words[WR_CLASS_PARAMS / 8];

    memset(out, 0, sizeof *out);
    if (number == 0 || number >= arena->class_count)
        return false;
    entry = &arena->classes[number];
    for (int i = 0; i < READ_TRIES; i++) {
        uint64_t sequence = WR_LOAD(&entry->sequence);
        if ((sequence & 1) == 0)
            return false;
        for (size_t w = 0; w < WR_CLASS_PARAMS / 8; w++)
            words[w] = WR_LOAD(&entry->params[w]);
        out->log_window_ns = WR_LOAD(&entry->log_window_ns);
        out->log_tick_ns = WR_LOAD(&entry->log_tick_ns);
        if (WR_LOAD(&entry->sequence) == sequence) {
            memcpy(out->params, words, sizeof out->params);
            return valid(out->log_window_ns, out->log_tick_ns);
        }
    }
    return false;
}

bool wr_class_span(const struct wr_arena *arena, uint16_t number, struct wr_span *span)
{
    const struct wr_class_entry *entry;

    *span = (struct wr_span){0, 0};
    if (number == 0 || number >= arena->class_count)
        return false;
    entry = &arena->classes[number];
    for (int i = 0; i < READ_TRIES; i++) {
        uint64_t sequence = WR_LOAD(&entry->sequence);
        if ((sequence & 1) == 0)
            return false;
        span->window_ns = WR_LOAD(&entry->log_window_ns);
        span->tick_ns = WR_LOAD(&entry->log_tick_ns);
        if (WR_LOAD(&entry->sequence) == sequence)
            return span->window_ns != 0 && valid(span->window_ns, span->tick_ns);
    }
    return false;
}

static void write_entry(struct wr_class_entry *entry, const struct wr_class *spec)
{
    uint64_t words[WR_CLASS_PARAMS / 8];

    memcpy(words, spec->params, sizeof words);
    /* Even meanwhile, and a full barrier: nobody sees a new byte under the old sequence. */
    (void)__atomic_fetch_and(&entry->sequence, ~UINT64_C(1), __ATOMIC_SEQ_CST);
    for (size_t w = 0; w < WR_CLASS_PARAMS / 8; w++)
        WR_STORE(&entry->params[w], words[w]);
    WR_STORE(&entry->log_window_ns, spec->log_window_ns);
    WR_STORE(&entry->log_tick_ns, spec->log_tick_ns);
    WR_STORE(&entry->sequence, (WR_LOAD(&entry->sequence) | 1) + 2);
}

/* ---- who uses which ---------------------------------------------------------------------- */

int wr_class_uses_new(struct wr_arena *arena)
{
    if (arena->read_only)
        return 0;
    arena->uses = (struct wr_class_uses *)calloc(1, sizeof *arena->uses);
    if (arena->uses == NULL)
        return WEIR_ENOMEM;
    (void)pthread_mutex_init(&arena->uses->lock, NULL);
    arena->uses->always = (struct wr_class_set *)malloc(sizeof *arena->uses->always);
    if (arena->uses->always == NULL)
        return WEIR_ENOMEM; /* freed with the arena */
    wr_class_set_init(arena->uses->always, arena);
    return 0;
}

void wr_class_uses_free(struct wr_class_uses *uses)
{
    if (uses == NULL)
        return;
    (void)pthread_mutex_destroy(&uses->lock);
    free(uses->always);
    free(uses);
}

static uint64_t *users_of(struct wr_arena *arena, uint32_t number, uint64_t *bit)
{
    *bit = UINT64_C(1) << (arena->claim % 64);
    return &arena->classes[number].users[arena->claim / 64];
}

void wr_class_uses_claim(struct wr_arena *arena)
{
    uint64_t bit;

    /* No thread of the parent is here to leave the lock it may have been in. */
    (void)pthread_mutex_init(&arena->uses->lock, NULL);
    for (uint32_t i = 0; i < arena->class_count; i++) {
        uint64_t *users = users_of(arena, i, &bit);
        if (arena->uses->count[i] > 0)
            (void)__atomic_fetch_or(users, bit, __ATOMIC_ACQ_REL);
    }
}

/* |set| has class |number| from now on. Inside the gate: nobody gives it another meaning. */
static void use(struct wr_class_set *set, uint16_t number)
{
    struct wr_class_uses *uses = set->arena->uses;
    uint64_t bit, own = UINT64_C(1) << (number % 64);
    uint64_t *users = users_of(set->arena, number, &bit);

    (void)pthread_mutex_lock(&uses->lock);
    if ((set->has[number / 64] & own) == 0) {
        set->has[number / 64] |= own;
        uses->count[number]++;
    }
    (void)__atomic_fetch_or(users, bit, __ATOMIC_ACQ_REL);
    (void)pthread_mutex_unlock(&uses->lock);
}

void wr_class_set_init(struct wr_class_set *set, struct wr_arena *arena)
{
    memset(set, 0, sizeof *set);
    set->arena = arena;
}

/* Our bit goes with the last set that has the class. The bits of a child that has not claimed are
 * its parent's, and not to be touched. */
static void leave(struct wr_arena *arena, uint32_t number, bool claimed)
{
    uint64_t bit;
    uint64_t *users = users_of(arena, number, &bit);

    if (arena->uses->count[number] > 0 && --arena->uses->count[number] == 0 && claimed)
        (void)__atomic_fetch_and(users, ~bit, __ATOMIC_ACQ_REL);
}

void wr_class_set_leave(struct wr_class_set *set)
{
    struct wr_arena *arena = set->arena;
    bool claimed;

    if (arena == NULL || arena->uses == NULL)
        return;
    claimed = wr_claim_taken(arena);
    if (claimed)
        (void)pthread_mutex_lock(&arena->uses->lock);
    for (uint32_t word = 0; word < WR_CLASSES_MAX / 64; word++) {
        for (uint64_t bits = set->has[word]; bits != 0; bits &= bits - 1)
            leave(arena, word * 64 + (uint32_t)__builtin_ctzll(bits), claimed);
        set->has[word] = 0;
    }
    if (claimed)
        (void)pthread_mutex_unlock(&arena->uses->lock);
}

/* ---- find or make ------------------------------------------------------------------------ */

/* Inside the gate, where entries do not change. */
static bool is_entry(const struct wr_class_entry *entry, const struct wr_class *spec)
{
    return (WR_LOAD(&entry->sequence) & 1) != 0 &&
           memcmp(entry->params, spec->params, sizeof spec->params) == 0 &&
           entry->log_window_ns == spec->log_window_ns && entry->log_tick_ns == spec->log_tick_ns;
}

/* The entry equal to |spec|, or else the first free one, or else one to reuse. */
static int find_or_make(struct wr_class_set *set, const struct wr_class *spec, uint16_t *number)
{
    struct wr_arena *arena = set->arena;
    uint16_t unused = 0;
    int rc = 0;

    for (uint32_t i = 1; i < arena->class_count; i++) {
        const struct wr_class_entry *entry = &arena->classes[i];
        if (unused == 0 && WR_LOAD(&entry->sequence) == 0)
            unused = (uint16_t)i;
        if (is_entry(entry, spec)) {
            *number = (uint16_t)i;
            use(set, *number);
            return 0;
        }
    }
    if (unused == 0)
        rc = wr_class_room(arena, &unused);
    if (rc != 0)
        return rc;
    use(set, unused);
    write_entry(&arena->classes[unused], spec);
    *number = unused;
    return 0;
}

static int enter(struct wr_arena *arena)
{
    int rc;

    if (arena->read_only)
        return WEIR_EINVAL;
    if (wr_claim_owner(arena) == 0)
        return WEIR_EFULL;
    rc = wr_gate_enter(arena);
    if (rc == 0)
        arena->uses->looked = false;
    return rc;
}

int wr_class_set_begin(struct wr_class_set *set)
{
    int rc = enter(set->arena);

    set->inside = rc == 0;
    return rc;
}

void wr_class_set_end(struct wr_class_set *set)
{
    set->inside = false;
    wr_gate_leave(set->arena);
}

int wr_class_set_take(struct wr_class_set *set, const struct wr_class *spec, uint16_t *number)
{
    int rc;

    *number = 0;
    if (!valid(spec->log_window_ns, spec->log_tick_ns))
        return WEIR_EINVAL;
    if (set->inside)
        return find_or_make(set, spec, number);
    rc = enter(set->arena);
    if (rc != 0)
        return rc;
    rc = find_or_make(set, spec, number);
    wr_gate_leave(set->arena);
    return rc;
}

int wr_arena_class(struct wr_arena *arena, const struct wr_class *spec, uint16_t *number)
{
    *number = 0;
    return arena->read_only ? WEIR_EINVAL : wr_class_set_take(arena->uses->always, spec, number);
}

unsigned wr_arena_class_room(const struct wr_arena *arena)
{
    return arena->class_count - 1;
}
