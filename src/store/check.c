/* check.c - walking an arena: what is in it, and does it hold together?
 *
 * Everything is input: each reference is checked, each walk marks what it met and ends at what is
 * marked, so no bytes make it crash or run for ever. Sound means:
 *   1. an empty slot is all zeros; the others have a valid class and, by the judge, valid
 * parameters;
 *   2. a slot of a class of lists refers to a head that knows it, and no other slot does;
 *   3. the nodes of a list are as many as its count and offset say, and are in no other list;
 *   4. what is free is in no list, and is there once.
 *   5. bans are as ban_check.c wants them.
 * Nodes and heads that are neither free nor in a list are lost, not damage: a kill leaks a few. */
#include "store/check.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "store/ban.h"
#include "store/claim.h"
#include "store/evict.h"
#include "store/list.h"
#include "store/node.h"

#define USED_FULL (UINT64_C(1) << 32)

struct walk {
    const struct wr_arena *arena;
    struct wr_arena_report *report;
    struct wr_diag *diag;
    int64_t now_ns;
    bool quiet; /* nobody else has it open: nothing changes under the walk */
    bool sound;
    uint8_t *head_marks;
    uint8_t *node_marks;
};

/* Something that changes in steps is wrong: surely so only while nothing changes. */
static void finding(struct walk *w, const char *what, uint64_t number)
{
    wr_diag_add(w->diag, w->quiet ? WR_ERROR : WR_WARNING, 0, 0, "%s %llu%s", what,
                (unsigned long long)number, w->quiet ? "" : " (or it changed meanwhile)");
    if (w->quiet)
        w->sound = false;
}

static void damage(struct walk *w, const char *what, uint64_t number)
{
    wr_diag_add(w->diag, WR_ERROR, 0, 0, "%s %llu", what, (unsigned long long)number);
    w->report->damaged++;
    w->sound = false;
}

/* ---- classes ------------------------------------------------------------------------------- */

static void check_classes(struct walk *w)
{
    struct wr_worth worth;

    for (uint32_t i = 1; i < w->arena->class_count; i++) {
        struct wr_class *spec = &w->report->reports[i].spec;
        if ((WR_LOAD(&w->arena->classes[i].sequence) & 1) == 0)
            continue;
        if (!wr_arena_class_get(w->arena, (uint16_t)i, spec) ||
            !w->arena->judge(spec->params, 0, w->now_ns, &worth)) {
            memset(spec, 0, sizeof *spec);
            damage(w, "damaged: class", i);
        } else {
            w->report->classes++;
        }
    }
}

/* ---- lists --------------------------------------------------------------------------------- */

/* Mark the nodes of |list|; false when they are not what it says. */
static bool mark_nodes(struct walk *w, const struct wr_list *list)
{
    uint32_t wanted = list->first == 0 ? 0 : wr_list_nodes(list);
    uint32_t ref = list->first;

    for (uint32_t i = 0; i < wanted; i++) {
        const struct wr_node *node = wr_node_at(w->arena, ref);
        if (node == NULL || w->node_marks[ref - 1] != 0)
            return false;
        w->node_marks[ref - 1] = 1;
        w->report->nodes_used++;
        if (i + 1 == wanted)
            return ref == list->last;
        ref = WR_LOAD(&node->next);
    }
    return true;
}

static void check_list(struct walk *w, const struct wr_slot *slot, uint64_t word, uint64_t state)
{
    const struct wr_log_head *head = wr_head_at(w->arena, state);
    uint64_t index = wr_slot_index(w->arena, slot);
    struct wr_list list;

    if (head == NULL || w->head_marks[state - 1] != 0 || WR_LOAD(&head->word) != word ||
        WR_LOAD(&head->slot) != index) {
        finding(w, "damaged: the reference to a list in slot", index);
        return;
    }
    w->head_marks[state - 1] = 1;
    w->report->heads_used++;
    if (!wr_list_read(w->arena, head, &list) || !mark_nodes(w, &list))
        finding(w, "damaged: the list of slot", index);
}

/* ---- slots --------------------------------------------------------------------------------- */

static bool read_pair(const struct wr_slot *slot, uint64_t *word, uint64_t *state)
{
    for (int i = 0; i < 1000; i++) {
        *word = WR_LOAD(&slot->word);
        *state = WR_LOAD(&slot->state);
        if (WR_LOAD(&slot->word) == *word && WR_LOAD(&slot->state) == *state)
            return true;
    }
    return false; /* a very busy one, so a live one */
}

