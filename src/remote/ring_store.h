/* ring_store.h - what the files of the ring share. Calls go through their life as those of Redis
 * (redis_store.h); what is here is who the nodes are, what this one owns, and its own listener.
 *
 *   ring.c          opening, and the ring as a router: which node a charge goes to
 *   ring_decide.c   a question decided here, whoever asked
 *   ring_peers.c    nodes: opened, closed, greeted, heard of, lost
 *   ring_members.c  which of them are in the ring
 *   ring_keys.c     what is counted here, for handing over
 *   ring_move.c     handing over
 *   ring_news.c     what is to be told of them
 *   ring_counts.c   what is counted of them
 *   ring_serve.c    the listener
 *   ring_commands.c what other nodes say on it */
#ifndef WR_REMOTE_RING_STORE_H
#define WR_REMOTE_RING_STORE_H

#include "base/siphash.h"
#include "engine/owner.h"
#include "remote/redis_store.h"
#include "remote/resolve.h"
#include "remote/ring.h"
#include "remote/ring_counts.h"
#include "remote/ring_keys.h"
#include "remote/ring_names.h"
#include "remote/ring_news.h"
#include "wire/resp.h"
#include "wire/ring.h"

#define WR_RING_PEERS_MAX 65             /* this node among them */
#define WR_RING_MISSES_MAX 3             /* beats of silence after which a node is dead */
#define WR_RING_DNS_NS (5 * WR_NS_PER_S) /* between two lookups of the nodes' name */
/* After which a node is ready, whoever is silent. Of a name: all others have looked it up by then,
 * and have handed over what is ours. */
#define WR_RING_JOIN_NS (5 * WR_NS_PER_S)
#define WR_RING_JOIN_NAMED_NS (3 * WR_RING_DNS_NS)
#define WR_RING_CONNS_MAX 1024 /* of one loop */
#define WR_RING_REDIRECTIONS_MAX 5

struct wr_ring;

enum wr_ring_standing {
    WR_RING_UNHEARD, /* of since this node started: as good as joining, until it is dead */
    WR_RING_ALIVE,
    WR_RING_DEAD,
};

/* A node as this loop sees it. */
struct wr_ring_peer {
    struct wr_ring *ring; /* NULL: a vacant place */
    char host[WR_REDIS_HOST_MAX];
    char id[WR_RING_ID_MAX + 1];
    uint16_t port;
    struct wr_sip sip;          /* after its id: of rendezvous hashing */
    struct wr_redis_node *node; /* NULL: this node itself */
    struct wr_ring_count *count;
    enum wr_ring_standing standing;
    enum wr_ring_status status;
    uint64_t incarnation;
    uint64_t synced; /* incarnation that was told that it has all we had of its keys */
    unsigned misses; /* beats of silence */
    int64_t woken_ns;
    bool denied;   /* it refuses us: not of our ring, or another password */
    bool missing;  /* it did not answer, and has said nothing since */
    bool heard;    /* since the last beat */
    bool asked;    /* a hello is under way */
    bool up;       /* said so to |count| */
    bool named;    /* dns: it is among the addresses */
    bool routed;   /* keys that it owns are asked for there */
    bool targeted; /* keys that it would own are on their way there */
};

struct wr_ring_conn;

struct wr_ring {
    struct wr_redis_store *store;
    struct wr_ring_keys *keys;
    struct wr_owner *owner;                       /* NULL: whose arena is not known yet */
    struct wr_ring_peer peers[WR_RING_PEERS_MAX]; /* the first is this node */
    /* Those that are routed, and targeted, one after the other: they are looked through for each
     * decision. */
    struct wr_ring_peer *routed[WR_RING_PEERS_MAX], *targeted[WR_RING_PEERS_MAX];
    unsigned routed_count, targeted_count;
    uint64_t generation; /* of the nodes that are targeted */
    int64_t changed_ns;  /* when that last changed */

    /* Tickets decided here, at the end of the turn. */
    struct wr_redis_ticket **here;
    size_t here_count, here_size;
    uv_idle_t idle;
    uv_check_t check;
    uv_timer_t retry; /* what was on its way is asked again */

    /* Handing over. */
    uv_timer_t mover;
    uint64_t moved;  /* generation that is handed over */
    uint64_t pass;   /* that is being handed over */
    bool incomplete; /* not all could be: once more at the next beat */
    size_t cursor;
    unsigned target;    /* whose keys are being looked for */
    bool moving;        /* this loop hands over, */
    bool putting;       /* and a PUT is under way: */
    unsigned tag_count; /* its tags, */
    unsigned key_count; /* and how many states they have */
    unsigned char tags[WR_RING_ITEMS_MAX][WR_TAG_BYTES];
    int64_t left_ns; /* when this loop saw that the process had left; 0: it has not */
    void (*left)(void *context);
    void *left_context;

    /* The listener. */
    uv_tcp_t listener;
    bool listening;
    struct wr_ring_conn *conns;
    unsigned conn_count;
    char *scratch; /* WR_RESP_INLINE_MAX */

    struct wr_resolve resolve; /* of dns */
    bool resolving;
    const char *nameless;   /* dns has never named anybody: why; NULL: it has, or there is none */
    uint64_t names_version; /* of its addresses, those that are peers; 0: none yet */
    int64_t resolved_ns;

    int64_t (*clock)(void *context); /* tests */
    void *clock_context;
};

static inline struct wr_ring *wr_ring_of(const struct wr_redis_store *store)
{
    return store->routing;
}

