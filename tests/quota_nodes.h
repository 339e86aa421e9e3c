/* quota_nodes.h - nodes that share quotas of customers over a store, beside a slow model of what
 * they must say and book: the same random requests, whatever the store is. */
#ifndef TEST_QUOTA_NODES_H
#define TEST_QUOTA_NODES_H

#include <stdint.h>

#include "engine/backend.h"

/* A store, asked by one after the other. What it is ordered has been done when it returns. */
struct quota_store {
    void (*take)(struct wr_remote_call *call, int64_t now_ns);
    void (*refund)(const struct wr_remote_charge *charge, int64_t units, int64_t now_ns);
    void (*force)(const struct wr_remote_charge *charge, int64_t units, int64_t now_ns);
};

/* Runs the tests on a store that knows nobody yet; time begins with the week of |today_ns|. Returns
 * how many failed. */
int quota_nodes_run(const struct quota_store *store, int64_t today_ns);

#endif