static void count_slot(struct walk *w, const struct wr_slot *slot, uint64_t word, uint64_t state)
{
    struct wr_class_report *class = &w->report->reports[word & WR_CLASS_MASK];
    const struct wr_span span = {class->spec.log_window_ns, class->spec.log_tick_ns};
    int64_t oldest_ns, newest_ns;
    struct wr_worth worth;

    w->report->used++;
    if (!wr_evict_judge(w->arena, word, state, w->now_ns, &worth)) {
        damage(w, "damaged: the class of slot", wr_slot_index(w->arena, slot));
        return;
    }
    class->slots++;
    if (class->spec.log_window_ns != 0) {
        const struct wr_log_head *head = wr_head_at(w->arena, state);
        if (head != NULL)
            class->stamps += wr_list_look(w->arena, head, &span, w->now_ns, &oldest_ns, &newest_ns);
        check_list(w, slot, word, state);
    }
    class->live += worth.used_q32 > 0;
    class->full += worth.used_q32 >= USED_FULL;
    w->report->live += worth.used_q32 > 0;
}

static void check_bucket(struct walk *w, const struct wr_bucket *bucket)
{
    uint64_t words[WR_BUCKET_SLOTS], state;

    for (unsigned i = 0; i < WR_BUCKET_SLOTS; i++) {
        const struct wr_slot *slot = &bucket->slot[i];
        if (!read_pair(slot, &words[i], &state))
            continue;
        if (words[i] == 0) {
            if (state != 0)
                damage(w, "damaged: a state without a key in slot", wr_slot_index(w->arena, slot));
            continue;
        }
        count_slot(w, slot, words[i], state);
        for (unsigned k = 0; k < i; k++)
            w->report->duplicates += wr_slot_same_key(words[k], words[i]);
    }
}

/* ---- pools --------------------------------------------------------------------------------- */

/* Follow the free list of |pool|; |next_of| says where the next reference is. */
static uint64_t count_free(struct walk *w, const struct wr_pool *pool, uint8_t *marks,
                           uint64_t count, bool heads)
{
    uint32_t ref = (uint32_t)WR_LOAD(&pool->free);
    uint64_t fresh = wr_min_u64(WR_LOAD(&pool->fresh), count), free = 0;

    if (WR_LOAD(&pool->fresh) > count)
        finding(w, heads ? "damaged: heads given out:" : "damaged: nodes given out:",
                WR_LOAD(&pool->fresh));
    while (ref != 0) {
        if (ref > count || marks[ref - 1] != 0) {
            finding(w,
                    heads ? "damaged: the free list of heads at"
                          : "damaged: the free list of nodes at",
                    ref);
            break;
        }
        marks[ref - 1] = 1;
        free++;
        ref = heads ? WR_LOAD(&w->arena->heads[ref - 1].copy[0].first)
                    : WR_LOAD(&w->arena->nodes[ref - 1].next);
    }
    return free + count - fresh;
}

static void check_pools(struct walk *w)
{
    struct wr_arena_report *r = w->report;

    r->heads = w->arena->head_count;
    r->nodes = w->arena->node_count;
    r->heads_free = count_free(w, &w->arena->header->heads, w->head_marks, r->heads, true);
    r->nodes_free = count_free(w, &w->arena->header->nodes, w->node_marks, r->nodes, false);
    r->heads_lost = wr_monus_u64(r->heads, r->heads_free + r->heads_used);
    r->nodes_lost = wr_monus_u64(r->nodes, r->nodes_free + r->nodes_used);
}

/* ---- bans ---------------------------------------------------------------------------------- */

static void check_bans(struct walk *w)
{
    struct wr_ban_findings found;

    wr_ban_inspect(w->arena, w->now_ns, &found);
    w->report->bans = found.live;
    w->report->bans_room = wr_ban_room(w->arena);
    if (found.damaged > 0)
        finding(w, "damaged: the ban in cell", found.first_damaged);
    if (found.summary_short)
        finding(w, "damaged: the summary of bans, of which there are", found.live);
    if (w->quiet)
        w->report->damaged += found.damaged;
}

int wr_arena_check(const struct wr_arena *arena, int64_t now_ns, struct wr_arena_report *report,
                   struct wr_diag *diag)
{
    struct walk w = {
        .arena = arena, .report = report, .diag = diag, .now_ns = now_ns, .sound = true};

    memset(report, 0, sizeof *report);
    w.head_marks = (uint8_t *)calloc((size_t)arena->head_count + 1, 1);
    w.node_marks = (uint8_t *)calloc((size_t)arena->node_count + 1, 1);
    if (w.head_marks == NULL || w.node_marks == NULL) {
        free(w.head_marks);
        free(w.node_marks);
        return WEIR_ENOMEM;
    }
    w.quiet = !wr_claim_others(arena);
    report->size_bytes = arena->size_bytes;
    report->slots = wr_arena_slots(arena);
    report->processes = wr_claim_count(arena);
    report->now_ns = now_ns;
    report->created_ns = arena->header->created_ns;
    for (unsigned i = 0; i < WR_ARENA_COUNTERS; i++)
        report->counters[i] = wr_arena_count(arena, (enum wr_arena_counter)i);
    check_classes(&w);
    for (uint64_t b = 0; b < arena->bucket_count; b++)
        check_bucket(&w, &arena->buckets[b]);
    check_pools(&w);
    check_bans(&w);
    free(w.head_marks);
    free(w.node_marks);
    return w.sound ? 0 : WEIR_ECORRUPT;
}