static inline struct wr_ring_peer *wr_ring_self(struct wr_ring *ring)
{
    return &ring->peers[0];
}

/* A callback of a handle of the ring's: the last one frees the store. */
void wr_ring_on_closed(uv_handle_t *handle);

/* ---- ring_members.c -------------------------------------------------------------------------- */

/* Whose |tag| is: whom to ask, or who is to have it. NULL: nobody is left. */
struct wr_ring_peer *wr_ring_route(struct wr_ring *ring, const unsigned char tag[WR_TAG_BYTES]);
struct wr_ring_peer *wr_ring_target(struct wr_ring *ring, const unsigned char tag[WR_TAG_BYTES]);
/* Take those for peers whom dns names, whichever loop has asked it. */
void wr_ring_learn(struct wr_ring *ring);
/* Are there nodes that we have not heard of, but are about to? */
bool wr_ring_is_meeting(const struct wr_ring *ring);
/* This process leaves, or has: nothing is its to count any more. */
bool wr_ring_is_leaving(const struct wr_ring *ring);
/* Something about a node has changed. */
void wr_ring_view(struct wr_ring *ring);
/* Are keys on their way anywhere, or could be? */
bool wr_ring_unsettled(const struct wr_ring *ring);
void wr_ring_members_beat(struct wr_ring *ring, int64_t now_ns);
/* Say what state the backend is in. */
void wr_ring_tell(struct wr_ring *ring);

/* ---- ring_peers.c ---------------------------------------------------------------------------- */

bool wr_ring_peers_start(struct wr_ring *ring);
void wr_ring_peers_beat(struct wr_ring *ring, int64_t now_ns);
void wr_ring_peers_stop(struct wr_ring *ring);
struct wr_ring_peer *wr_ring_peer_at(struct wr_ring *ring, const char *host, uint16_t port);
struct wr_ring_peer *wr_ring_peer_of(struct wr_ring *ring, const struct wr_redis_node *node);
/* Another node, by its name; NULL: there is none. */
struct wr_ring_peer *wr_ring_peer_named(struct wr_ring *ring, struct weir_slice id);
/* Tell it how we stand, and ask how it does. */
void wr_ring_greet(struct wr_ring_peer *peer);
/* It lives, as others or it itself say: if it is not being asked, ask it again, once a second. */
void wr_ring_wake(struct wr_ring_peer *peer);
/* The same to all. */
void wr_ring_announce(struct wr_ring *ring);
/* A node has told us how it stands. */
void wr_ring_heard(struct wr_ring *ring, const struct wr_ring_hello *hello);
size_t wr_ring_hello(const struct wr_ring *ring, char *out, size_t size);
/* Write a command of one binary argument. Returns its length, 0: it does not fit. */
size_t wr_ring_command(char *out, size_t size, const char *name, const char *bytes, size_t len);

/* ---- ring_decide.c --------------------------------------------------------------------------- */

struct wr_ring_question {
    enum wr_ring_op op;
    bool regardless;
    unsigned nodes, count;
    uint32_t shadow;
    struct wr_remote_charge charge[WEIR_LIMITS_MAX];
    /* Answered: */
    bool passed;
    struct wr_ring_peer *elsewhere; /* MOVED: whose it is */
};

enum wr_ring_result {
    WR_RING_DECIDED,
    WR_RING_AGAIN, /* some of its keys are on their way: ask again in a moment */
    WR_RING_MOVED,
    WR_RING_UNABLE, /* no arena yet */
};

enum wr_ring_result wr_ring_decide(struct wr_ring *ring, struct wr_ring_question *question);
int64_t wr_ring_now(const struct wr_ring *ring);
/* Tickets: the router's part. */
bool wr_ring_here(struct wr_redis_store *store, struct wr_redis_ticket *ticket);
size_t wr_ring_encode(struct wr_redis_store *store, struct wr_redis_ticket *ticket);
enum wr_script_result wr_ring_decode(struct wr_redis_ticket *ticket, const struct redisReply *reply,
                                     bool *passed);
void wr_ring_on_check(uv_check_t *check);
void wr_ring_on_retry(uv_timer_t *timer);
bool wr_ring_redirected(struct wr_redis_store *store, struct wr_redis_ticket *ticket,
                        enum wr_redis_error error, const struct redisReply *reply);

/* ---- ring_move.c ----------------------------------------------------------------------------- */

/* Hand over what is not ours any more, if that is not under way. */
void wr_ring_move(struct wr_ring *ring);
void wr_ring_on_move(uv_timer_t *timer);
/* The process has left the ring: whoever waits for that hears it. */
void wr_ring_check_left(struct wr_ring *ring);

/* ---- ring_commands.c ------------------------------------------------------------------------- */

/* Who is at the other end of a connection, and where answers to him go. */
struct wr_ring_caller {
    struct wr_ring *ring;
    bool known; /* has said the password, or need not */
    struct wr_resp_out out;
};

/* Run one command: args[0..argc), argc at least 1. */
void wr_ring_run(struct wr_ring_caller *caller, const struct weir_slice *args, unsigned argc);

/* ---- ring_serve.c ---------------------------------------------------------------------------- */

/* Returns NULL, or why it cannot listen. */
const char *wr_ring_listen(struct wr_ring *ring);
void wr_ring_serve_beat(struct wr_ring *ring, int64_t now_ns);
void wr_ring_serve_stop(struct wr_ring *ring);

#endif
