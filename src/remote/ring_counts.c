/* ring_counts.c - counters of nodes, by name.
 *
 * Idea. Loops add to a node's counters as they come to it, without a lock; who comes and goes is
 * rare, and takes one. A node that nobody has any more keeps its place, and so its counts, until
 * another one needs it: a name that dns loses for a moment goes on where it was.
 *
 * Invariants.
 *   1. Bounded: WR_BACKEND_PEERS_MAX nodes, whatever names dns makes up.
 *   2. A node is up when all loops that have it say so.
 *
 * Rejected: the loops' own metrics (by index, which differs from loop to loop with dns). */
#include "remote/ring_counts.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct wr_ring_count {
    char id[sizeof((struct wr_backend_peer){0}.name)]; /* "": vacant */
    unsigned loops;                                    /* that have it */
    unsigned ups;                                      /* and see it up */
    uint64_t order;                                    /* of the last that left */
    int64_t heard_ns;
    uint64_t counter[WR_RING_COUNTERS];
};

struct wr_ring_counts {
    pthread_mutex_t mutex; /* of id, loops, order */
    uint64_t order;
    struct wr_ring_count count[WR_BACKEND_PEERS_MAX];
};

struct wr_ring_counts *wr_ring_counts_new(void)
{
    struct wr_ring_counts *counts = calloc(1, sizeof *counts);

    if (counts != NULL)
        (void)pthread_mutex_init(&counts->mutex, NULL);
    return counts;
}

void wr_ring_counts_free(struct wr_ring_counts *counts)
{
    if (counts == NULL)
        return;
    (void)pthread_mutex_destroy(&counts->mutex);
    free(counts);
}

/* That of |id|, or the one that nobody has had for longest, or NULL. */
static struct wr_ring_count *find(struct wr_ring_counts *counts, const char *id)
{
    struct wr_ring_count *oldest = NULL;

    for (size_t i = 0; i < WR_BACKEND_PEERS_MAX; i++) {
        struct wr_ring_count *count = &counts->count[i];
        if (strncmp(count->id, id, sizeof count->id - 1) == 0)
            return count;
        if (count->loops == 0 && (oldest == NULL || count->order < oldest->order))
            oldest = count;
    }
    if (oldest != NULL) {
        *oldest = (struct wr_ring_count){.loops = 0};
        memcpy(oldest->id, id, strnlen(id, sizeof oldest->id - 1));
    }
    return oldest;
}

struct wr_ring_count *wr_ring_counts_join(struct wr_ring_counts *counts, const char *id)
{
    struct wr_ring_count *count;

    (void)pthread_mutex_lock(&counts->mutex);
    count = find(counts, id);
    if (count != NULL)
        count->loops++;
    (void)pthread_mutex_unlock(&counts->mutex);
    return count;
}

void wr_ring_counts_leave(struct wr_ring_counts *counts, struct wr_ring_count *count)
{
    if (count == NULL)
        return;
    (void)pthread_mutex_lock(&counts->mutex);
    count->loops--;
    count->order = ++counts->order;
    (void)pthread_mutex_unlock(&counts->mutex);
}

void wr_ring_counts_add(struct wr_ring_count *count, enum wr_ring_counter what, uint64_t n)
{
    if (count != NULL)
        (void)__atomic_fetch_add(&count->counter[what], n, __ATOMIC_RELAXED);
}

void wr_ring_counts_up(struct wr_ring_count *count, bool up)
{
    if (count != NULL && up)
        (void)__atomic_fetch_add(&count->ups, 1, __ATOMIC_RELAXED);
    else if (count != NULL)
        (void)__atomic_fetch_sub(&count->ups, 1, __ATOMIC_RELAXED);
}

void wr_ring_counts_heard(struct wr_ring_count *count, int64_t now_ns)
{
    if (count != NULL)
        __atomic_store_n(&count->heard_ns, now_ns, __ATOMIC_RELAXED);
}

int64_t wr_ring_counts_heard_ns(const struct wr_ring_count *count)
{
    return count != NULL ? __atomic_load_n(&count->heard_ns, __ATOMIC_RELAXED) : 0;
}

static uint64_t value(const struct wr_ring_count *count, enum wr_ring_counter what)
{
    return __atomic_load_n(&count->counter[what], __ATOMIC_RELAXED);
}

size_t wr_ring_counts_read(struct wr_ring_counts *counts, struct wr_backend_peer *out, size_t max)
{
    size_t n = 0;

    (void)pthread_mutex_lock(&counts->mutex);
    for (size_t i = 0; i < WR_BACKEND_PEERS_MAX && n < max; i++) {
        const struct wr_ring_count *count = &counts->count[i];
        if (count->loops == 0)
            continue;
        out[n] = (struct wr_backend_peer){.up = __atomic_load_n(&count->ups, __ATOMIC_RELAXED) >=
                                                count->loops,
                                          /* In this order: no more are answered than were sent. */
                                          .answered = value(count, WR_RING_ANSWERED),
                                          .late = value(count, WR_RING_LATE),
                                          .handed_over = value(count, WR_RING_HANDED_OVER)};
        out[n].forwarded = value(count, WR_RING_FORWARDED);
        memcpy(out[n].name, count->id, sizeof out[n].name);
        n++;
    }
    (void)pthread_mutex_unlock(&counts->mutex);
    return n;
}
