/* redis_store.h - what the three Redis backends share: calls under way (tickets), servers (nodes),
 * and a router that says which server a charge lies on. Internal to src/remote/redis*.c. */
#ifndef WR_REMOTE_REDIS_STORE_H
#define WR_REMOTE_REDIS_STORE_H

#include <uv.h>

#include "engine/backend.h"
#include "policy/policy.h"
#include "remote/breaker.h"
#include "remote/redis_link.h"
#include "remote/script.h"

#define WR_REDIS_CALLS_MAX 4096 /* under way at once, those whose caller gave up included */
#define WR_REDIS_NODES_MAX 128  /* primaries of a cluster */
#define WR_REDIS_REDIRECTIONS_MAX 5
#define WR_REDIS_SCRIPT_TRIES 3
#define WR_REDIS_RETIRED_MAX 8               /* of a node */
#define WR_REDIS_ORDERS_MAX 3072             /* of the calls: refunds and the like */
#define WR_REDIS_ORDER_NS (10 * WR_NS_PER_S) /* how long one waits for its server */

struct wr_redis_store;
struct wr_redis_node;

enum wr_redis_op {
    WR_REDIS_TAKE,
    WR_REDIS_JUDGE, /* what it would say; takes nothing: another slot refused */
    WR_REDIS_REFUND,
    WR_REDIS_FORCE,
    WR_REDIS_DROP,
    WR_REDIS_MEMBERS, /* be counted, and count: redis_members.c */
};

/* A charge that outlives its call. */
struct wr_redis_kept {
    struct wr_remote_charge charge;
    struct wr_limit limit;
    char name[WR_NAME_MAX + 1];
};

/* A call under way, or an order that nobody waits for. One command of it at a time is at a server.
 */
struct wr_redis_ticket {
    struct wr_redis_ticket *previous, *next; /* in |queue|, in the order of due_ns; or next free */
    struct wr_redis_queue *queue;            /* NULL: in none */
    struct wr_redis_store *store;
    struct wr_redis_node *node;  /* on whose connection it is or waits; NULL: nobody knows yet */
    struct wr_remote_call *call; /* NULL: nobody waits, or no longer */
    struct wr_redis_kept *kept;  /* then: count of them */
    int64_t due_ns;
    uint64_t sent_as; /* number of its command on its connection */
    uint32_t asked;   /* charges in the command under way: bits of call->charge or kept */
    uint32_t left;    /* charges not asked yet */
    uint32_t taken;   /* charges that earlier commands took */
    uint32_t shadow;  /* of kept: those that decide nothing */
    uint8_t op;       /* enum wr_redis_op */
    uint8_t count;    /* of kept */
    uint8_t redirections, script_tries, pauses;
    bool sent;    /* its command is under way */
    bool late;    /* and its caller has been told that it is gone */
    bool asking;  /* ASK brought it here */
    bool paused;  /* TRYAGAIN: it is sent again in a moment */
    bool singly;  /* its charges are asked one by one */
    bool nowhere; /* nobody has what it asks for */
};

/* Tickets in the order in which they are due. */
struct wr_redis_queue {
    struct wr_redis_ticket *first, *last;
};

/* What differs between one server, a primary found by sentinels, and a cluster. */
struct wr_redis_router {
    const char *name;
    bool (*start)(struct wr_redis_store *store);
    /* The charges of |ticket| among |left| that can be in one command; not 0 where |left| is not.
     * NULL: all of them. */
    uint32_t (*group)(struct wr_redis_store *store, const struct wr_redis_ticket *ticket,
                      uint32_t left);
    /* Whom to ask for what ticket->asked names. NULL: it is being found out; store->unroutable: and
     * that fails, so nobody should wait for it; ticket->nowhere: it has been, and there is nobody.
     */
    struct wr_redis_node *(*route)(struct wr_redis_store *store, struct wr_redis_ticket *ticket);
    /* An answer that is none, to a ticket whose caller waits. True: it is taken care of, the ticket
     * asks again. */
    bool (*redirected)(struct wr_redis_store *store, struct wr_redis_ticket *ticket,
                       enum wr_redis_error error, const struct redisReply *reply);
    /* Where the store is not as its one server is: |node| is in trouble, for |detail|; and it is
     * well: it is connected, or it has |decided|. */
    void (*note)(struct wr_redis_store *store, struct wr_redis_node *node, const char *detail);
    void (*well)(struct wr_redis_store *store, struct wr_redis_node *node, bool decided);
    void (*up)(struct wr_redis_store *store, struct wr_redis_node *node);
    void (*lost)(struct wr_redis_store *store, struct wr_redis_node *node);
    void (*beat)(struct wr_redis_store *store, int64_t now_ns);
    void (*stop)(struct wr_redis_store *store);    /* also when start failed */
    void (*dispose)(struct wr_redis_store *store); /* its memory; NULL: it has none */
    /* A store that is no Redis: its own commands and answers, as wr_redis_encode and decode. NULL:
     * the script's. */
    size_t (*encode)(struct wr_redis_store *store, struct wr_redis_ticket *ticket);
    enum wr_script_result (*decode)(struct wr_redis_ticket *ticket, const struct redisReply *reply,
                                    bool *passed);
    /* True: what |ticket| asks is this process's own to decide, and will be (wr_redis_decided), in
     * this turn or the next; it counts as sent. */
    bool (*here)(struct wr_redis_store *store, struct wr_redis_ticket *ticket);
};

