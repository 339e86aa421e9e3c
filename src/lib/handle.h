/* handle.h - what a struct weir is: a policy, an arena, and the engine that binds them. */
#ifndef WR_LIB_HANDLE_H
#define WR_LIB_HANDLE_H

#include "engine/engine.h"

struct weir {
    struct wr_policy *policy;
    struct wr_arena *arena;
    struct wr_engine *engine;
};

#endif
