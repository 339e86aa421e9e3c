/* redis_sentinel.c - one primary, which sentinels name.
 *
 * Idea. A connection to every sentinel asks for the primary and then listens to +switch-master. Who
 * it is is believed by the epoch of the sentinels' agreement, which grows with each failover: one
 * that was cut off and knows an older epoch is not listened to. The primary must say of itself that
 * it is one (ROLE, in the greeting of its connection).
 *
 *   primary lost, or a replica (READONLY, ROLE)   all sentinels are asked anew
 *   +switch-master                                the connection goes there at once
 *
 * Invariants.
 *   1. One node, which has the address that was believed last; none before the first answer.
 *   2. Sentinels are asked at most every ASK_GAP_NS, and one that is gone every second.
 *
 * Rejected: asking one sentinel after the other until one answers (the first may be the one that is
 * cut off, and each that is dead costs its deadline); deciding without ROLE (a sentinel announces
 * the new primary before it is one). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "remote/redis_store.h"

#define ASK_GAP_NS (250 * WR_NS_PER_MS)
#define STAGE_NS (200 * WR_NS_PER_MS) /* of connecting to a sentinel, at least */
#define AGAIN_NS (900 * WR_NS_PER_MS) /* before one that is gone is tried again: the next beat */

struct watcher {
    struct sentinels *all;
    struct wr_redis_address address;
    struct wr_redis_link *link; /* NULL: gone */
    int64_t lost_ns;
    bool failed; /* it last did not say who it is */
};

struct sentinels {
    struct wr_redis_store *store;
    struct wr_redis_node *node; /* NULL: not known yet */
    int64_t epoch;
    int64_t asked_ns;
    bool ask; /* wanted, when the gap is over */
    struct wr_redis_greeting role;
    char *question; /* SENTINEL MASTER name */
    size_t question_len;
    size_t count;
    struct watcher watcher[];
};

/* ---- who it is ------------------------------------------------------------------------------ */

static bool is_at(const struct wr_redis_node *node, const char *host, uint16_t port)
{
    return node->address.host != NULL && strcmp(node->address.host, host) == 0 &&
           node->address.port == port;
}

static void believe(struct sentinels *all, const char *host, uint16_t port)
{
    const struct wr_redis_address address = {host, port, NULL};

    all->store->unroutable = false;
    if (all->node == NULL) {
        all->node = wr_redis_node_open(all->store, &address);
        wr_redis_resume(all->store, NULL);
    } else if (!is_at(all->node, host, port)) {
        wr_redis_node_move(all->node, &address);
    }
}

static void hear(struct sentinels *all, const char *host, uint16_t port, int64_t epoch)
{
    bool up = all->node != NULL && all->node->link != NULL && wr_redis_link_is_up(all->node->link);

    if (epoch < all->epoch || (epoch == all->epoch && up))
        return;
    all->epoch = epoch;
    believe(all, host, port);
}

static bool read_port(const char *text, uint16_t *out)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    *out = (uint16_t)value;
    return *text >= '0' && *text <= '9' && *end == '\0' && value > 0 && value <= UINT16_MAX;
}

/* The value behind |name| in a flat list of names and values; NULL: there is none. */
static const char *field(const struct redisReply *reply, const char *name)
{
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        const struct redisReply *key = reply->element[i], *value = reply->element[i + 1];
        if (key->type == REDIS_REPLY_STRING && value->type == REDIS_REPLY_STRING &&
            strcmp(key->str, name) == 0)
            return value->str;
    }
    return NULL;
}

/* |watcher| cannot say who it is. When none can, nobody should wait for it. */
static void give_up(struct watcher *watcher, enum wr_remote_trouble trouble, const char *why)
{
    struct sentinels *all = watcher->all;
    char detail[WR_REDIS_WHY_MAX + 32];

    watcher->failed = true;
    if (all->node != NULL)
        return;
    (void)snprintf(detail, sizeof detail, "no sentinel answers: %s", why);
    wr_redis_say(all->store, NULL, detail);
    for (size_t i = 0; i < all->count; i++)
        if (!all->watcher[i].failed)
            return;
    all->store->unroutable = true;
    wr_redis_abandon(all->store, NULL, trouble);
}

