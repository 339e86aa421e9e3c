/* sim.h - a fleet of nodes and their store on one virtual clock, from one seed.
 *
 * Each node is a real engine over a real arena with a real policy and the real sizes of leases; the
 * store is the one in memory. Between them is a network that delays, loses and cuts off; nodes are
 * killed, started again with their arena or without, paused in the middle of a decision, and read
 * clocks that are wrong; the store stops, and comes back with what it knew or empty.
 *
 *     setup.c    what a seed stands for: policy, fleet, network, callers
 *     events.c   what happens when: a heap
 *     meter.c    how much may pass: the obvious model of each algorithm
 *     ledger.c   what a node was granted, and until when
 *     request.c  a request, and how it begins
 *     counter.c  what reaches the store
 *     finish.c   how a request goes on and ends
 *     leases.c   what is left of leases, given back as they end
 *     faults.c   what goes wrong, and what is restored
 *     sim.c      the run, and what must hold at its end
 *
 * Nothing reads a clock, and what the product draws at random comes from the seed too (getrandom
 * is sim.c's), so that a seed replays exactly. */
#ifndef TEST_SIM_SIM_H
#define TEST_SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/bound.h"
#include "engine/shared.h"
#include "ledger.h"
#include "meter.h"
#include "remote/lease_book.h"
#include "store_in_memory.h"

#define S WR_NS_PER_S
#define MS WR_NS_PER_MS
#define T0 (INT64_C(1767225600) * S)

#define NODES_MAX 5
#define LOOPS_MAX 2
#define KEYS 42
#define COST_MAX 10 /* of a request, but for a few that cost as much as a limit */
#define PLANS 2

/* Limits, in the order of the policy; those from MIX on are met by one request together. */
enum {
    FIXED,
    SLIDING,
    BUCKET,
    LEAKY,
    LOG,
    PLACES,
    COUNTED, /* a fixed window that counts refused requests too */
    MIX,
    MIX_FIXED = MIX,
    MIX_BUCKET,
    MIX_SLIDING,
    MIX_SHADOW, /* counts, and decides nothing */
    MIX_LOCAL,
    LIMITS
};

/* What is done wrong on purpose, to see that it is noticed. */
enum broken {
    BROKEN_NOTHING,
    BROKEN_LATE,     /* a lease is spent for twice its time */
    BROKEN_WINDOW,   /* a lease outlives its window */
    BROKEN_ANSWERED, /* the time of a lease begins when the answer comes */
    BROKEN_WHOLE,    /* the store keeps nothing back for leases */
    BROKEN_RESERVED, /* nor when it is asked to reserve */
    BROKEN_DOUBLE,   /* what is given back is given back twice */
    BROKEN_KEPT,     /* a lease that is given back is spent all the same */
    BROKEN_TWICE,    /* an answer that comes twice grants twice */
    BROKEN_LOST,     /* the store grants what it does not count */
    BROKEN_HELD,     /* what a request held when it is refused is not given back */
    BROKEN_DENIED,   /* the store does not count what it refuses */
    BROKEN_PLAN,     /* the store counts by another plan */
    BROKEN_SHADOW,   /* a limit in shadow mode decides at the store */
    BROKEN_REFUSED,  /* who is refused takes a lease with him */
    BROKEN_REST,     /* what a lease still holds when the next one comes is lost */
    BROKEN_BOOK,     /* what is left as a lease ends is given back again: the book forgets it did */
    BROKENS
};
extern const char *const broken_names[BROKENS];

struct rng {
    uint64_t state;
};
uint64_t rng_next(struct rng *rng);
int64_t rng_between(struct rng *rng, int64_t low, int64_t high); /* both included */
static inline bool rng_chance(struct rng *rng, unsigned per_mille)
{
    return rng_next(rng) % 1000 < per_mille;
}

/* ---- events ------------------------------------------------------------------------------ */

struct sim;
struct call;

enum happening {
    ARRIVES,  /* a request, and the one after it is planned */
    ASKED,    /* a call is at the store */
    ANSWERED, /* its answer is at the node */
    TIMED_OUT,
    RESUMES, /* whoever was paused with a call in hand goes on */
    ENDS,    /* an admitted request: settle or release */
    ADJUSTS, /* a refund or a force is at the store */
    FAULT,
    STARTS, /* a node, anew */
    STORE_STARTS,
    HEALS, /* the links of a node */
};

struct event {
    int64_t at_ns;
    uint64_t turn; /* of those at one moment, the one planned first */
    enum happening what;
    unsigned node;
    struct call *call;
};

struct events {
    struct event *heap;
    size_t count, size;
    uint64_t turn;
};
void events_add(struct events *events, int64_t at_ns, enum happening what, unsigned node,
                struct call *call);
struct event events_next(struct events *events);

/* ---- what a seed stands for --------------------------------------------------------------- */

struct setup {
    unsigned nodes, loops;
    int64_t gap_ns;                /* between requests, on average */
    int64_t delay_ns, deadline_ns; /* of a message, usually; of a call */
    unsigned slow, lost, paused;   /* per mille of messages, messages, calls */
    int64_t fault_ns;              /* between faults, on average */
    bool leased[LIMITS];
    char policy[4096];
};
void setup_draw(struct setup *setup, struct rng *rng);

/* ---- the fleet ----------------------------------------------------------------------------- */

/* What the store took, so that it can be given back. */
struct taken {
    struct wr_remote_charge charge;
    unsigned limit, key, epoch;
    int64_t at_ns;
    uint64_t number;
};

