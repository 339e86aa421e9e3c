/* handle.h - what a struct weir is: a policy, an arena, and the engine that binds them. */
#ifndef WR_LIB_HANDLE_H
#define WR_LIB_HANDLE_H

#include "engine/engine.h"

struct weir {
    struct wr_policy *policy;
    struct wr_arena *arena;
    struct wr_engine *engine;
    bool shares; /* the arena is another's, which outlives this one */
};

/* As weir_open, for a policy that takes the place of |before|'s: the arena of |before| is shared
 * where the policy names the same one (or none, as before), and then |before| must outlive |*out|:
 * (*out)->shares. |before| NULL: as weir_open. */
int wr_weir_open(struct weir **out, const char *policy_path, const struct weir_options *options,
                 const struct weir *before, char *errors, size_t errors_size);

#endif
