/* node.c - the pools that heads and nodes come from.
 *
 * A pool is a stack of what was given back, plus the number of those never used: nothing has to be
 * linked when the arena is made. The stack's top carries a tag that goes up with each change, so
 * that a process which slept between reading the top's successor and its compare-and-swap fails
 * instead of installing a stale one (ABA); 2^32 changes within one such sleep are taken as never.
 *
 * A kill between taking something and putting it into a list loses it, until wr_list_collect.
 * A reference out of range, in a damaged file, ends the stack: as if it were empty. */
#include "store/node.h"

#define TAG_ONE (UINT64_C(1) << 32)

struct wr_node *wr_node_at(const struct wr_arena *arena, uint32_t ref)
{
    return ref - 1 < arena->node_count ? &arena->nodes[ref - 1] : NULL;
}

struct wr_log_head *wr_head_at(const struct wr_arena *arena, uint64_t ref)
{
    return ref - 1 < arena->head_count ? &arena->heads[ref - 1] : NULL;
}

static uint64_t with_tag(uint64_t top, uint32_t ref)
{
    return ((top & ~UINT64_C(0xffffffff)) + TAG_ONE) | ref;
}

/* The next never used one; 0 when all were. */
static uint32_t take_fresh(struct wr_pool *pool, uint32_t count)
{
    uint64_t fresh = WR_LOAD(&pool->fresh);

    while (fresh < count) {
        if (wr_cas8(&pool->fresh, fresh, fresh + 1))
            return (uint32_t)fresh + 1;
        fresh = WR_LOAD(&pool->fresh);
    }
    return 0;
}

uint32_t wr_node_take(struct wr_arena *arena)
{
    struct wr_pool *pool = &arena->header->nodes;
    struct wr_node *node;
    uint32_t ref;

    for (;;) {
        uint64_t top = WR_LOAD(&pool->free);
        node = wr_node_at(arena, (uint32_t)top);
        if (node == NULL)
            break;
        if (wr_cas8(&pool->free, top, with_tag(top, WR_LOAD(&node->next)))) {
            WR_STORE(&node->next, 0);
            return (uint32_t)top;
        }
    }
    ref = take_fresh(pool, arena->node_count);
    node = wr_node_at(arena, ref);
    if (node != NULL)
        WR_STORE(&node->next, 0);
    return ref;
}

void wr_node_put_chain(struct wr_arena *arena, uint32_t first, uint32_t last)
{
    struct wr_pool *pool = &arena->header->nodes;
    struct wr_node *node = wr_node_at(arena, last);
    uint64_t top;

    if (node == NULL || wr_node_at(arena, first) == NULL)
        return;
    do {
        top = WR_LOAD(&pool->free);
        WR_STORE(&node->next, (uint32_t)top);
    } while (!wr_cas8(&pool->free, top, with_tag(top, first)));
}

uint32_t wr_head_take(struct wr_arena *arena)
{
    struct wr_pool *pool = &arena->header->heads;

    for (;;) {
        uint64_t top = WR_LOAD(&pool->free);
        struct wr_log_head *head = wr_head_at(arena, (uint32_t)top);
        if (head == NULL)
            return take_fresh(pool, arena->head_count);
        if (wr_cas8(&pool->free, top, with_tag(top, WR_LOAD(&head->copy[0].first))))
            return (uint32_t)top;
    }
}

void wr_head_put(struct wr_arena *arena, uint32_t ref)
{
    struct wr_pool *pool = &arena->header->heads;
    struct wr_log_head *head = wr_head_at(arena, ref);
    uint64_t top;

    if (head == NULL)
        return;
    do {
        top = WR_LOAD(&pool->free);
        WR_STORE(&head->copy[0].first, (uint32_t)top);
    } while (!wr_cas8(&pool->free, top, with_tag(top, ref)));
}
