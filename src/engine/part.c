/* part.c - a shared limit while its store is gone: this host's part of it, counted in the arena.
 *
 * The part depends on how many nodes there were last. Each number of nodes would be a class of the
 * arena of its own, and a fleet that grows and shrinks would fill the table: so the number is
 * rounded up to one of four steps an octave. Rounded up, no node lets through more than its part.
 *
 * Invariants:
 *   1. A limit is divided by at least |nodes|, so that the parts of all are at most the whole (but
 * for the one unit that each has).
 *   2. At most WR_PARTS_MAX classes for each limit of a plan. */
#include "engine/part.h"

#include <string.h>

#include "base/arith.h"

#define EXACT 8U /* numbers of nodes up to this one are not rounded */

static_assert(WR_PARTS_MAX >= EXACT + 4 * (16 - 3), "invariant 2, for up to 2^16 nodes");

unsigned wr_part_nodes(unsigned nodes)
{
    unsigned step;

    nodes = (unsigned)wr_min_u64(wr_max_u64(nodes, 1), 1U << 16);
    if (nodes <= EXACT)
        return nodes;
    step = 1U << (wr_bit_length(nodes - 1) - 3); /* nodes in (4 step, 8 step] */
    return (nodes + step - 1) / step * step;
}

/* The class of |part|, remembered with the number of nodes it is for. */
static int class_of(struct wr_engine *engine, const struct wr_limit *part, unsigned nodes,
                    uint64_t *memory, uint16_t *class_id)
{
    uint64_t known = __atomic_load_n(memory, __ATOMIC_RELAXED);
    struct wr_class spec;
    int result;

    *class_id = (uint16_t)(known & 0xffff);
    if (known >> 16 == nodes)
        return 0;
    wr_bound_class(part, &spec);
    result = wr_class_set_take(&engine->classes, &spec, class_id);
    if (result == 0)
        __atomic_store_n(memory, (uint64_t)nodes << 16 | *class_id, __ATOMIC_RELAXED);
    return result;
}

bool wr_part_charge(struct wr_engine *engine, unsigned limit, unsigned plan, unsigned nodes,
                    uint64_t hash, int64_t cost, struct wr_limit *part, struct wr_charge *out)
{
    uint64_t *memory = &engine->parts[limit * wr_policy_plan_count(engine->policy) + plan];
    uint16_t class_id;

    nodes = wr_part_nodes(nodes);
    if (!wr_limit_divide(part, wr_policy_at_store(engine->limits[limit].policy, plan), nodes) ||
        class_of(engine, part, nodes, memory, &class_id) != 0)
        return false;
    out->limit = part;
    out->class_id = class_id;
    out->hash = hash;
    out->cost = cost;
    return true;
}
