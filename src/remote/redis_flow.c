/* redis_flow.c - a call through its life: asked, answered, asked elsewhere, given up, given back.
 *
 *                 +--- next group ----+
 *                 v                   |
 *   take -> wait for a link -> sent -> answer -> done
 *                 |             |        ^
 *                 |  deadline   |        +-- script loaded, moved, asked once more
 *                 v             v
 *              gone          gone, late: what it still takes is given back
 *
 * Idea. A call is one ticket with one command at a time under way. Charges that cannot be in one
 * command (slots of a cluster) are asked group after group. If one refuses, what the earlier ones
 * took is given back, and all others are judged without taking, so that the answer is what one
 * command would have given.
 *
 * Invariants.
 *   1. call->done is called once, and from within take only by take itself.
 *   2. A call that ends refused or gone leaves nothing taken, as soon as the answers are in and the
 *      refunds have arrived. Lost for good (units, never beyond a limit): what a server took whose
 *      answer or refund a broken connection swallowed.
 *   3. A ticket whose caller waits is in the queue, so its deadline holds whatever becomes of
 *      servers.
 *
 * Rejected: sending a command again that a broken connection swallowed (it may have been run: one
 * request would count twice); asking the slots at once (a refusal in one then always costs a refund
 * in all others). */
#include <string.h>

#include "base/arith.h"
#include "remote/redis_store.h"

/* ---- deadlines ------------------------------------------------------------------------------ */

static void on_idle(uv_idle_t *idle)
{
    (void)idle;
}

static void on_check(uv_check_t *check)
{
    struct wr_redis_store *store = check->data;

    (void)uv_check_stop(&store->check);
    (void)uv_idle_stop(&store->idle);
    wr_redis_expire(store);
}

/* Timers run before sockets are read. After a turn that took long, answers lie there that came in
 * time: they are read first, without sleeping, then it is looked who is due. */
static void on_timer(uv_timer_t *timer)
{
    struct wr_redis_store *store = timer->data;

    (void)uv_idle_start(&store->idle, on_idle);
    (void)uv_check_start(&store->check, on_check);
}

static void arm(struct wr_redis_store *store, int64_t now_ns)
{
    int64_t wait_ns = wr_max_i64(0, store->queue.first->due_ns - now_ns);

    uv_update_time(store->loop);
    (void)uv_timer_start(&store->timer, on_timer,
                         (uint64_t)((wait_ns + WR_NS_PER_MS - 1) / WR_NS_PER_MS), 0);
}

void wr_redis_wait(struct wr_redis_ticket *ticket)
{
    struct wr_redis_store *store = ticket->store;
    int64_t now_ns = wr_redis_now_ns();

    ticket->due_ns = now_ns + store->deadline_ns;
    wr_redis_queue_push(&store->queue, ticket);
    if (!uv_is_active((uv_handle_t *)&store->timer) && !uv_is_active((uv_handle_t *)&store->check))
        arm(store, now_ns);
}

/* ---- sending -------------------------------------------------------------------------------- */

static void on_asking(void *context, struct wr_redis_link *link, const struct redisReply *reply)
{
    (void)context; /* if it was refused, so is what follows */
    (void)link;
    (void)reply;
}

static bool send_asking(struct wr_redis_link *link)
{
    static const char asking[] = "*1\r\n$6\r\nASKING\r\n";

    return wr_redis_link_send(link, asking, sizeof asking - 1, on_asking, NULL);
}

static bool send_command(struct wr_redis_ticket *ticket)
{
    struct wr_redis_store *store = ticket->store;
    struct wr_redis_link *link = ticket->node->link;
    size_t len = wr_redis_encode(store, ticket);

    if (len == 0 || (ticket->asking && store->router->encode == NULL && !send_asking(link)) ||
        !wr_redis_link_send(link, store->scratch, len, wr_redis_on_reply, ticket))
        return false;
    ticket->sent = true;
    ticket->sent_as = wr_redis_link_sent(link);
    store->state.commands++;
    return true;
}

enum wr_remote_trouble wr_redis_dispatch(struct wr_redis_ticket *ticket)
{
    struct wr_redis_node *node = ticket->node;

