/* store_count.c - see store_count.h.
 *
 * The ledger is read in another thread, stores are asked from the loop: so the one is done first,
 * and its numbers lie in the call until the store has spoken. */
#include "doors/store_count.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "lib/handle.h"
#include "serve/asks.h"

bool store_count_add(struct customer_call *call, const struct wr_standing *standing)
{
    struct wr_standing *more =
        realloc(call->standing, (call->standing_count + 1) * sizeof *call->standing);

    if (more == NULL)
        return false;
    more[call->standing_count++] = *standing;
    call->standing = more;
    return true;
}

static bool ask_one(const struct customer_call *call, struct wr_asks *asks,
                    struct wr_standing *standing)
{
    const struct wr_policy *policy = call->handle->policy;
    struct wr_selected key = {
        .parts = 1,
        .part = {{{(const char *)&call->customer, sizeof call->customer}, WR_PART_CUSTOMER}}};
    int64_t used;

    while (strcmp(wr_policy_limit(policy, key.limit)->name, standing->quota) != 0)
        key.limit++;
    if (!wr_asks_counted(asks, &key, &used))
        return false;
    if (used < 0)
        return true;
    standing->all = true;
    standing->used = (uint64_t)used;
    if (standing->limit >= 0)
        standing->remaining = wr_max_i64(0, standing->limit - used);
    return true;
}

bool store_count_ask(struct customer_call *call, struct http_service *service)
{
    struct wr_asks *asks = service->asks;
    bool there = true;

    if (call->handle != service->loop->handle || !wr_asks_shares(service->loop)) {
        wr_asks_abandon(asks); /* asked under another policy, whose limits were others */
        return true;
    }
    asks->keep = true;
    for (size_t i = 0; i < call->standing_count; i++)
        if (call->standing[i].shared)
            there = ask_one(call, asks, &call->standing[i]) && there;
    asks->keep = false;
    return there;
}
