/* ring_news.c - news of the ring, told once each however many loops and beats see them.
 *
 * Idea. The last that was said of a node is kept; who says the same again is not heard. A trouble
 * is said at each sight of it (a hello, once a second), so it ends by not being seen.
 *
 * Invariants.
 *   1. Bounded: nodes that are not in a list have no bound of their own; the one not seen for
 *      longest is forgotten.
 *   2. The mutex is the last that is taken, and nothing is called under it.
 *
 * Rejected: logging here (the log is the daemon's, and this is a backend). */
#include "remote/ring_news.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

#define SAID_MAX 192 /* of 64 peers three each */
#define QUEUE_MAX 64
#define STANDS_NS (5 * WR_NS_PER_S)

struct said {
    struct wr_backend_news news;
    int64_t first_ns, last_ns; /* of a trouble */
    uint64_t order;            /* of the last sight */
    bool trouble, told;
};

struct wr_ring_news {
    pthread_mutex_t mutex;
    uint64_t order;
    struct said said[SAID_MAX]; /* news.node "": vacant */
    struct wr_backend_news queue[QUEUE_MAX];
    unsigned first, count;
};

struct wr_ring_news *wr_ring_news_new(void)
{
    struct wr_ring_news *news = calloc(1, sizeof *news);

    if (news != NULL)
        (void)pthread_mutex_init(&news->mutex, NULL);
    return news;
}

void wr_ring_news_free(struct wr_ring_news *news)
{
    if (news == NULL)
        return;
    (void)pthread_mutex_destroy(&news->mutex);
    free(news);
}

static void fill(struct wr_backend_news *out, const char *node, const char *what, bool grave)
{
    (void)snprintf(out->node, sizeof out->node, "%s", node);
    (void)snprintf(out->what, sizeof out->what, "%s", what);
    out->grave = grave;
}

/* A full queue loses its oldest. */
static void tell(struct wr_ring_news *news, const struct wr_backend_news *what)
{
    if (news->count == QUEUE_MAX) {
        news->first = (news->first + 1) % QUEUE_MAX;
        news->count--;
    }
    news->queue[(news->first + news->count++) % QUEUE_MAX] = *what;
}

/* What was said of the same; or a vacant place, whose node is "". A node stands in one way, and may
 * have several troubles. */
static struct said *find(struct wr_ring_news *news, const struct wr_backend_news *what,
                         bool trouble)
{
    struct said *place = &news->said[0];

    for (unsigned i = 0; i < SAID_MAX; i++) {
        struct said *said = &news->said[i];
        if (said->news.node[0] != '\0' && said->trouble == trouble &&
            strcmp(said->news.node, what->node) == 0 &&
            (!trouble || strcmp(said->news.what, what->what) == 0))
            return said;
        if (said->order < place->order)
            place = said;
    }
    *place = (struct said){.trouble = trouble};
    return place;
}

void wr_ring_news_say(struct wr_ring_news *news, const char *node, const char *what, bool grave)
{
    struct wr_backend_news is;
    struct said *said;

    fill(&is, node, what, grave);
    (void)pthread_mutex_lock(&news->mutex);
    said = find(news, &is, false);
    if (strcmp(said->news.node, is.node) != 0 || strcmp(said->news.what, is.what) != 0)
        tell(news, &is);
    said->news = is;
    said->order = ++news->order;
    (void)pthread_mutex_unlock(&news->mutex);
}

void wr_ring_news_trouble(struct wr_ring_news *news, const char *node, const char *what,
                          int64_t now_ns, int64_t grace_ns)
{
    struct wr_backend_news is;
    struct said *said;

    fill(&is, node, what, true);
    (void)pthread_mutex_lock(&news->mutex);
    said = find(news, &is, true);
    if (said->news.node[0] == '\0' || now_ns - said->last_ns > STANDS_NS) {
        said->first_ns = now_ns;
        said->told = false;
    }
    said->news = is;
    said->last_ns = now_ns;
    said->order = ++news->order;
    if (!said->told && now_ns - said->first_ns >= grace_ns) {
        said->told = true;
        tell(news, &is);
    }
    (void)pthread_mutex_unlock(&news->mutex);
}

bool wr_ring_news_stands(struct wr_ring_news *news, int64_t now_ns, char *out, size_t size)
{
    bool found = false;

    (void)pthread_mutex_lock(&news->mutex);
    for (unsigned i = 0; i < SAID_MAX && !found; i++) {
        const struct said *said = &news->said[i];
        found = said->news.node[0] != '\0' && said->trouble && said->told &&
                now_ns - said->last_ns <= STANDS_NS;
        if (found)
            (void)snprintf(out, size, "%s %s", said->news.node, said->news.what);
    }
    (void)pthread_mutex_unlock(&news->mutex);
    if (!found && size > 0)
        out[0] = '\0';
    return found;
}

bool wr_ring_news_next(struct wr_ring_news *news, struct wr_backend_news *out)
{
    bool any;

    (void)pthread_mutex_lock(&news->mutex);
    any = news->count > 0;
    *out = any ? news->queue[news->first] : (struct wr_backend_news){.grave = false};
    if (any) {
        news->first = (news->first + 1) % QUEUE_MAX;
        news->count--;
    }
    (void)pthread_mutex_unlock(&news->mutex);
    return any;
}