    if (node == NULL)
        node = ticket->node = ticket->store->router->route(ticket->store, ticket);
    ticket->paused = false;
    if (node == NULL && ticket->store->router->here != NULL &&
        ticket->store->router->here(ticket->store, ticket))
        return WR_TROUBLE_NONE;
    if (node == NULL && ticket->nowhere)
        return WR_TROUBLE_BUSY;
    if (node == NULL)
        return ticket->store->unroutable ? WR_TROUBLE_BREAKER : WR_TROUBLE_NONE;
    if (!wr_breaker_closed(&node->breaker))
        return WR_TROUBLE_BREAKER;
    if (node->link == NULL || !wr_redis_link_is_up(node->link))
        return WR_TROUBLE_NONE;
    return send_command(ticket) ? WR_TROUBLE_NONE : WR_TROUBLE_PROTOCOL;
}

void wr_redis_send_paused(struct wr_redis_queue *queue)
{
    struct wr_redis_ticket *next;

    for (struct wr_redis_ticket *ticket = queue->first; ticket != NULL; ticket = next) {
        next = ticket->next;
        if (ticket->paused && !ticket->sent)
            (void)wr_redis_dispatch(ticket);
    }
}

/* Of what is left, what is asked next. */
static uint32_t group_of(const struct wr_redis_ticket *ticket)
{
    struct wr_redis_store *store = ticket->store;

    return store->router->group == NULL ? ticket->left
                                        : store->router->group(store, ticket, ticket->left);
}

enum wr_remote_trouble wr_redis_advance(struct wr_redis_ticket *ticket)
{
    ticket->asked = group_of(ticket);
    ticket->left &= ~ticket->asked;
    ticket->node = NULL;
    ticket->asking = false;
    ticket->script_tries = 0;
    ticket->redirections = 0;
    ticket->pauses = 0;
    return wr_redis_dispatch(ticket);
}

void wr_redis_order(struct wr_redis_ticket *ticket)
{
    struct wr_redis_store *store = ticket->store;

    if (store->order_count >= WR_REDIS_ORDERS_MAX || store->closing) {
        wr_redis_ticket_free(ticket);
        return;
    }
    store->order_count++;
    ticket->due_ns = wr_redis_now_ns() + WR_REDIS_ORDER_NS;
    wr_redis_queue_push(&store->orders, ticket);
    (void)wr_redis_dispatch(ticket); /* where that fails it waits */
}

void wr_redis_orders_beat(struct wr_redis_store *store, int64_t now_ns)
{
    struct wr_redis_ticket *next;

    for (struct wr_redis_ticket *ticket = store->orders.first; ticket != NULL; ticket = next) {
        next = ticket->next;
        if (!ticket->sent && ticket->due_ns <= now_ns)
            wr_redis_finish(ticket, WR_REMOTE_GONE, WR_TROUBLE_TIMEOUT);
    }
}

static void resume_queue(struct wr_redis_queue *queue, const struct wr_redis_node *node)
{
    struct wr_redis_ticket *next;

    for (struct wr_redis_ticket *ticket = queue->first; ticket != NULL; ticket = next) {
        next = ticket->next;
        if (!ticket->sent && (ticket->node == node || ticket->node == NULL))
            (void)wr_redis_dispatch(ticket); /* if not, its deadline ends it */
    }
}

void wr_redis_resume(struct wr_redis_store *store, struct wr_redis_node *node)
{
    resume_queue(&store->orders, node); /* what is given back can be had by the others */
    resume_queue(&store->queue, node);
}

/* ---- giving back ---------------------------------------------------------------------------- */

void wr_redis_give_back(struct wr_redis_store *store, const struct wr_remote_charge *charges,
                        uint32_t which)
{
    while (which != 0) {
        struct wr_redis_ticket *ticket = wr_redis_ticket_new(store, WR_REDIS_REFUND);
        uint32_t group;
        if (ticket == NULL)
            return;
        if (!wr_redis_ticket_keep(ticket, charges, which, 0)) {
            wr_redis_ticket_free(ticket);
            return;
        }
        for (unsigned i = 0; i < ticket->count; i++)
            ticket->kept[i].charge.cost += ticket->kept[i].charge.granted;
        ticket->left = (UINT32_C(1) << ticket->count) - 1;
        group = ticket->asked = group_of(ticket);
        ticket->left = 0;
        wr_redis_order(ticket);
        /* Bit j of |group| is the j-th bit of |which|. */
        for (uint32_t rest = which; rest != 0; rest &= rest - 1, group >>= 1)
            if ((group & 1) != 0)
                which &= ~(rest & (~rest + 1));
    }
}

uint32_t wr_redis_charged(const struct wr_remote_charge *charges, uint32_t which)
{
    uint32_t out = 0;

    for (unsigned i = 0; i < WEIR_LIMITS_MAX; i++)
        if ((which >> i & 1) != 0 && charges[i].allowed && charges[i].cost + charges[i].granted > 0)
            out |= UINT32_C(1) << i;
    return out;
}

