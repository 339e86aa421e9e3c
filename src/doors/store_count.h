/* store_count.h - how a customer stands over all nodes: what the store has counted of the quotas
 * that they share, in place of what this node let through. */
#ifndef WR_DOORS_STORE_COUNT_H
#define WR_DOORS_STORE_COUNT_H

#include "doors/customer_call.h"

/* In another thread: one more for call->standing. False: no memory. */
bool store_count_add(struct customer_call *call, const struct wr_standing *standing);

/* In the loop: ask the store for those that are shared. False: it has not answered yet. What it
 * does not say stays this node's part. */
bool store_count_ask(struct customer_call *call, struct http_service *service);

#endif
