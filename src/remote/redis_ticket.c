/* redis_ticket.c - the calls under way: a fixed number of them, in the order in which they are due.
 *
 * All calls have the same deadline, so the order of arrival is the order of deadlines, and one
 * timer for the first is enough.
 *
 * Invariant: a ticket is in the list of free ones, or in one queue, or its command is under
 * way without a caller, and then it is in none. */
#include <stdlib.h>
#include <string.h>

#include "remote/redis_store.h"

#define WEIGHT_SPAN 1024 /* more than all charges of a call weigh */

bool wr_redis_tickets_init(struct wr_redis_store *store)
{
    store->tickets = calloc(WR_REDIS_CALLS_MAX, sizeof *store->tickets);
    return store->tickets != NULL;
}

void wr_redis_tickets_free(struct wr_redis_store *store)
{
    for (size_t i = 0; i < store->ticket_count; i++)
        free(store->tickets[i].kept);
    free(store->tickets);
    store->tickets = store->free = NULL;
}

struct wr_redis_ticket *wr_redis_ticket_new(struct wr_redis_store *store, enum wr_redis_op op)
{
    struct wr_redis_ticket *ticket = store->free;

    if (ticket != NULL)
        store->free = ticket->next;
    else if (store->ticket_count < WR_REDIS_CALLS_MAX)
        ticket = &store->tickets[store->ticket_count++];
    else
        return NULL;
    *ticket = (struct wr_redis_ticket){.store = store, .op = (uint8_t)op};
    return ticket;
}

void wr_redis_ticket_free(struct wr_redis_ticket *ticket)
{
    free(ticket->kept);
    ticket->kept = NULL;
    ticket->call = NULL;
    ticket->next = ticket->store->free;
    ticket->store->free = ticket;
}

void wr_redis_queue_push(struct wr_redis_queue *queue, struct wr_redis_ticket *ticket)
{
    ticket->queue = queue;
    ticket->previous = queue->last;
    ticket->next = NULL;
    if (queue->last != NULL)
        queue->last->next = ticket;
    else
        queue->first = ticket;
    queue->last = ticket;
}

void wr_redis_queue_leave(struct wr_redis_ticket *ticket)
{
    struct wr_redis_queue *queue = ticket->queue;

    if (queue == NULL)
        return;
    ticket->queue = NULL;
    if (ticket->previous != NULL)
        ticket->previous->next = ticket->next;
    else
        queue->first = ticket->next;
    if (ticket->next != NULL)
        ticket->next->previous = ticket->previous;
    else
        queue->last = ticket->previous;
}

const struct wr_remote_charge *wr_redis_ticket_charge(const struct wr_redis_ticket *ticket,
                                                      unsigned i)
{
    return ticket->call != NULL ? &ticket->call->charge[i] : &ticket->kept[i].charge;
}

/* A leaky bucket gives back only what nothing was promised behind: refused by others, many requests
 * at once would fill it. Behind all others it is asked only by who will have it. */
int wr_redis_ticket_weight(const struct wr_redis_ticket *ticket, uint32_t these)
{
    uint32_t deciding = these & ~(ticket->call != NULL ? ticket->call->shadow : ticket->shadow);
    int weight =
        __builtin_popcount(deciding) * WEIR_LIMITS_MAX + __builtin_popcount(these & ~deciding);

    if (deciding == 0)
        return weight - 2 * WEIGHT_SPAN;
    for (uint32_t rest = deciding; rest != 0; rest &= rest - 1) {
        unsigned i = (unsigned)__builtin_ctz(rest);
        if (wr_redis_ticket_charge(ticket, i)->limit->algo == WR_LEAKY_BUCKET)
            return weight - WEIGHT_SPAN;
    }
    return weight;
}

bool wr_redis_ticket_keep(struct wr_redis_ticket *ticket, const struct wr_remote_charge *charges,
                          uint32_t which, uint32_t shadow)
{
    unsigned count = (unsigned)__builtin_popcount(which);
    struct wr_redis_kept *kept = calloc(count == 0 ? 1 : count, sizeof *kept);

    if (kept == NULL)
        return false;
    ticket->count = 0;
    ticket->shadow = 0;
    for (unsigned i = 0; i < WEIR_LIMITS_MAX; i++) {
        struct wr_redis_kept *into = &kept[ticket->count];
        if ((which >> i & 1) == 0)
            continue;
        ticket->shadow |= (shadow >> i & 1) << ticket->count;
        into->charge = charges[i];
        into->limit = *charges[i].limit;
        memcpy(into->name, charges[i].name, strnlen(charges[i].name, WR_NAME_MAX));
        into->charge.limit = &into->limit;
        into->charge.name = into->name;
        ticket->count++;
    }
    free(ticket->kept);
    ticket->kept = kept;
    ticket->call = NULL;
    return true;
}
