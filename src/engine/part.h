/* part.h - a shared limit while its store is gone: this host's part of it. */
#ifndef WR_ENGINE_PART_H
#define WR_ENGINE_PART_H

#include "engine/bound.h"

#define WR_PARTS_MAX 64 /* different parts of one limit, over all numbers of nodes */

/* |nodes|, or a little more, so that there are few different ones. */
unsigned wr_part_nodes(unsigned nodes);

/* Prepare a charge against the part of |limit| that one of |nodes| has, which is put into |*part|,
 * and must outlive |out|. False: the arena has no class left for it. */
bool wr_part_charge(struct wr_engine *engine, unsigned limit, unsigned plan, unsigned nodes,
                    uint64_t hash, int64_t cost, struct wr_limit *part, struct wr_charge *out);

#endif
