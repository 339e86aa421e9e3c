/* queue.c - deadlines in queues. See queue.h.
 *
 * Rejected: a timer of libuv for each connection: a heap that 50 000 connections rearm at every
 * request, where two stores do. */
#include "serve/queue.h"

void wr_queued_init(struct wr_queued *item)
{
    *item = (struct wr_queued){.queue = -1};
}

void wr_queue_leave(struct wr_queues *queues, struct wr_queued *item)
{
    if (item->queue < 0)
        return;
    if (item->previous != NULL)
        item->previous->next = item->next;
    else
        queues->queue[item->queue].first = item->next;
    if (item->next != NULL)
        item->next->previous = item->previous;
    else
        queues->queue[item->queue].last = item->previous;
    wr_queued_init(item);
}

void wr_queue_wait(struct wr_queues *queues, struct wr_queued *item, unsigned queue,
                   uint64_t now_ms)
{
    wr_queue_leave(queues, item);
    if (queues->queue[queue].after_ms == 0)
        return;
    item->queue = (int8_t)queue;
    item->due_ms = now_ms + queues->queue[queue].after_ms;
    item->previous = queues->queue[queue].last;
    if (item->previous != NULL)
        item->previous->next = item;
    else
        queues->queue[queue].first = item;
    queues->queue[queue].last = item;
}

uint64_t wr_queue_next(const struct wr_queues *queues)
{
    uint64_t next = WR_NO_DEADLINE;

    for (unsigned i = 0; i < WR_QUEUES; i++)
        if (queues->queue[i].first != NULL && queues->queue[i].first->due_ms < next)
            next = queues->queue[i].first->due_ms;
    return next;
}

struct wr_queued *wr_queue_due(struct wr_queues *queues, uint64_t now_ms, unsigned *queue)
{
    for (unsigned i = 0; i < WR_QUEUES; i++) {
        struct wr_queued *first = queues->queue[i].first;
        if (first == NULL || first->due_ms > now_ms)
            continue;
        *queue = i;
        wr_queue_leave(queues, first);
        return first;
    }
    return NULL;
}
