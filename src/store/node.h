/* node.h - pools of heads and nodes: free lists that any process takes from and gives to. */
#ifndef WR_STORE_NODE_H
#define WR_STORE_NODE_H

#include <stdint.h>

#include "store/arena.h"

/* References are index + 1; 0: none. A reference that is not NULL-safe is checked by these. */
struct wr_node *wr_node_at(const struct wr_arena *arena, uint32_t ref);     /* NULL: out of range */
struct wr_log_head *wr_head_at(const struct wr_arena *arena, uint64_t ref); /* likewise */

/* A node, with |next| 0; 0 when none is left. */
uint32_t wr_node_take(struct wr_arena *arena);

/* Give back the chain from |first| to |last|, already linked. One compare-and-swap. */
void wr_node_put_chain(struct wr_arena *arena, uint32_t first, uint32_t last);

/* A head that is in no list; 0 when none is left. Its lock may be held for a moment by somebody who
 * found it in its former life. */
uint32_t wr_head_take(struct wr_arena *arena);
void wr_head_put(struct wr_arena *arena, uint32_t ref);

#endif
