/* redis_answer.c - what an answer makes of its ticket: done, the next group, once more, or gone.
 *
 * An error is an answer too. LOADING, BUSY, OOM and the like say that the server lives: they count
 * for nothing at the breaker, and the caller is told WR_TROUBLE_BUSY, not that the store is lost.
 * A script that the server does not know is loaded on the same connection in front of asking again;
 * of many commands in a pipeline that find it missing only the first loads it. */
#include "remote/redis_store.h"

#define SAID_NS (10 * WR_NS_PER_S)

/* Nothing came: the connection is lost, or closed by us. */
static void lost(struct wr_redis_ticket *ticket)
{
    wr_redis_finish(ticket, WR_REMOTE_GONE, WR_TROUBLE_CONNECT);
}

/* What decisions were told last ends by a decision; or nobody asks any more. */
static bool is_well(const struct wr_redis_ticket *ticket, int64_t now_ns)
{
    return ticket->op != WR_REDIS_MEMBERS || now_ns - ticket->store->said_ns >= SAID_NS;
}

static void succeeded(struct wr_redis_ticket *ticket)
{
    int64_t now_ns = wr_redis_now_ns();

    if (ticket->late)
        return; /* late is no success */
    wr_breaker_succeeded(&ticket->node->breaker, now_ns);
    if (!ticket->store->state.reachable && is_well(ticket, now_ns))
        wr_redis_well(ticket->store, ticket->node, true);
}

static void gone(struct wr_redis_ticket *ticket, enum wr_remote_trouble trouble)
{
    wr_redis_finish(ticket, WR_REMOTE_GONE, trouble);
}

static void again(struct wr_redis_ticket *ticket)
{
    enum wr_remote_trouble trouble = wr_redis_dispatch(ticket);

    if (trouble != WR_TROUBLE_NONE)
        gone(ticket, trouble);
}

/* ---- errors --------------------------------------------------------------------------------- */

static void on_loaded(void *context, struct wr_redis_link *link, const struct redisReply *reply)
{
    (void)context; /* where it failed, the command behind it says NOSCRIPT again */
    (void)link;
    (void)reply;
}

static void load_again(struct wr_redis_ticket *ticket, struct wr_redis_link *link)
{
    struct wr_redis_node *node = ticket->node;
    const struct wr_redis_greeting *load = &ticket->store->greeting[0];

    if (load->bytes == NULL || ticket->script_tries++ >= WR_REDIS_SCRIPT_TRIES) {
        gone(ticket, WR_TROUBLE_PROTOCOL);
        return;
    }
    if (node->link == link && node->loaded_as < ticket->sent_as) {
        (void)wr_redis_link_send(link, load->bytes, load->len, on_loaded, NULL);
        node->loaded_as = wr_redis_link_sent(link);
        ticket->store->state.commands++;
    }
    again(ticket);
}

static void on_error(struct wr_redis_ticket *ticket, struct wr_redis_link *link,
                     const struct redisReply *reply)
{
    struct wr_redis_store *store = ticket->store;
    struct wr_redis_node *node = ticket->node;
    enum wr_redis_error error = wr_redis_error_of(reply->str, reply->len);

    if (ticket->late) { /* nobody waits, and nothing was taken */
        wr_redis_finish(ticket, WR_REMOTE_GONE, WR_TROUBLE_NONE);
        return;
    }
    if (error == WR_REDIS_NOSCRIPT) {
        load_again(ticket, link);
        return;
    }
    if (store->router->redirected != NULL && store->router->redirected(store, ticket, error, reply))
        return;
    /* A careful ACL may leave out what counts members. */
    if (ticket->op != WR_REDIS_MEMBERS || error == WR_REDIS_CLUSTERDOWN)
        wr_redis_refused(store, node, reply->str);
    gone(ticket, wr_redis_trouble_of(error));
    if (error == WR_REDIS_READONLY && node->link == link)
        wr_redis_node_drop(node, WR_TROUBLE_BUSY, "it is a replica");
}

/* ---- decisions ------------------------------------------------------------------------------ */

static void settle(struct wr_redis_ticket *ticket, bool passed)
{
    enum wr_remote_trouble trouble;

    if (ticket->op == WR_REDIS_TAKE && !passed) {
        ticket->left |= ticket->taken;
        wr_redis_take_back(ticket);
        ticket->op = WR_REDIS_JUDGE;
    } else if (ticket->op == WR_REDIS_TAKE) {
        ticket->taken |= ticket->asked;
    }
    if (ticket->left == 0) {
        wr_redis_finish(ticket, WR_REMOTE_DONE, WR_TROUBLE_NONE);
        return;
    }
    trouble = wr_redis_advance(ticket);
    if (trouble != WR_TROUBLE_NONE)
        gone(ticket, trouble);
}

/* The caller was told that the store is gone; what was taken for him is given back. */
static void give_back_late(struct wr_redis_ticket *ticket)
{
    struct wr_remote_charge charges[WEIR_LIMITS_MAX];

    for (unsigned i = 0; i < ticket->count; i++)
        charges[i] = ticket->kept[i].charge;
    wr_redis_give_back(ticket->store, charges, wr_redis_charged(charges, ticket->asked));
}

static void late(struct wr_redis_ticket *ticket, bool passed)
{
    if (ticket->op == WR_REDIS_TAKE && passed)
        give_back_late(ticket);
    wr_redis_finish(ticket, WR_REMOTE_GONE, WR_TROUBLE_NONE);
}

static void on_late_answer(struct wr_redis_ticket *ticket, const struct redisReply *reply)
{
    bool passed = false;

    if (ticket->op == WR_REDIS_TAKE && wr_redis_decode(ticket, reply, &passed) != WR_SCRIPT_DONE)
        passed = false;
    late(ticket, passed);
}

void wr_redis_decided(struct wr_redis_ticket *ticket, bool passed)
{
    if (ticket->late)
        late(ticket, passed);
    else if (ticket->call != NULL)
        settle(ticket, passed);
    else if (ticket->left != 0)
        (void)wr_redis_advance(ticket); /* an order that is done by and by */
    else
        wr_redis_finish(ticket, WR_REMOTE_DONE, WR_TROUBLE_NONE);
}

static void on_answer(struct wr_redis_ticket *ticket, const struct redisReply *reply)
{
    bool passed;
    enum wr_script_result result = wr_redis_decode(ticket, reply, &passed);

    if (result == WR_SCRIPT_NONSENSE) {
        gone(ticket, WR_TROUBLE_PROTOCOL);
        return;
    }
    succeeded(ticket);
    if (result == WR_SCRIPT_AGAIN && ticket->script_tries++ < WR_REDIS_SCRIPT_TRIES)
        again(ticket);
    else if (result == WR_SCRIPT_AGAIN)
        gone(ticket, WR_TROUBLE_PROTOCOL);
    else
        wr_redis_decided(ticket, passed);
}

void wr_redis_on_reply(void *context, struct wr_redis_link *link, const struct redisReply *reply)
{
    struct wr_redis_ticket *ticket = context;

    ticket->sent = false;
    if (reply == NULL) {
        lost(ticket);
    } else if (reply->type == REDIS_REPLY_ERROR) {
        on_error(ticket, link, reply);
    } else if (ticket->op == WR_REDIS_MEMBERS) {
        succeeded(ticket);
        wr_redis_members_answer(ticket->store, reply);
        wr_redis_finish(ticket, WR_REMOTE_DONE, WR_TROUBLE_NONE);
    } else if (ticket->late) {
        on_late_answer(ticket, reply);
    } else {
        on_answer(ticket, reply);
    }
}
