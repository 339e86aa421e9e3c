/* sample.c - how full an arena is, without walking it.
 *
 * A slot is in use while its key would lose something by being forgotten; slots are emptied only
 * when their place is needed, so counting those that are not empty would say "full" of every arena
 * that has run for a while. Judging all of them costs seconds in a large one. Keys are hashed under
 * a secret, so any set of buckets is a fair sample: some are judged, evenly spaced, from a place
 * that moves from one look to the next.
 *
 * With 1024 buckets, 8192 slots, the fraction is within 0.011 of the truth in 95 looks of 100, and
 * within nothing where there are no more buckets than that. */
#include "store/evict.h"
#include "store/handle.h"

void wr_arena_sample(const struct wr_arena *arena, uint64_t turn, uint64_t buckets, int64_t now_ns,
                     struct wr_occupancy *out)
{
    uint64_t count = buckets < arena->bucket_count ? buckets : arena->bucket_count;
    uint64_t stride = count > 0 ? arena->bucket_count / count : 1;
    uint64_t start = turn % stride;

    *out = (struct wr_occupancy){count * WR_BUCKET_SLOTS, 0};
    for (uint64_t i = 0; i < count; i++) {
        const struct wr_bucket *bucket = &arena->buckets[start + i * stride];
        for (unsigned k = 0; k < WR_BUCKET_SLOTS; k++) {
            uint64_t state = WR_LOAD(&bucket->slot[k].state);
            uint64_t word = WR_LOAD(&bucket->slot[k].word);
            struct wr_worth worth;
            if (word != 0 && wr_evict_judge(arena, word, state, now_ns, &worth))
                out->live += worth.used_q32 > 0;
        }
    }
}
