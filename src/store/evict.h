/* evict.h - which slot of a full bucket goes. */
#ifndef WR_STORE_EVICT_H
#define WR_STORE_EVICT_H

#include "store/arena.h"

/* What a slot of |word| and |state| is worth. False: its class is not valid, or the judge says that
 * its parameters are not. */
bool wr_evict_judge(const struct wr_arena *arena, uint64_t word, uint64_t state, int64_t now_ns,
                    struct wr_worth *worth);

/* May |victim| go for |newcomer|? */
bool wr_evict_yields(const struct wr_worth *victim, const struct wr_worth *newcomer);

/* A slot to be taken, as it was read. */
struct wr_victim {
    struct wr_slot *slot;
    uint64_t word; /* 0: it is empty */
    uint64_t state;
    bool live;     /* something of it is in use and will be lost */
    bool damaged;  /* could not be judged */
    bool has_list; /* to be changed by wr_list_replace */
};

/* Choose a slot of |bucket| for |hash|. |excluded|: bit i for a slot i that may not be taken.
 * Returns: 0, WEIR_EAGAIN (the key has a slot by now), WEIR_EFULL (all are worth more). */
int wr_evict_choose(const struct wr_arena *arena, struct wr_bucket *bucket, uint64_t hash,
                    const struct wr_worth *newcomer, int64_t now_ns, unsigned excluded,
                    struct wr_victim *victim);

#endif