extern const struct wr_redis_router wr_redis_single;
extern const struct wr_redis_router wr_redis_sentinel;
extern const struct wr_redis_router wr_redis_cluster;
extern const struct wr_redis_router wr_ring_router;

/* By what it ends: redis_cluster_health.c. */
enum wr_redis_ill {
    WR_REDIS_WELL,
    WR_REDIS_LOST, /* not connected */
    WR_REDIS_DOWN, /* it said CLUSTERDOWN, */
    WR_REDIS_SAID, /* or another error */
};

/* A connection that stalled, kept for late answers, so that what they took be given back. */
struct wr_redis_retired {
    struct wr_redis_link *link; /* NULL: none */
    int64_t since_ns;
};

/* One server. */
struct wr_redis_node {
    struct wr_redis_store *store;
    char host[WR_REDIS_HOST_MAX];
    struct wr_redis_address address; /* host: the one above, or NULL */
    struct wr_redis_link *link;      /* NULL: waits for its breaker, or is closed */
    struct wr_redis_retired retired[WR_REDIS_RETIRED_MAX];
    int64_t up_ns; /* since when */
    /* Cluster: */
    bool mapped;                    /* it has slots; else it goes when it is not */
    int64_t used_ns;                /* needed for a while */
    enum wr_redis_ill ill;          /* what ails it, */
    int64_t ill_ns;                 /* when that was heard last, */
    char trouble[WR_REDIS_WHY_MAX]; /* and in words */
    bool checked;                   /* known to be well since the cluster last was not */
    int64_t info_ns;                /* asked how it is; 0: not */

    uint64_t loaded_as; /* number of the last SCRIPT LOAD on |link| */
    struct wr_breaker breaker;
    uv_timer_t pause;
};

struct wr_redis_store {
    uv_loop_t *loop;
    const struct wr_redis_router *router;
    void *routing; /* the router's */
    /* Copies of what the policy says. */
    struct wr_policy_address *addresses;
    size_t address_count;
    struct wr_policy_address *ring; /* self and dns */
    char *prefix, *master, *sentinel_password;
    char *user, *password, *password_file;
    struct wr_redis_login login, sentinel_login;
    struct wr_redis_greeting greeting[3]; /* SCRIPT LOAD, a trial, and ROLE with sentinels */
    size_t greeting_count;
    int64_t deadline_ns;

    uv_timer_t timer; /* the first ticket is due */
    uv_timer_t beat;
    uv_idle_t idle; /* active: tickets may be due, see expire */
    uv_check_t check;
    unsigned handles; /* that libuv still has: these and the nodes' */
    bool closing, unroutable;

    struct wr_redis_ticket *tickets, *free;
    size_t ticket_count;
    struct wr_redis_queue queue, failing; /* with a deadline; and being told that it is gone */
    struct wr_redis_queue orders;         /* that nobody waits for */
    unsigned order_count;
    struct wr_script_args args; /* a command is put together here, */
    char *scratch;              /* and encoded here */
    size_t scratch_size;
    uint64_t random;          /* seeds of breakers */
    uint64_t member[2];       /* who this process is among those that share the store */
    int64_t ahead_ns;         /* the store's clock before ours, as far as calendars must know */
    int64_t said_ns;          /* when a decision was refused last, by an error */
    int64_t counted_ns;       /* when members were counted last */
    int64_t first_counted_ns; /* and answered first; 0: not yet */
    unsigned nodes_said;      /* by the policy */
    bool leaving;             /* no longer among the members */
    const struct wr_redis_ticket *parting; /* takes us out of them; then: */
    void (*left)(void *context);
    void *left_context;
    struct wr_backend_state state;
};

