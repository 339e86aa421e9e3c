/* order.c - a stable sort by time over a stream that is nearly sorted.
 *
 * The problem. Servers log a request when it ends, or buffer per process, or are shuffled within a
 * minute by whoever anonymised the log; limits need the order of the times. A log does not fit into
 * memory.
 *
 * The idea. An item is given out when one that is |window| later has been seen, or when too much is
 * held back. Items that come in order (nearly all of most logs) are appended to a queue, the others
 * go to a heap; the next one is the smaller of the queue's front and the heap's top, by (time,
 * arrival). So a sorted log costs no comparison tree at all. Bytes live in blocks that are freed,
 * or used again, when all of their items are done.
 *
 * Invariants:
 *   1. Given out in order of (time, arrival) but for items marked late, whose time is before that
 * of one given out already.
 *   2. The queue is sorted by (time, arrival).
 *   3. At most WR_ORDER_ITEMS_MAX items and about WR_ORDER_BYTES_MAX bytes are held.
 *
 * One line dated in the far future does no harm: it waits in the queue until the end, and what
 * follows goes through the heap, given out at once (the window is over).
 *
 * Rejected: a heap for all (20 steps and a cache miss each for a log of a busy minute); reading the
 * file twice (standard input). */
#include "cli/order.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)256 << 10)

struct wr_block {
    struct wr_block *next; /* of free ones */
    size_t size, used;
    size_t live; /* items not done */
};

struct wr_order {
    int64_t window_ns;
    size_t field_count;
    int64_t latest_ns;  /* the latest time seen */
    int64_t reached_ns; /* the latest time given out */
    uint64_t sequence;
    struct wr_item **queue; /* a ring of queue_size, a power of two */
    size_t queue_size, queue_at, queue_count;
    struct wr_item **heap;
    size_t heap_size, heap_count;
    struct wr_block *current; /* items are put here */
    struct wr_block *free;
    size_t bytes; /* of all blocks but the free ones */
};

struct wr_order *wr_order_new(int64_t window_ns, size_t field_count)
{
    struct wr_order *order = calloc(1, sizeof *order);

    if (order == NULL)
        return NULL;
    order->window_ns = window_ns;
    order->field_count = field_count;
    order->latest_ns = INT64_MIN;
    order->reached_ns = INT64_MIN;
    return order;
}

/* ---- memory ------------------------------------------------------------------------------- */

static struct wr_block *take_block(struct wr_order *order, size_t need)
{
    struct wr_block *block = need <= BLOCK_BYTES ? order->free : NULL;
    size_t size = need > BLOCK_BYTES ? need : BLOCK_BYTES;

    if (block != NULL)
        order->free = block->next;
    else if ((block = malloc(sizeof *block + size)) != NULL)
        block->size = size;
    else
        return NULL;
    block->next = NULL;
    block->used = 0;
    block->live = 0;
    order->bytes += block->size;
    return block;
}

static void drop_block(struct wr_order *order, struct wr_block *block)
{
    order->bytes -= block->size;
    if (block->size > BLOCK_BYTES) {
        free(block);
        return;
    }
    block->next = order->free;
    order->free = block;
}

/* |size| bytes in some block. */
static void *take_bytes(struct wr_order *order, size_t size, struct wr_block **out)
{
    struct wr_block *block = order->current;
    void *bytes;

    size = (size + 15) & ~(size_t)15;
    if (block == NULL || block->size - block->used < size) {
        struct wr_block *old = block;
        block = take_block(order, size);
        if (block == NULL)
            return NULL;
        order->current = block;
        if (old != NULL && old->live == 0)
            drop_block(order, old);
    }
    bytes = (char *)(block + 1) + block->used;
    block->used += size;
    block->live++;
    *out = block;
    return bytes;
}

void wr_order_done(struct wr_order *order, struct wr_item *item)
{
    struct wr_block *block = item->block;

    if (--block->live > 0)
        return;
    if (block == order->current)
        block->used = 0;
    else
        drop_block(order, block);
}

void wr_order_free(struct wr_order *order)
{
    struct wr_item *item;

    if (order == NULL)
        return;
    while ((item = wr_order_pop(order, true)) != NULL)
        wr_order_done(order, item);
    free(order->current);
    while (order->free != NULL) {
        struct wr_block *next = order->free->next;
        free(order->free);
        order->free = next;
    }
    free(order->queue);
    free(order->heap);
    free(order);
}

/* ---- queue and heap ----------------------------------------------------------------------- */

static bool before(const struct wr_item *a, const struct wr_item *b)
{
    return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->sequence < b->sequence;
}

static struct wr_item *queue_last(const struct wr_order *order)
{
    return order->queue[(order->queue_at + order->queue_count - 1) & (order->queue_size - 1)];
}

static bool grow_queue(struct wr_order *order)
{
    size_t size = order->queue_size > 0 ? order->queue_size * 2 : 1024;
    struct wr_item **queue = malloc(size * sizeof(struct wr_item *));

    if (queue == NULL)
        return false;
    for (size_t i = 0; i < order->queue_count; i++)
        queue[i] = order->queue[(order->queue_at + i) & (order->queue_size - 1)];
    free(order->queue);
    order->queue = queue;
    order->queue_size = size;
    order->queue_at = 0;
    return true;
}

