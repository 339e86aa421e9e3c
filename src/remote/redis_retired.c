/* redis_retired.c - connections that stalled: nothing is sent on them any more, but answers that
 * still come are heard, so that what they took without a caller can be given back.
 *
 * Invariants.
 *   1. At most WR_REDIS_RETIRED_MAX of a node; the oldest goes for a new one.
 *   2. One goes when nothing is pending on it, or after LINGER_NS.
 *
 * Rejected: one at a time (a server that stalls twice within seconds has answers on its way on both
 * connections: what the first one took would stay counted); taking the connection up again when
 * answers come (its queue is as long as it stalled, and a new one has been greeted meanwhile). */
#include "base/arith.h"
#include "remote/redis_store.h"

#define LINGER_NS (10 * WR_NS_PER_S) /* how long an answer may be late */

static void close_one(struct wr_redis_retired *retired)
{
    struct wr_redis_link *link = retired->link;

    retired->link = NULL;
    if (link != NULL)
        wr_redis_link_close(link);
}

static void on_lost(void *owner, struct wr_redis_link *link, enum wr_remote_trouble trouble,
                    const char *why)
{
    struct wr_redis_node *node = owner;
    (void)trouble;
    (void)why;

    for (unsigned i = 0; i < WR_REDIS_RETIRED_MAX; i++)
        if (node->retired[i].link == link)
            node->retired[i].link = NULL;
}

static const struct wr_redis_link_events events = {.lost = on_lost};

void wr_redis_retired_beat(struct wr_redis_node *node, int64_t now_ns)
{
    for (unsigned i = 0; i < WR_REDIS_RETIRED_MAX; i++) {
        struct wr_redis_retired *retired = &node->retired[i];
        if (retired->link != NULL &&
            (now_ns - retired->since_ns >= LINGER_NS || wr_redis_link_pending(retired->link) == 0))
            close_one(retired);
    }
}

/* A free place, or that of the oldest. */
static struct wr_redis_retired *make_room(struct wr_redis_node *node)
{
    struct wr_redis_retired *oldest = &node->retired[0];

    for (unsigned i = 0; i < WR_REDIS_RETIRED_MAX; i++) {
        if (node->retired[i].link == NULL)
            return &node->retired[i];
        if (node->retired[i].since_ns < oldest->since_ns)
            oldest = &node->retired[i];
    }
    close_one(oldest);
    return oldest;
}

void wr_redis_retire(struct wr_redis_node *node, struct wr_redis_link *link, int64_t now_ns)
{
    struct wr_redis_retired *retired;

    wr_redis_retired_beat(node, now_ns);
    retired = make_room(node);
    *retired = (struct wr_redis_retired){link, now_ns};
    wr_redis_link_adopt(link, &events, node);
}

void wr_redis_retired_close(struct wr_redis_node *node)
{
    for (unsigned i = 0; i < WR_REDIS_RETIRED_MAX; i++)
        close_one(&node->retired[i]);
}
