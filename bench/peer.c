/* peer.c - a mutex, a chained hash with string keys, a floating-point token bucket. */
#include "peer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct node {
    struct node *next;
    char *key;
    size_t len;
    double tokens;
    int64_t stamp_ns;
};

struct peer {
    pthread_mutex_t lock;
    size_t mask;
    double units_per_ns, burst;
    struct node **buckets;
};

struct peer *peer_new(size_t buckets, double units_per_s, double burst)
{
    struct peer *peer = calloc(1, sizeof *peer);

    if (peer == NULL || (peer->buckets = calloc(buckets, sizeof(struct node *))) == NULL)
        abort();
    (void)pthread_mutex_init(&peer->lock, NULL);
    peer->mask = buckets - 1;
    peer->units_per_ns = units_per_s / 1e9;
    peer->burst = burst;
    return peer;
}

void peer_free(struct peer *peer)
{
    for (size_t i = 0; i <= peer->mask; i++) {
        for (struct node *node = peer->buckets[i], *next; node != NULL; node = next) {
            next = node->next;
            free(node->key);
            free(node);
        }
    }
    free(peer->buckets);
    free(peer);
}

static uint64_t fnv1a(const char *key, size_t len)
{
    uint64_t hash = 0xcbf29ce484222325U;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)key[i]) * 0x100000001b3U;
    return hash;
}

static struct node *find(struct peer *peer, const char *key, size_t len, int64_t now_ns)
{
    struct node **bucket = &peer->buckets[fnv1a(key, len) & peer->mask];
    struct node *node;

    for (node = *bucket; node != NULL; node = node->next) {
        if (node->len == len && memcmp(node->key, key, len) == 0)
            return node;
    }
    node = malloc(sizeof *node);
    if (node == NULL || (node->key = malloc(len)) == NULL)
        abort();
    memcpy(node->key, key, len);
    node->len = len;
    node->tokens = peer->burst;
    node->stamp_ns = now_ns;
    node->next = *bucket;
    *bucket = node;
    return node;
}

bool peer_check(struct peer *peer, const char *key, size_t len, double cost, int64_t now_ns)
{
    struct node *node;
    bool pass;

    (void)pthread_mutex_lock(&peer->lock);
    node = find(peer, key, len, now_ns);
    if (now_ns > node->stamp_ns) {
        node->tokens += (double)(now_ns - node->stamp_ns) * peer->units_per_ns;
        if (node->tokens > peer->burst)
            node->tokens = peer->burst;
        node->stamp_ns = now_ns;
    }
    pass = node->tokens >= cost;
    if (pass)
        node->tokens -= cost;
    (void)pthread_mutex_unlock(&peer->lock);
    return pass;
}