static bool push_queue(struct wr_order *order, struct wr_item *item)
{
    if (order->queue_count == order->queue_size && !grow_queue(order))
        return false;
    order->queue[(order->queue_at + order->queue_count) & (order->queue_size - 1)] = item;
    order->queue_count++;
    return true;
}

static struct wr_item *pop_queue(struct wr_order *order)
{
    struct wr_item *item = order->queue[order->queue_at];

    order->queue_at = (order->queue_at + 1) & (order->queue_size - 1);
    order->queue_count--;
    return item;
}

static bool push_heap(struct wr_order *order, struct wr_item *item)
{
    size_t i = order->heap_count;

    if (i == order->heap_size) {
        size_t size = order->heap_size > 0 ? order->heap_size * 2 : 1024;
        struct wr_item **heap = realloc(order->heap, size * sizeof(struct wr_item *));
        if (heap == NULL)
            return false;
        order->heap = heap;
        order->heap_size = size;
    }
    for (; i > 0 && before(item, order->heap[(i - 1) / 2]); i = (i - 1) / 2)
        order->heap[i] = order->heap[(i - 1) / 2];
    order->heap[i] = item;
    order->heap_count++;
    return true;
}

static struct wr_item *pop_heap(struct wr_order *order)
{
    struct wr_item *top = order->heap[0];
    struct wr_item *last = order->heap[--order->heap_count];
    size_t i = 0;

    for (;;) {
        size_t child = 2 * i + 1;
        if (child + 1 < order->heap_count && before(order->heap[child + 1], order->heap[child]))
            child++;
        if (child >= order->heap_count || !before(order->heap[child], last))
            break;
        order->heap[i] = order->heap[child];
        i = child;
    }
    order->heap[i] = last;
    return top;
}

/* ---- in and out --------------------------------------------------------------------------- */

static struct weir_slice copy(char **to, struct weir_slice from)
{
    struct weir_slice out = {*to, from.len};

    if (from.ptr == NULL)
        return from;
    if (from.len > 0)
        memcpy(*to, from.ptr, from.len);
    *to += from.len;
    return out;
}

static struct wr_item *make_item(struct wr_order *order, const struct wr_log_record *record)
{
    const char *query =
        record->path.len > 0 ? memchr(record->path.ptr, '?', record->path.len) : NULL;
    struct weir_slice path = {record->path.ptr, query != NULL ? (size_t)(query - record->path.ptr)
                                                              : record->path.len};
    size_t size = sizeof(struct wr_item) + order->field_count * sizeof(struct weir_slice);
    size_t text = record->client.len + record->method.len + path.len;
    struct wr_block *block;
    struct wr_item *item;
    char *to;

    for (size_t i = 0; i < order->field_count; i++)
        text += record->field[i].len;
    item = take_bytes(order, size + text, &block);
    if (item == NULL)
        return NULL;
    to = (char *)item + size;
    *item = (struct wr_item){.time_ns = record->time_ns,
                             .duration_ns = record->duration_ns,
                             .status = record->status,
                             .block = block,
                             .request = {.method = copy(&to, record->method),
                                         .path = copy(&to, path),
                                         .peer = copy(&to, record->client),
                                         .fields = item->fields,
                                         .field_count = order->field_count,
                                         .cost_units = record->cost,
                                         .plan = -1}};
    for (size_t i = 0; i < order->field_count; i++)
        item->fields[i] = copy(&to, record->field[i]);
    return item;
}

bool wr_order_push(struct wr_order *order, const struct wr_log_record *record, uint64_t line,
                   uint32_t source)
{
    struct wr_item *item = make_item(order, record);
    bool in_order, ok;

    if (item == NULL)
        return false;
    item->line = line;
    item->source = source;
    item->late = record->time_ns < order->reached_ns;
    item->sequence = order->sequence++;
    in_order = order->queue_count == 0 || !before(item, queue_last(order));
    ok = in_order ? push_queue(order, item) : push_heap(order, item);
    if (!ok)
        wr_order_done(order, item);
    else if (record->time_ns > order->latest_ns)
        order->latest_ns = record->time_ns;
    return ok;
}

static bool is_due(const struct wr_order *order, const struct wr_item *item)
{
    return order->queue_count + order->heap_count > WR_ORDER_ITEMS_MAX ||
           order->bytes > WR_ORDER_BYTES_MAX ||
           item->time_ns <= order->latest_ns - order->window_ns;
}

struct wr_item *wr_order_pop(struct wr_order *order, bool flush)
{
    struct wr_item *front = order->queue_count > 0 ? order->queue[order->queue_at] : NULL;
    struct wr_item *top = order->heap_count > 0 ? order->heap[0] : NULL;
    bool from_heap = top != NULL && (front == NULL || before(top, front));
    struct wr_item *item = from_heap ? top : front;

    if (item == NULL || (!flush && !is_due(order, item)))
        return NULL;
    if (from_heap)
        (void)pop_heap(order);
    else
        (void)pop_queue(order);
    if (item->time_ns > order->reached_ns)
        order->reached_ns = item->time_ns;
    return item;
}
