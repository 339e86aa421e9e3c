/* lease_collect.c - what was not spent of a lease, to be given back to the store.
 *
 * Invariants:
 *   1. Units are taken out of their word in one swap: whoever has them may give them back, and
 *      nobody spends them any more. That holds whatever time it is and whoever comes second.
 *   2. Only what ends within what its owner was granted is taken. Units of a later window, which
 *      another loop was granted meanwhile, end later, and those that were over before the grant
 *      end sooner: given back under this one's receipt, either would be taken off the wrong window.
 */
#include "algo/lease.h"
#include "engine/shared.h"
#include "engine/word.h"

#define TRIES 64

int64_t wr_engine_lease_collect(struct wr_engine *engine, uint64_t key, int64_t since_ns,
                                int64_t end_ns, int64_t now)
{
    struct wr_charge charge = {
        .limit = &engine->lease, .class_id = engine->lease_class, .hash = key};

    for (int tries = 0; tries < TRIES; tries++) {
        int64_t units;
        uint64_t rest;

        wr_slot_find(engine->arena, key, &charge.view);
        if (charge.view.slot == NULL || charge.view.class_id != engine->lease_class)
            return 0;
        units = wr_lease_unspent(charge.view.state, since_ns, end_ns, &rest);
        if (units == 0)
            return 0;
        if (wr_word_store(engine->arena, &charge, rest, now) == 0)
            return units;
    }
    return 0; /* they are being spent */
}
