/* broker_parts.h - what broker.c and question.c share. Internal. */
#ifndef WR_SERVE_BROKER_PARTS_H
#define WR_SERVE_BROKER_PARTS_H

#include "serve/broker.h"
#include "serve/leases.h"
#include "serve/store_link.h"

struct wr_broker {
    struct wr_loop *loop;
    struct wr_store_link *link; /* NULL: the policy shares nothing, or it cannot be opened */
    struct wr_store_link *old;  /* of policies before, until their questions are gone */
    struct wr_leases *leases;
    struct wr_question *spare;
    struct wr_asks *ready;
    unsigned asking;    /* at backends, */
    unsigned abandoned; /* of whom nobody waits for so many */
    bool draining, closing;
    uint64_t drained_ns;
    uv_idle_t idle; /* active: something is to be done in this turn's check */
    uv_check_t check;
    uv_timer_t beat;
    uv_timer_t due; /* what is left of leases that end is given back */
    int64_t due_ns; /* by the arena's clock; while it is active */
};

/* Have the loop's check look at what is ready, and at links that nobody points to any more. */
void wr_broker_wake(struct wr_broker *broker);

/* Where leases of the loop's policy are given back. */
struct wr_lease_giving wr_broker_giving(struct wr_broker *broker);

/* Have the timer ring when the next lease ends. */
void wr_broker_watch_leases(struct wr_broker *broker);

/* Give back what |answer| took here, and at |link| (NULL: there it stays). */
void wr_answer_give_back(struct wr_store_link *link, struct wr_handle *handle,
                         struct weir_answer *answer, int64_t now);

/* Only this thread writes, any may read. */
static inline void wr_broker_count(uint64_t *counter, uint64_t n)
{
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

#endif
