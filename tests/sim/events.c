/* events.c - what happens when: a binary heap by moment, and by turn where moments are equal. */
#include "sim.h"

#include <stdlib.h>

static bool sooner(const struct event *a, const struct event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->turn < b->turn;
}

static void swap(struct event *a, struct event *b)
{
    struct event held = *a;

    *a = *b;
    *b = held;
}

void events_add(struct events *events, int64_t at_ns, enum happening what, unsigned node,
                struct call *call)
{
    size_t i = events->count++;

    if (i == events->size) {
        events->size = events->size == 0 ? 1024 : 2 * events->size;
        events->heap = realloc(events->heap, events->size * sizeof *events->heap);
        if (events->heap == NULL)
            abort();
    }
    if (call != NULL)
        call->references++;
    events->heap[i] = (struct event){at_ns, events->turn++, what, node, call};
    while (i > 0 && sooner(&events->heap[i], &events->heap[(i - 1) / 2])) {
        swap(&events->heap[i], &events->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
}

struct event events_next(struct events *events)
{
    struct event next = events->heap[0];
    size_t i = 0;

    events->heap[0] = events->heap[--events->count];
    for (;;) {
        size_t least = i, left = 2 * i + 1;
        if (left < events->count && sooner(&events->heap[left], &events->heap[least]))
            least = left;
        if (left + 1 < events->count && sooner(&events->heap[left + 1], &events->heap[least]))
            least = left + 1;
        if (least == i)
            return next;
        swap(&events->heap[i], &events->heap[least]);
        i = least;
    }
}