int64_t wr_redis_now_ns(void);

/* ---- redis_ticket.c ------------------------------------------------------------------------ */

bool wr_redis_tickets_init(struct wr_redis_store *store);
void wr_redis_tickets_free(struct wr_redis_store *store);
/* NULL: too many under way. */
struct wr_redis_ticket *wr_redis_ticket_new(struct wr_redis_store *store, enum wr_redis_op op);
void wr_redis_ticket_free(struct wr_redis_ticket *ticket);
void wr_redis_queue_push(struct wr_redis_queue *queue, struct wr_redis_ticket *ticket);
void wr_redis_queue_leave(struct wr_redis_ticket *ticket);
/* The ticket's i-th charge, whoever has it. */
const struct wr_remote_charge *wr_redis_ticket_charge(const struct wr_redis_ticket *ticket,
                                                      unsigned i);
/* Of the charges |these|, which can be asked together: how early they should be. Most of what
 * decides first, as it refuses most likely; what cannot be given back behind that; then what
 * decides nothing. */
int wr_redis_ticket_weight(const struct wr_redis_ticket *ticket, uint32_t these);
/* Keep copies of the charges |which|, of which |shadow| decide nothing, instead of a call's, as
 * charges 0..count. False: no memory.
 */
bool wr_redis_ticket_keep(struct wr_redis_ticket *ticket, const struct wr_remote_charge *charges,
                          uint32_t which, uint32_t shadow);

/* ---- redis_command.c: between tickets and the script ---------------------------------------- */

/* Encode the command of ticket->asked into store->scratch. Returns its length; 0: no memory. */
size_t wr_redis_encode(struct wr_redis_store *store, struct wr_redis_ticket *ticket);
/* Read the answer into the charges of ticket->asked. |*passed|: those that allow were taken. */
enum wr_script_result wr_redis_decode(struct wr_redis_ticket *ticket,
                                      const struct redisReply *reply, bool *passed);
bool wr_redis_reserve_scratch(struct wr_redis_store *store, size_t size);
/* SCRIPT LOAD, as bytes to be freed with redisFreeCommand. False: no memory. */
bool wr_redis_load_command(struct wr_redis_greeting *out);
/* The same, of a command that is answered only where decisions would be, and changes nothing. */
bool wr_redis_trial_command(const struct wr_redis_store *store, bool cluster,
                            struct wr_redis_greeting *out);
/* The slot of the key of a charge. */
uint16_t wr_redis_charge_slot(const struct wr_redis_store *store,
                              const struct wr_remote_charge *charge);

/* ---- redis_flow.c: tickets through their life ------------------------------------------------ */

/* Returns WR_TROUBLE_NONE: the ticket is on its way, or waits for a connection; else why it cannot
 * be. */
enum wr_remote_trouble wr_redis_dispatch(struct wr_redis_ticket *ticket);
/* Dispatch those of |queue| that paused. One that cannot be is ended by its deadline. */
void wr_redis_send_paused(struct wr_redis_queue *queue);
/* Ask for the next group. */
enum wr_remote_trouble wr_redis_advance(struct wr_redis_ticket *ticket);
/* The caller hears how it ended, if one waits; what was taken of a call that is not done is given
 * back; frees the ticket unless its command is under way. */
void wr_redis_finish(struct wr_redis_ticket *ticket, enum wr_remote_result result,
                     enum wr_remote_trouble trouble);
/* Give back what |which| of |charges| took, a command for each group. */
void wr_redis_give_back(struct wr_redis_store *store, const struct wr_remote_charge *charges,
                        uint32_t which);
/* Those of |which| that took something. */
uint32_t wr_redis_charged(const struct wr_remote_charge *charges, uint32_t which);
/* Give back what earlier groups of the ticket's call took. */
void wr_redis_take_back(struct wr_redis_ticket *ticket);
/* Begin a ticket that nobody waits for: it goes out when its server can be asked, or is forgotten
 * after WR_REDIS_ORDER_NS. */
