/* class.c - the table of classes: what the slots of each class are slots of.
 *
 * A class is a limit of a plan, by value: two processes with the same policy have the same classes,
 * and any process can judge any slot. Written inside the gate, one at a time; read by anybody, as a
 * seqlock: an entry is valid while its sequence is odd and the same before and after.
 *
 * A number may get another meaning only when no slot has it and no living process could still write
 * slots of it: each entry has a bit for each claim, set when that process asks for the class. The
 * bits of the dead mean nothing (their claim is not held) and are cleared when the claim is taken
 * again. A kill while an entry is written leaves its sequence even: a free entry. */
#include <stdlib.h>
#include <string.h>

#include "store/arena.h"
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

static void use(struct wr_arena *arena, uint16_t number)
{
    (void)__atomic_fetch_or(&arena->classes[number].users[arena->claim / 64],
                            UINT64_C(1) << (arena->claim % 64), __ATOMIC_ACQ_REL);
}

/* Mark in |used| the classes that slots have. */
static void mark_used(const struct wr_arena *arena, unsigned char used[WR_CLASSES_MAX])
{
    for (uint64_t b = 0; b < arena->bucket_count; b++)
        for (unsigned i = 0; i < WR_BUCKET_SLOTS; i++)
            used[WR_LOAD(&arena->buckets[b].slot[i].word) & WR_CLASS_MASK] = 1;
}

static bool has_living_user(const struct wr_arena *arena, uint16_t number)
{
    for (uint32_t word = 0; word < WR_CLAIMS / 64; word++)
        for (uint64_t bits = WR_LOAD(&arena->classes[number].users[word]); bits != 0;
             bits &= bits - 1)
            if (wr_claim_held(arena, word * 64 + (uint32_t)__builtin_ctzll(bits)))
                return true;
    return false;
}

/* A class nobody needs any more. Looks at every slot: once in thousands of changed limits. */
static int find_reusable(const struct wr_arena *arena, uint16_t *number)
{
    unsigned char *used = (unsigned char *)calloc(1, WR_CLASSES_MAX);
    int rc = WEIR_EFULL;

    if (used == NULL)
        return WEIR_EFULL;
    mark_used(arena, used);
    for (uint32_t i = 1; i < arena->class_count && rc != 0; i++) {
        if (used[i] == 0 && !has_living_user(arena, (uint16_t)i)) {
            *number = (uint16_t)i;
            rc = 0;
        }
    }
    free(used);
    return rc;
}

/* The entry equal to |spec|, or else the first free one, or else one to reuse. */
static int find_or_make(struct wr_arena *arena, const struct wr_class *spec, uint16_t *number)
{
    struct wr_class have;
    uint16_t unused = 0;
    int rc = 0;

    for (uint32_t i = 1; i < arena->class_count; i++) {
        if (!wr_arena_class_get(arena, (uint16_t)i, &have)) {
            if (unused == 0 && WR_LOAD(&arena->classes[i].sequence) == 0)
                unused = (uint16_t)i;
            continue;
        }
        if (memcmp(have.params, spec->params, sizeof have.params) == 0 &&
            have.log_window_ns == spec->log_window_ns && have.log_tick_ns == spec->log_tick_ns) {
            *number = (uint16_t)i;
            use(arena, *number);
            return 0;
        }
    }
    if (unused == 0)
        rc = find_reusable(arena, &unused);
    if (rc != 0)
        return rc;
    use(arena, unused);
    write_entry(&arena->classes[unused], spec);
    *number = unused;
    return 0;
}

int wr_arena_class(struct wr_arena *arena, const struct wr_class *spec, uint16_t *number)
{
    int rc;

    *number = 0;
    if (!valid(spec->log_window_ns, spec->log_tick_ns) || arena->read_only)
        return WEIR_EINVAL;
    if (wr_claim_owner(arena) == 0)
        return WEIR_EFULL;
    rc = wr_gate_enter(arena);
    if (rc != 0)
        return rc;
    rc = find_or_make(arena, spec, number);
    wr_gate_leave(arena);
    return rc;
}
