/* lookup.c - lookups of names, each in a thread of its own.
 *
 * Problem. getaddrinfo cannot be stopped, and takes as long as name servers are silent: 5 s a try,
 * by default. Whoever asked has lost patience by then, and asks anew; a process that ends must not
 * wait for it.
 *
 * Idea. There is one lookup of a name under way, whoever asks; its thread is waited for by nobody
 * and ends with the process. An answer that somebody was not patient enough for is kept for a
 * while: he is about to ask again, and others like him.
 *
 * Invariants:
 *   1. A waiter is sent to only under the mutex and while it is in a list, so never when closed.
 *   2. A lookup is freed by the last who holds it: its thread, those who joined, and the list of
 *      those that run or are kept.
 *   3. A thread for each name that is looked up, at most.
 *
 * Rejected: uv_getaddrinfo (the end of a process joins libuv's threads, and four lookups of a dead
 * name server take all of them from whoever else has work for them); a patience without bound (a
 * link would say for ever that it is connecting). */
#include "remote/lookup.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

#define KEPT_NS (10 * WR_NS_PER_S) /* longer than the longest pause between two attempts */

struct wr_lookup {
    struct wr_lookup *next;
    struct wr_lookup_waiter *waiters;
    unsigned holders;
    bool ended, left; /* somebody lost patience */
    uint64_t ended_ns;
    int error;
    struct addrinfo *list;
    char service[8];
    char host[];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct wr_lookup *lookups;

/* With the mutex held, as all that follow. */
static void drop(struct wr_lookup *lookup, unsigned holders)
{
    lookup->holders -= holders;
    if (lookup->holders > 0)
        return;
    if (lookup->list != NULL)
        freeaddrinfo(lookup->list);
    free(lookup);
}

static void unlist(const struct wr_lookup *lookup)
{
    struct wr_lookup **at = &lookups;

    while (*at != lookup)
        at = &(*at)->next;
    *at = lookup->next;
}

static void forget_old(uint64_t now_ns)
{
    struct wr_lookup *next;

    for (struct wr_lookup *lookup = lookups; lookup != NULL; lookup = next) {
        next = lookup->next;
        if (lookup->ended && now_ns - lookup->ended_ns >= (uint64_t)KEPT_NS) {
            unlist(lookup);
            drop(lookup, 1);
        }
    }
}

static struct wr_lookup *find(const char *host, const char *service)
{
    for (struct wr_lookup *lookup = lookups; lookup != NULL; lookup = lookup->next)
        if (strcmp(lookup->host, host) == 0 && strcmp(lookup->service, service) == 0)
            return lookup;
    return NULL;
}

static void *run(void *context)
{
    struct wr_lookup *lookup = context;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *list = NULL;
    bool kept;
    int error = getaddrinfo(lookup->host, lookup->service, &hints, &list);

    (void)pthread_mutex_lock(&mutex);
    lookup->ended = true;
    lookup->ended_ns = uv_hrtime();
    lookup->error = error;
    lookup->list = error == 0 ? list : NULL;
    for (struct wr_lookup_waiter *waiter = lookup->waiters; waiter != NULL; waiter = waiter->next)
        (void)uv_async_send(&waiter->async);
    kept = error == 0 && lookup->left;
    if (!kept)
        unlist(lookup);
    drop(lookup, kept ? 1 : 2);
    (void)pthread_mutex_unlock(&mutex);
    return NULL;
}

/* Signals are for others. */
static bool start_thread(struct wr_lookup *lookup)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    int result;

    if (pthread_attr_init(&attributes) != 0)
        return false;
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    result = pthread_create(&thread, &attributes, run, lookup);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return result == 0;
}

static struct wr_lookup *begin(const char *host, const char *service)
{
    size_t len = strlen(host) + 1;
    struct wr_lookup *lookup = calloc(1, sizeof *lookup + len);

    if (lookup == NULL)
        return NULL;
    memcpy(lookup->host, host, len);
    memcpy(lookup->service, service, sizeof lookup->service);
    lookup->holders = 2; /* the thread and the list */
    if (!start_thread(lookup)) {
        free(lookup);
        return NULL;
    }
    lookup->next = lookups;
    lookups = lookup;
    return lookup;
}

struct wr_lookup *wr_lookup_join(struct wr_lookup_waiter *waiter, const char *host, uint16_t port)
{
    struct wr_lookup *lookup;
    char service[sizeof lookup->service] = "";

    (void)snprintf(service, sizeof service, "%u", (unsigned)port);
    (void)pthread_mutex_lock(&mutex);
    forget_old(uv_hrtime());
    lookup = find(host, service);
    if (lookup == NULL)
        lookup = begin(host, service);
    if (lookup != NULL) {
        lookup->holders++;
        waiter->next = lookup->waiters;
        lookup->waiters = waiter;
        if (lookup->ended)
            (void)uv_async_send(&waiter->async);
    }
    (void)pthread_mutex_unlock(&mutex);
    return lookup;
}

static void remove_waiter(struct wr_lookup *lookup, const struct wr_lookup_waiter *waiter)
{
    struct wr_lookup_waiter **at = &lookup->waiters;

    while (*at != NULL && *at != waiter)
        at = &(*at)->next;
    if (*at != NULL)
        *at = waiter->next;
}

bool wr_lookup_take(struct wr_lookup *lookup, struct wr_lookup_waiter *waiter, int *error,
                    struct addrinfo **list)
{
    bool ended;

    (void)pthread_mutex_lock(&mutex);
    ended = lookup->ended;
    *error = ended ? lookup->error : 0;
    *list = ended ? lookup->list : NULL;
    if (ended)
        remove_waiter(lookup, waiter);
    (void)pthread_mutex_unlock(&mutex);
    return ended;
}

void wr_lookup_leave(struct wr_lookup *lookup, struct wr_lookup_waiter *waiter)
{
    (void)pthread_mutex_lock(&mutex);
    remove_waiter(lookup, waiter);
    lookup->left = true;
    drop(lookup, 1);
    (void)pthread_mutex_unlock(&mutex);
}

void wr_lookup_drop(struct wr_lookup *lookup)
{
    (void)pthread_mutex_lock(&mutex);
    drop(lookup, 1);
    (void)pthread_mutex_unlock(&mutex);
}
