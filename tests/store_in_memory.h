/* store_in_memory.h - a store for tests, that decides with the C core on plain memory: what Redis,
 * a ring or a network in between must be as good as. One clock, the caller's; no threads. */
#ifndef TEST_STORE_IN_MEMORY_H
#define TEST_STORE_IN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/backend.h"

struct memory_store; /* out of memory ends the test */

/* |nodes| share it: a lease is at most half of what is left, divided by them. */
struct memory_store *memory_store_new(unsigned nodes);
void memory_store_free(struct memory_store *store);

/* Decide |call| at |now_ns| of the store's clock, all or none, into call->charge[]. Does not call
 * done. */
void memory_store_take(struct memory_store *store, struct wr_remote_call *call, int64_t now_ns);

/* As struct wr_backend_ops. */
void memory_store_refund(struct memory_store *store, const struct wr_remote_charge *charge,
                         int64_t units, int64_t now_ns);
void memory_store_force(struct memory_store *store, const struct wr_remote_charge *charge,
                        int64_t units, int64_t now_ns);
void memory_store_drop(struct memory_store *store, const struct wr_remote_charge *charge);

/* Forget everything, as a server that restarts empty. */
void memory_store_clear(struct memory_store *store);

/* Decisions so far. */
uint64_t memory_store_calls(const struct memory_store *store);

#endif
