/* ring_names.c - a list under a lock, with a version that is new when the list is. */
#include "remote/ring_names.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct wr_ring_names {
    pthread_mutex_t mutex;
    uint64_t version; /* 0: nothing is known yet */
    char name[WR_REDIS_HOST_MAX];
    struct wr_ring_name_list list;
};

struct wr_ring_names *wr_ring_names_new(void)
{
    struct wr_ring_names *names = calloc(1, sizeof *names);

    if (names != NULL)
        (void)pthread_mutex_init(&names->mutex, NULL);
    return names;
}

void wr_ring_names_free(struct wr_ring_names *names)
{
    if (names != NULL)
        (void)pthread_mutex_destroy(&names->mutex);
    free(names);
}

static bool is_same(const struct wr_ring_names *names, const char *name,
                    const struct wr_ring_name_list *list)
{
    bool same = strcmp(names->name, name) == 0 && names->list.count == list->count;

    for (unsigned i = 0; same && i < list->count; i++)
        same = strcmp(names->list.host[i], list->host[i]) == 0;
    return same;
}

void wr_ring_names_set(struct wr_ring_names *names, const char *name,
                       const struct wr_ring_name_list *list)
{
    (void)pthread_mutex_lock(&names->mutex);
    if (!is_same(names, name, list)) {
        memset(names->name, 0, sizeof names->name);
        memcpy(names->name, name, strnlen(name, sizeof names->name - 1));
        names->list = *list;
        names->version++;
    }
    (void)pthread_mutex_unlock(&names->mutex);
}

static bool is_new(const struct wr_ring_names *names, const char *name, uint64_t version)
{
    return names->version != version && strcmp(names->name, name) == 0;
}

bool wr_ring_names_read(struct wr_ring_names *names, const char *name, uint64_t *version,
                        struct wr_ring_name_list *out)
{
    bool news;

    (void)pthread_mutex_lock(&names->mutex);
    news = is_new(names, name, *version);
    if (news) {
        *out = names->list;
        *version = names->version;
    }
    (void)pthread_mutex_unlock(&names->mutex);
    return news;
}

bool wr_ring_names_is_new(struct wr_ring_names *names, const char *name, uint64_t version)
{
    bool news;

    (void)pthread_mutex_lock(&names->mutex);
    news = is_new(names, name, version);
    (void)pthread_mutex_unlock(&names->mutex);
    return news;
}