void wr_redis_take_back(struct wr_redis_ticket *ticket)
{
    const struct wr_remote_charge *charges = ticket->call->charge;

    wr_redis_give_back(ticket->store, charges, wr_redis_charged(charges, ticket->taken));
    ticket->taken = 0;
}

/* ---- endings -------------------------------------------------------------------------------- */

void wr_redis_finish(struct wr_redis_ticket *ticket, enum wr_remote_result result,
                     enum wr_remote_trouble trouble)
{
    struct wr_redis_store *store = ticket->store;
    struct wr_remote_call *call = ticket->call;
    bool under_way = ticket->sent;

    if (ticket->queue == &store->orders)
        store->order_count--;
    wr_redis_queue_leave(ticket);
    wr_redis_members_ended(store, ticket);
    ticket->late = true;
    if (call != NULL) {
        if (result == WR_REMOTE_GONE) {
            store->state.gone[trouble]++;
            if (ticket->taken != 0)
                wr_redis_take_back(ticket);
        }
        call->trouble = result == WR_REMOTE_GONE ? trouble : WR_TROUBLE_NONE;
        call->retry_ns = result == WR_REMOTE_GONE ? wr_redis_retry_ns(ticket->node) : 0;
        /* The answer to what is under way may still take: it is read into copies. */
        if (under_way && (ticket->op != WR_REDIS_TAKE ||
                          !wr_redis_ticket_keep(ticket, call->charge, ticket->asked, call->shadow)))
            ticket->op = WR_REDIS_JUDGE;
        ticket->asked = (UINT32_C(1) << ticket->count) - 1;
        ticket->call = NULL;
    }
    if (!under_way)
        wr_redis_ticket_free(ticket);
    if (call != NULL)
        call->done(call, result);
}

/* Time is up for |ticket|. An order that is under way goes on: nobody waits for it. */
static void due(struct wr_redis_ticket *ticket, int64_t now_ns)
{
    struct wr_redis_node *node = ticket->sent ? ticket->node : NULL;

    wr_redis_finish(ticket, WR_REMOTE_GONE, WR_TROUBLE_TIMEOUT);
    if (node != NULL)
        wr_redis_node_failed(node, now_ns);
}

void wr_redis_expire(struct wr_redis_store *store)
{
    int64_t now_ns = wr_redis_now_ns();

    while (store->queue.first != NULL && store->queue.first->due_ns <= now_ns)
        due(store->queue.first, now_ns);
    if (store->queue.first != NULL && !store->closing)
        arm(store, now_ns);
}

static void end_failing(struct wr_redis_store *store, enum wr_remote_trouble trouble)
{
    struct wr_redis_ticket *ticket;

    while ((ticket = store->failing.first) != NULL) {
        wr_redis_queue_leave(ticket);
        wr_redis_finish(ticket, WR_REMOTE_GONE, trouble);
    }
}

/* Callers that hear of it may ask again: those are not among what is ended here. */
void wr_redis_abandon(struct wr_redis_store *store, struct wr_redis_node *node,
                      enum wr_remote_trouble trouble)
{
    struct wr_redis_ticket *next;

    for (struct wr_redis_ticket *ticket = store->queue.first; ticket != NULL; ticket = next) {
        next = ticket->next;
        if (ticket->sent || ticket->node != node)
            continue;
        wr_redis_queue_leave(ticket);
        wr_redis_queue_push(&store->failing, ticket);
    }
    end_failing(store, trouble);
}

void wr_redis_abandon_all(struct wr_redis_store *store)
{
    struct wr_redis_ticket *ticket;

    while (store->orders.first != NULL)
        wr_redis_finish(store->orders.first, WR_REMOTE_GONE, WR_TROUBLE_CONNECT);
    while ((ticket = store->queue.first) != NULL) {
        wr_redis_queue_leave(ticket);
        wr_redis_queue_push(&store->failing, ticket);
    }
    end_failing(store, WR_TROUBLE_CONNECT);
}

void wr_redis_reroute(struct wr_redis_store *store, const struct wr_redis_node *node)
{
    struct wr_redis_queue *const queues[] = {&store->queue, &store->orders};

    for (size_t i = 0; i < 2; i++)
        for (struct wr_redis_ticket *ticket = queues[i]->first; ticket != NULL;
             ticket = ticket->next)
            if (!ticket->sent && ticket->node == node)
                ticket->node = NULL;
    wr_redis_resume(store, NULL);
}