struct node {
    bool up;
    unsigned life; /* counts up: what was asked in another is nobody's */
    struct wr_arena *arena;
    struct wr_engine *engine;
    int64_t offset_ns, drift_ppm; /* of its clock */
    bool deaf, mute;              /* answers do not get in, questions not out */
    struct wr_lease_table *sizes[LOOPS_MAX];
    struct wr_lease_book *book[LOOPS_MAX];
    struct taken booked[LOOPS_MAX][LIMITS][KEYS]; /* what is in it */
    uint64_t *flights[LOOPS_MAX];                 /* keys for which a lease is being asked */
    struct ledger ledger[LIMITS][KEYS];           /* what it was granted */
    struct taken last[LIMITS][KEYS];              /* the last grants, to give back by */
    struct meter meter[LIMITS][KEYS];             /* of what it decided alone */
};
#define FLIGHTS 8

/* A request that is more than a moment, and all that is on its way for it. */
struct call {
    unsigned references; /* events that name it */
    unsigned node, loop, life;
    unsigned path, key;
    uint64_t number;
    bool finished; /* the caller has his answer */
    bool heard;    /* from the store */
    bool reserves, peeks, paused;
    bool decided; /* the store has */
    bool passed;  /* and let it pass */
    unsigned epoch;
    int64_t decided_ns;
    struct wr_pending pending;
    struct wr_remote_call wire; /* as the store has it */
    struct taken taken;         /* ADJUSTS: what is changed, */
    int64_t units;              /* by how much: forced (> 0) or given back (< 0) */
    struct spent spent[LIMITS]; /* from leases, by limit */
    struct weir_answer answer;
    struct call *next_spare;
};

/* A key that everybody asks for, and then nobody: leases are at their worst. */
struct pulse {
    bool on;
    unsigned path, key;
    int64_t turns_ns;
};

struct totals {
    uint64_t decisions, admitted, refused, asked, gone, granted, spent, returned, ended, faults;
};

struct sim {
    uint64_t seed, wanted; /* decisions */
    enum broken broken;
    bool verbose;
    struct rng rng;
    struct setup setup;
    int64_t now_ns; /* the store's clock, and the truth */
    struct events events;
    struct wr_policy *policy;
    const struct wr_policy_limit *limit[LIMITS];
    struct wr_limit forgiving[PLANS];    /* COUNTED, counting what passes alone */
    struct wr_limit part[LIMITS][PLANS]; /* of one node, with the store gone */
    struct node node[NODES_MAX];
    struct memory_store *store;
    bool store_up;
    unsigned epoch;                     /* counts up each time that the store forgets */
    struct meter passed[LIMITS][KEYS];  /* what was admitted by the store's word */
    struct meter counted[LIMITS][KEYS]; /* what the store took, leases too */
    struct pulse pulse;
    /* The end: nothing goes wrong any more. */
    bool recovering;
    unsigned path;              /* that is asked, */
    int64_t from_ns, until_ns;  /* counted in between, */
    int64_t admitted;           /* this many; */
    struct memory_store *ideal; /* which is asked at once, and to which nothing ever happens, */
    int64_t ideally;            /* would have admitted this many */
    struct call *spare;
    uint64_t calls;
    struct totals totals;
    char failed[256]; /* "" : not */
};

void fail(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
int64_t node_now(const struct sim *sim, unsigned node);
const char *key_name(unsigned key);
/* Which plan a key has. */
static inline unsigned plan_of(unsigned key)
{
    return key % PLANS;
}
const struct wr_limit *limit_of(const struct sim *sim, unsigned limit, unsigned key);

/* leases.c */
/* |k| of |call| was granted as the lease |key|. */
void lease_book(struct sim *sim, const struct call *call, unsigned k, uint64_t key);
/* Give back what is left of the leases of |node| that end. */
void leases_due(struct sim *sim, unsigned node);

/* request.c */
unsigned call_limit(const struct call *call, unsigned k); /* that charge k is of */
void call_copy(struct wr_remote_call *to, const struct wr_remote_call *from);
bool call_orphaned(const struct sim *sim, const struct call *call); /* its node is not there */
bool answer_admits(const struct weir_answer *answer);
int64_t message_delay(struct sim *sim);
bool message_lost(struct sim *sim);
void flight_land(struct node *node, unsigned loop, uint64_t key);
void request_give_back(struct sim *sim, struct call *call, unsigned limit);
void request_pass_here(struct sim *sim, struct call *call, unsigned i);
void request_check_local(struct sim *sim, const struct call *call);
void request_count(struct sim *sim, const struct call *call, const struct weir_answer *answer);
struct call *call_new(struct sim *sim, unsigned node);
void call_drop(struct sim *sim, struct call *call); /* one reference */
/* What lies in the leases of its key, as the node has them. */
void request_lease_units(struct sim *sim, const struct call *call, int64_t units[LIMITS]);
void request_arrives(struct sim *sim);

/* counter.c */
void request_asked(struct sim *sim, struct call *call);
/* Send the change of |taken| by |units| to the store. */
void adjust_send(struct sim *sim, unsigned node, const struct taken *taken, int64_t units);
void adjust_arrives(struct sim *sim, struct call *call);

/* finish.c */
struct taken call_taken(const struct call *call, unsigned k);
void request_finish(struct sim *sim, struct call *call, enum wr_remote_result result);
void request_answered(struct sim *sim, struct call *call);
void request_timed_out(struct sim *sim, struct call *call);
void request_ends(struct sim *sim, struct call *call);

/* faults.c */
void node_start(struct sim *sim, unsigned node, bool new_arena);
void node_stop(struct sim *sim, unsigned node);
void fault_happens(struct sim *sim);
void faults_end(struct sim *sim);
void store_start(struct sim *sim);

#endif