void wr_redis_order(struct wr_redis_ticket *ticket);
/* Queue it, and see that it is looked at when due. */
void wr_redis_wait(struct wr_redis_ticket *ticket);
void wr_redis_expire(struct wr_redis_store *store);
/* Forget orders that waited for too long. */
void wr_redis_orders_beat(struct wr_redis_store *store, int64_t now_ns);
/* Send what waits for |node|, or for anybody. */
void wr_redis_resume(struct wr_redis_store *store, struct wr_redis_node *node);
/* End what waits for |node|; NULL: for anybody, or nobody yet. */
void wr_redis_abandon(struct wr_redis_store *store, struct wr_redis_node *node,
                      enum wr_remote_trouble trouble);
void wr_redis_abandon_all(struct wr_redis_store *store);
/* What waits for |node| is to be routed anew. */
void wr_redis_reroute(struct wr_redis_store *store, const struct wr_redis_node *node);

/* ---- redis_state.c --------------------------------------------------------------------------- */

/* |node| is in trouble. */
void wr_redis_note(struct wr_redis_store *store, struct wr_redis_node *node, const char *detail);
/* The same, as it answered by |error| what it should decide. */
void wr_redis_refused(struct wr_redis_store *store, struct wr_redis_node *node, const char *error);
/* It is well: it is connected, or it has |decided|. */
void wr_redis_well(struct wr_redis_store *store, struct wr_redis_node *node, bool decided);
/* The store stands like this, from now on; |node|: whom |detail| is about; NULL: nobody, or all.
 * |detail| NULL: it is well. */
void wr_redis_say(struct wr_redis_store *store, const struct wr_redis_node *node,
                  const char *detail);

/* ---- redis_answer.c -------------------------------------------------------------------------- */

/* What came back for the ticket that is |context|. */
void wr_redis_on_reply(void *context, struct wr_redis_link *link, const struct redisReply *reply);
/* The charges of |ticket->asked| have been answered. |passed|: those that allow were taken. */
void wr_redis_decided(struct wr_redis_ticket *ticket, bool passed);

/* ---- redis_node.c --------------------------------------------------------------------------- */

/* Begin to connect. NULL: no memory. */
struct wr_redis_node *wr_redis_node_open(struct wr_redis_store *store,
                                         const struct wr_redis_address *address);
/* Its tickets end by NULL; frees it in later turns. */
void wr_redis_node_close(struct wr_redis_node *node);
/* Point it elsewhere: the connection is closed, another opened. */
void wr_redis_node_move(struct wr_redis_node *node, const struct wr_redis_address *address);
/* How long until it is tried again; 0: not known, as of NULL, or it is not left alone. */
int64_t wr_redis_retry_ns(const struct wr_redis_node *node);
/* A command was not answered in time. */
void wr_redis_node_failed(struct wr_redis_node *node, int64_t now_ns);
/* Its connection is good for nothing: connect anew. */
void wr_redis_node_drop(struct wr_redis_node *node, enum wr_remote_trouble trouble,
                        const char *why);

/* ---- redis_retired.c ------------------------------------------------------------------------ */

/* |link| is no longer node->link. */
void wr_redis_retire(struct wr_redis_node *node, struct wr_redis_link *link, int64_t now_ns);
void wr_redis_retired_beat(struct wr_redis_node *node, int64_t now_ns);
void wr_redis_retired_close(struct wr_redis_node *node);

/* ---- redis_members.c ------------------------------------------------------------------------- */

void wr_redis_members_beat(struct wr_redis_store *store, int64_t now_ns);
size_t wr_redis_members_encode(struct wr_redis_store *store);
void wr_redis_members_answer(struct wr_redis_store *store, const struct redisReply *reply);
/* Be counted no longer, and say so to the others. |left| as in struct wr_backend_ops. */
void wr_redis_members_leave(struct wr_redis_store *store, void (*left)(void *context),
                            void *context);
/* |ticket| ends: perhaps it is what |left| waits for. */
void wr_redis_members_ended(struct wr_redis_store *store, const struct wr_redis_ticket *ticket);
uint16_t wr_redis_members_slot(const struct wr_redis_store *store);

/* A handle of the store or of a node is closed: the last one frees the store. */
void wr_redis_store_release(struct wr_redis_store *store);

#endif
