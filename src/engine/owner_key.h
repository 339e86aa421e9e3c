/* owner_key.h - what the files of the owner's part share. */
#ifndef WR_ENGINE_OWNER_KEY_H
#define WR_ENGINE_OWNER_KEY_H

#include "engine/charge.h"
#include "engine/owner.h"

#define WR_OWNER_CLASSES 64
#define WR_OWNER_ASKED_MAX 512 /* then all are left: peers change their policies */

struct wr_owner {
    struct wr_arena *arena;
    struct wr_class_set classes;
    unsigned asked;     /* for classes since the set was left last */
    struct wr_sip base; /* after what tells ring keys from all others */
    /* Classes asked for lately, by their limit. */
    struct {
        struct wr_limit limit;
        uint16_t class_id; /* 0: none */
    } known[WR_OWNER_CLASSES];
};

/* The charge on the arena that |asked| is, of |cost|. False: no class is to be had. */
bool wr_owner_charge(struct wr_owner *owner, const struct wr_remote_charge *asked, int64_t cost,
                     struct wr_charge *out);

#endif