static void on_master(void *context, struct wr_redis_link *link, const struct redisReply *reply)
{
    struct watcher *watcher = context;
    const char *host, *port_text, *epoch;
    uint16_t port;
    (void)link;

    if (reply == NULL)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        give_up(watcher, wr_redis_trouble_of(wr_redis_error_of(reply->str, reply->len)),
                reply->str);
        return;
    }
    if (reply->type != REDIS_REPLY_ARRAY) {
        give_up(watcher, WR_TROUBLE_PROTOCOL, "an answer that makes no sense");
        return;
    }
    host = field(reply, "ip");
    port_text = field(reply, "port");
    epoch = field(reply, "config-epoch");
    if (host == NULL || host[0] == '\0' || strlen(host) >= WR_REDIS_HOST_MAX || port_text == NULL ||
        !read_port(port_text, &port)) {
        give_up(watcher, WR_TROUBLE_PROTOCOL, "an answer that makes no sense");
        return;
    }
    watcher->failed = false;
    hear(watcher->all, host, port, epoch == NULL ? 0 : strtoll(epoch, NULL, 10));
}

/* "name old-host old-port new-host new-port" */
static void on_switch(struct sentinels *all, char *text)
{
    char *save = NULL, *word[5];
    uint16_t port;

    for (unsigned i = 0; i < 5; i++) {
        word[i] = strtok_r(i == 0 ? text : NULL, " ", &save);
        if (word[i] == NULL)
            return;
    }
    if (strcmp(word[0], all->store->master) != 0 || strlen(word[3]) >= WR_REDIS_HOST_MAX ||
        !read_port(word[4], &port))
        return;
    if (all->node != NULL && is_at(all->node, word[3], port))
        return;   /* another sentinel said so before */
    all->epoch++; /* a failover raises it by one or more; the next answer says what it is */
    believe(all, word[3], port);
}

/* ---- the sentinels -------------------------------------------------------------------------- */

static void on_pushed(void *owner, const struct redisReply *message)
{
    struct watcher *watcher = owner;

    if (message->type == REDIS_REPLY_ARRAY && message->elements == 3 &&
        message->element[0]->type == REDIS_REPLY_STRING &&
        strcmp(message->element[0]->str, "message") == 0 &&
        message->element[2]->type == REDIS_REPLY_STRING)
        on_switch(watcher->all, message->element[2]->str);
}

static void on_subscribed(void *context, struct wr_redis_link *link, const struct redisReply *reply)
{
    (void)context; /* without it, a lost primary is what tells us */
    (void)link;
    (void)reply;
}

static void on_watcher_up(void *owner, struct wr_redis_link *link)
{
    static const char subscribe[] = "*2\r\n$9\r\nSUBSCRIBE\r\n$14\r\n+switch-master\r\n";
    struct watcher *watcher = owner;

    (void)wr_redis_link_send(link, watcher->all->question, watcher->all->question_len, on_master,
                             watcher);
    (void)wr_redis_link_send(link, subscribe, sizeof subscribe - 1, on_subscribed, watcher);
}

static void on_watcher_lost(void *owner, struct wr_redis_link *link, enum wr_remote_trouble trouble,
                            const char *why)
{
    struct watcher *watcher = owner;
    (void)link;

    watcher->link = NULL;
    watcher->lost_ns = wr_redis_now_ns();
    give_up(watcher, trouble, why);
}

static const struct wr_redis_link_events watcher_events = {
    .up = on_watcher_up, .lost = on_watcher_lost, .pushed = on_pushed};

static void watch(struct watcher *watcher)
{
    struct wr_redis_store *store = watcher->all->store;
    const struct wr_redis_link_spec spec = {
        .events = &watcher_events,
        .owner = watcher,
        .address = watcher->address,
        .login = &store->sentinel_login,
        .stage_ns = wr_max_i64(store->deadline_ns, STAGE_NS),
    };

    watcher->link = wr_redis_link_open(store->loop, &spec);
    watcher->lost_ns = wr_redis_now_ns();
}

