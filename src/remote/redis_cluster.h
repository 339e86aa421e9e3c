/* redis_cluster.h - the parts of the cluster's router: who has which slot (redis_cluster_map.c),
 * what redirects (redis_cluster_moves.c), who is well (redis_cluster_health.c). Internal. */
#ifndef WR_REMOTE_REDIS_CLUSTER_H
#define WR_REMOTE_REDIS_CLUSTER_H

#include "remote/redis_slot.h"
#include "remote/redis_store.h"

#define WR_CLUSTER_NOBODY UINT8_MAX
#define WR_CLUSTER_ANSWER_NS WR_NS_PER_S /* who leaves a question of ours so long is lost */

_Static_assert(WR_REDIS_NODES_MAX < WR_CLUSTER_NOBODY,
               "an index of nodes[] fits a byte of the map");

struct wr_cluster {
    struct wr_redis_store *store;
    struct wr_redis_node *nodes[WR_REDIS_NODES_MAX];
    uint8_t map[WR_REDIS_SLOTS]; /* index of nodes[], or WR_CLUSTER_NOBODY */
    unsigned holes;              /* slots that nobody had */
    bool known;                  /* a map was read, at: */
    int64_t read_ns;
    bool refreshing;             /* a question is under way, to: */
    struct wr_redis_node *asked; /* NULL: it is closed */
    bool refresh;                /* wanted, when the gap is over */
    int64_t refreshed_ns;
    unsigned turn;    /* whom to ask next */
    uv_timer_t timer; /* the gap, and pauses */
};

static inline struct wr_cluster *wr_cluster_of(const struct wr_redis_store *store)
{
    return store->routing;
}

/* ---- redis_cluster_map.c --------------------------------------------------------------------- */

bool wr_cluster_is_up(const struct wr_redis_node *node);
/* The node at |address|, opened if there is none; WR_CLUSTER_NOBODY: there are too many, or no
 * memory. */
uint8_t wr_cluster_find_or_open(struct wr_cluster *cluster, const struct wr_redis_address *address);
/* Those that the policy names. */
void wr_cluster_open_seeds(struct wr_cluster *cluster);
/* Let go of nodes without slots that nothing was sent to for a while. */
void wr_cluster_close_unused(struct wr_cluster *cluster, int64_t now_ns);
/* Read the map anew, as soon as it may be. */
void wr_cluster_refresh(struct wr_cluster *cluster);
/* Has a map that is hardly old said that nobody has |slot|? */
bool wr_cluster_is_nobodys(const struct wr_cluster *cluster, uint16_t slot, int64_t now_ns);
/* Drop who was asked for the map and does not answer. */
void wr_cluster_drop_silent(struct wr_cluster *cluster, int64_t now_ns);

/* ---- redis_cluster_moves.c ------------------------------------------------------------------- */

/* As in struct wr_redis_router. */
bool wr_cluster_redirected(struct wr_redis_store *store, struct wr_redis_ticket *ticket,
                           enum wr_redis_error error, const struct redisReply *reply);
/* Call wr_cluster_refresh, and send again what is paused, in |ms| at the latest. */
void wr_cluster_wake(struct wr_cluster *cluster, uint64_t ms);

/* ---- redis_cluster_health.c ------------------------------------------------------------------ */

/* As in struct wr_redis_router. */
void wr_cluster_note(struct wr_redis_store *store, struct wr_redis_node *node, const char *detail);
void wr_cluster_well(struct wr_redis_store *store, struct wr_redis_node *node, bool decided);
/* The map, or who is up, has changed: say how the cluster stands. */
void wr_cluster_tell(struct wr_cluster *cluster);
/* Ask the nodes that are not known to be well. */
void wr_cluster_check(struct wr_cluster *cluster, int64_t now_ns);

#endif
