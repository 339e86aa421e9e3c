/* queue.h - deadlines of many things, each waiting for one of a few fixed times: a queue for each
 * time, ordered by itself, as what starts to wait last is due last. Starting and stopping cost a
 * few stores; the earliest deadline is at the head of one of the queues. Time in ms is passed in.
 */
#ifndef WR_SERVE_QUEUE_H
#define WR_SERVE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WR_QUEUES 5
#define WR_NO_DEADLINE UINT64_MAX

struct wr_queued {
    struct wr_queued *previous, *next;
    uint64_t due_ms;
    int8_t queue; /* -1: waits for nothing. All zeros must be prepared by wr_queued_init. */
};

struct wr_queues {
    struct {
        struct wr_queued *first, *last;
        uint64_t after_ms; /* 0: never due */
    } queue[WR_QUEUES];
};

void wr_queued_init(struct wr_queued *item);

/* Wait anew in |queue|, from |now_ms| on; it leaves the queue it is in. */
void wr_queue_wait(struct wr_queues *queues, struct wr_queued *item, unsigned queue,
                   uint64_t now_ms);
void wr_queue_leave(struct wr_queues *queues, struct wr_queued *item);

/* When the first deadline is due; WR_NO_DEADLINE: there is none. */
uint64_t wr_queue_next(const struct wr_queues *queues);

/* One that is due at |now_ms|, out of its queue; |*queue| says which. NULL: none is. */
struct wr_queued *wr_queue_due(struct wr_queues *queues, uint64_t now_ms, unsigned *queue);

#endif