/* A connection that listens cannot ask: each is made anew. */
static void ask_all(struct sentinels *all, int64_t now_ns)
{
    all->ask = now_ns - all->asked_ns < ASK_GAP_NS;
    if (all->ask)
        return;
    all->asked_ns = now_ns;
    for (size_t i = 0; i < all->count; i++) {
        struct watcher *watcher = &all->watcher[i];
        struct wr_redis_link *link = watcher->link;
        if (link != NULL && !wr_redis_link_is_up(link))
            continue;
        if (link != NULL && all->node == NULL && !watcher->failed)
            give_up(watcher, WR_TROUBLE_TIMEOUT, "the question was not answered");
        watcher->link = NULL;
        if (link != NULL)
            wr_redis_link_close(link);
        watch(watcher);
    }
}

/* ---- as a router ---------------------------------------------------------------------------- */

static const char *check_role(const struct redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 1 ||
        reply->element[0]->type != REDIS_REPLY_STRING ||
        strcmp(reply->element[0]->str, "master") != 0)
        return "it is not the primary";
    return NULL;
}

static bool start(struct wr_redis_store *store)
{
    static const char role[] = "*1\r\n$4\r\nROLE\r\n";
    struct sentinels *all = calloc(1, sizeof *all + store->address_count * sizeof all->watcher[0]);
    int len;

    if (all == NULL)
        return false;
    len = redisFormatCommandArgv(&all->question, 3,
                                 (const char *[]){"SENTINEL", "MASTER", store->master}, NULL);
    if (len < 0) {
        free(all);
        return false;
    }
    all->question_len = (size_t)len;
    all->store = store;
    all->epoch = -1;
    all->asked_ns = wr_redis_now_ns();
    all->count = store->address_count;
    store->routing = all;
    store->greeting[store->greeting_count++] =
        (struct wr_redis_greeting){role, sizeof role - 1, check_role};
    for (size_t i = 0; i < all->count; i++) {
        all->watcher[i].all = all;
        all->watcher[i].address = wr_redis_address_of(&store->addresses[i]);
        watch(&all->watcher[i]);
    }
    return true;
}

static struct wr_redis_node *route(struct wr_redis_store *store, struct wr_redis_ticket *ticket)
{
    struct sentinels *all = store->routing;
    (void)ticket;

    return all->node;
}

static void lost(struct wr_redis_store *store, struct wr_redis_node *node)
{
    (void)node;
    ask_all(store->routing, wr_redis_now_ns());
}

static void beat(struct wr_redis_store *store, int64_t now_ns)
{
    struct sentinels *all = store->routing;

    if (all->node != NULL)
        wr_redis_retired_beat(all->node, now_ns);
    if (all->ask || all->node == NULL || all->node->link == NULL)
        ask_all(all, now_ns);
    for (size_t i = 0; i < all->count; i++)
        if (all->watcher[i].link == NULL && now_ns - all->watcher[i].lost_ns >= AGAIN_NS)
            watch(&all->watcher[i]);
}

static void stop(struct wr_redis_store *store)
{
    struct sentinels *all = store->routing;

    if (all == NULL)
        return;
    for (size_t i = 0; i < all->count; i++) {
        struct wr_redis_link *link = all->watcher[i].link;
        all->watcher[i].link = NULL;
        if (link != NULL)
            wr_redis_link_close(link);
    }
    if (all->node != NULL)
        wr_redis_node_close(all->node);
}

static void dispose(struct wr_redis_store *store)
{
    struct sentinels *all = store->routing;

    if (all == NULL)
        return;
    redisFreeCommand(all->question);
    free(all);
}

const struct wr_redis_router wr_redis_sentinel = {
    .name = "sentinel",
    .start = start,
    .route = route,
    .lost = lost,
    .beat = beat,
    .stop = stop,
    .dispose = dispose,
};
