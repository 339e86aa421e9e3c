/* ring_decide.c - a question decided here, whether a node or one of our own loops asks it.
 *
 *   its keys are counted here            decided
 *   one is on its way to another node    ask again in a moment (TRYAGAIN)
 *   not here, and ours to count          decided, and remembered as here; while we join, and do not
 *                                        know yet whether somebody has it, asked again in a moment
 *   not here, and another node's         MOVED there; who was sent by that says so (regardless),
 *                                        and is not sent on, unless this node leaves
 *
 * Invariants.
 *   1. A key is decided under the lock of the table that says where it is: never by a node that is
 *      handing it over at that moment. That this node leaves is looked at under it as well: what is
 *      counted anew here is met by the walk that hands over, or is another node's.
 *   2. A ticket of our own is answered at the end of the turn, never from within take.
 *
 * Rejected: forwarding for others what is not ours (a node that is asked wrongly would wait for
 * another; who asks can go there himself). */
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "remote/ring_store.h"

#define RETRY_MS 1

int64_t wr_ring_now(const struct wr_ring *ring)
{
    return ring->clock != NULL ? ring->clock(ring->clock_context) : wr_owner_now(ring->owner);
}

/* ---- deciding -------------------------------------------------------------------------------- */

/* Whose a key is that is not here. Another loop may have begun to leave since this one looked. */
static struct wr_ring_peer *target_of(struct wr_ring *ring, const unsigned char *tag, bool leaving)
{
    if (leaving && wr_ring_self(ring)->targeted)
        wr_ring_view(ring);
    return wr_ring_target(ring, tag);
}

/* A node that has just started may be asked before it knows the others: they may count its keys.
 * Once it knows them, those who are ready are asked; without any, it may count. */
static bool is_too_new(struct wr_ring *ring)
{
    return wr_ring_keys_status(ring->keys) == WR_RING_JOINING &&
           (!wr_ring_self(ring)->routed || wr_ring_is_meeting(ring));
}

static enum wr_ring_result place(struct wr_ring *ring, struct wr_ring_question *q)
{
    bool leaving = wr_ring_is_leaving(ring), too_new = !q->regardless && is_too_new(ring);

    for (unsigned i = 0; i < q->count; i++) {
        const unsigned char *tag = q->charge[i].tag;
        enum wr_ring_place place = wr_ring_keys_place(ring->keys, tag);
        struct wr_ring_peer *target;

        if (place == WR_RING_MOVING)
            return WR_RING_AGAIN;
        if (place == WR_RING_HERE || (q->regardless && !leaving))
            continue;
        target = target_of(ring, tag, leaving);
        if ((target == NULL || target->node == NULL) && too_new)
            return WR_RING_AGAIN;
        if (target == NULL || target->node == NULL)
            continue;
        q->elsewhere = target;
        return WR_RING_MOVED;
    }
    return WR_RING_DECIDED;
}

static void decide(struct wr_ring *ring, struct wr_ring_question *q)
{
    int64_t now = wr_ring_now(ring);

    for (unsigned i = 0; i < q->count; i++)
        wr_ring_keys_note(ring->keys, &q->charge[i]);
    q->passed = true;
    if (q->op == WR_RING_TAKE || q->op == WR_RING_JUDGE) {
        q->passed = wr_owner_take(ring->owner, q->charge, q->count, q->shadow, q->nodes,
                                  q->op == WR_RING_JUDGE, now);
        return;
    }
    for (unsigned i = 0; i < q->count; i++) {
        if (q->op == WR_RING_REFUND)
            wr_owner_refund(ring->owner, &q->charge[i], now);
        else if (q->op == WR_RING_FORCE)
            wr_owner_force(ring->owner, &q->charge[i], now);
        else
            wr_owner_drop(ring->owner, &q->charge[i]);
    }
}

enum wr_ring_result wr_ring_decide(struct wr_ring *ring, struct wr_ring_question *q)
{
    enum wr_ring_result result;

    q->passed = false;
    q->elsewhere = NULL;
    if (ring->owner == NULL)
        return WR_RING_UNABLE;
    wr_ring_keys_lock(ring->keys);
    result = place(ring, q);
    if (result == WR_RING_DECIDED)
        decide(ring, q);
    wr_ring_keys_unlock(ring->keys);
    return result;
}

/* ---- our own tickets ------------------------------------------------------------------------- */

static struct wr_remote_charge *charge_of(struct wr_redis_ticket *ticket, unsigned i)
{
    return ticket->call != NULL ? &ticket->call->charge[i] : &ticket->kept[i].charge;
}

static enum wr_ring_op op_of(const struct wr_redis_ticket *ticket)
{
    static const enum wr_ring_op ops[] = {
        [WR_REDIS_TAKE] = WR_RING_TAKE,     [WR_REDIS_JUDGE] = WR_RING_JUDGE,
        [WR_REDIS_REFUND] = WR_RING_REFUND, [WR_REDIS_FORCE] = WR_RING_FORCE,
        [WR_REDIS_DROP] = WR_RING_DROP,     [WR_REDIS_MEMBERS] = WR_RING_DROP,
    };
    return ops[ticket->op];
}

static void question_of(struct wr_redis_ticket *ticket, struct wr_ring_question *q)
{
    uint32_t shadow = ticket->call != NULL ? ticket->call->shadow : ticket->shadow;

    q->op = op_of(ticket);
    q->regardless = ticket->asking;
    q->nodes = ticket->store->state.nodes;
    q->count = 0;
    q->shadow = 0;
    for (uint32_t rest = ticket->asked; rest != 0; rest &= rest - 1) {
        unsigned i = (unsigned)__builtin_ctz(rest);
        q->shadow |= (shadow >> i & 1) << q->count;
        q->charge[q->count++] = *charge_of(ticket, i);
    }
}

static void answer(struct wr_redis_ticket *ticket, const struct wr_ring_question *q)
{
    unsigned at = 0;

    for (uint32_t rest = ticket->asked; rest != 0; rest &= rest - 1)
        *charge_of(ticket, (unsigned)__builtin_ctz(rest)) = q->charge[at++];
}

static void gone(struct wr_redis_ticket *ticket, enum wr_remote_trouble trouble)
{
    wr_redis_finish(ticket, WR_REMOTE_GONE, trouble);
}

static void pause_ticket(struct wr_ring *ring, struct wr_redis_ticket *ticket)
{
    ticket->paused = true;
    if (!uv_is_active((uv_handle_t *)&ring->retry))
        (void)uv_timer_start(&ring->retry, wr_ring_on_retry, RETRY_MS, 0);
}

/* Ask at |peer|, whose all of it is; charges under several tags are asked one by one. */
static void follow(struct wr_redis_ticket *ticket, struct wr_ring_peer *peer)
{
    enum wr_remote_trouble trouble;

    if (ticket->redirections++ >= WR_RING_REDIRECTIONS_MAX) {
        gone(ticket, WR_TROUBLE_BUSY);
        return;
    }
    if (__builtin_popcount(ticket->asked) > 1 && !ticket->singly) {
        ticket->left |= ticket->asked;
        ticket->singly = true;
        trouble = wr_redis_advance(ticket);
    } else {
        wr_ring_wake(peer);
        ticket->node = peer->node;
        ticket->asking = true;
        trouble = peer->node != NULL                    ? wr_redis_dispatch(ticket)
                  : wr_ring_here(ticket->store, ticket) ? WR_TROUBLE_NONE
                                                        : WR_TROUBLE_BUSY;
    }
    if (trouble != WR_TROUBLE_NONE)
        gone(ticket, trouble);
}

static void decide_ticket(struct wr_ring *ring, struct wr_redis_ticket *ticket)
{
    struct wr_ring_question q;
    enum wr_ring_result result;

    ticket->sent = false;
    if (ticket->late) { /* nobody waits any more, and nothing was taken yet */
        gone(ticket, WR_TROUBLE_NONE);
        return;
    }
    question_of(ticket, &q);
    result = wr_ring_decide(ring, &q);
    if (result == WR_RING_DECIDED) {
        answer(ticket, &q);
        wr_redis_decided(ticket, q.passed);
    } else if (result == WR_RING_AGAIN) {
        pause_ticket(ring, ticket);
    } else if (result == WR_RING_MOVED) {
        follow(ticket, q.elsewhere);
    } else {
        gone(ticket, WR_TROUBLE_BUSY);
    }
}

static void on_idle(uv_idle_t *idle)
{
    (void)idle;
}

bool wr_ring_here(struct wr_redis_store *store, struct wr_redis_ticket *ticket)
{
    struct wr_ring *ring = wr_ring_of(store);

    if (ring->here_count == ring->here_size) {
        size_t size = ring->here_size == 0 ? 64 : 2 * ring->here_size;
        struct wr_redis_ticket **bigger =
            realloc(ring->here, size * sizeof(struct wr_redis_ticket *));
        if (bigger == NULL)
            return false;
        ring->here = bigger;
        ring->here_size = size;
    }
    if (ring->here_count == 0) {
        (void)uv_idle_start(&ring->idle, on_idle);
        (void)uv_check_start(&ring->check, wr_ring_on_check);
    }
    ring->here[ring->here_count++] = ticket;
    ticket->sent = true;
    return true;
}

/* What is added meanwhile is of this turn too, up to as many again as there were. */
void wr_ring_on_check(uv_check_t *check)
{
    struct wr_ring *ring = check->data;
    size_t count = ring->here_count;

    for (size_t i = 0; i < count && !ring->store->closing; i++)
        decide_ticket(ring, ring->here[i]);
    ring->here_count -= count;
    memmove(ring->here, ring->here + count, ring->here_count * sizeof(struct wr_redis_ticket *));
    if (ring->here_count > 0)
        return;
    (void)uv_check_stop(check);
    (void)uv_idle_stop(&ring->idle);
}

/* ---- what is asked of others ----------------------------------------------------------------- */

static void count(const struct wr_redis_ticket *ticket, enum wr_ring_counter what)
{
    const struct wr_ring_peer *peer = wr_ring_peer_of(wr_ring_of(ticket->store), ticket->node);

    if (peer != NULL)
        wr_ring_counts_add(peer->count, what, 1);
}

/* ---- redirections ---------------------------------------------------------------------------- */

void wr_ring_on_retry(uv_timer_t *timer)
{
    struct wr_ring *ring = timer->data;

    wr_ring_learn(ring);
    wr_redis_send_paused(&ring->store->queue);
    wr_redis_send_paused(&ring->store->orders);
}

bool wr_ring_redirected(struct wr_redis_store *store, struct wr_redis_ticket *ticket,
                        enum wr_redis_error error, const struct redisReply *reply)
{
    struct wr_ring *ring = wr_ring_of(store);
    struct wr_ring_peer *peer;
    char host[WR_REDIS_HOST_MAX];
    uint16_t slot, port;

    count(ticket, WR_RING_ANSWERED);
    if (error == WR_REDIS_TRYAGAIN) {
        pause_ticket(ring, ticket);
        return true;
    }
    if (error != WR_REDIS_MOVED ||
        !wr_redis_redirection(reply->str, reply->len, &slot, host, &port))
        return false;
    peer = wr_ring_peer_at(ring, host, port);
    if (peer == NULL)
        return false;
    follow(ticket, peer);
    return true;
}

/* ---- on the wire ----------------------------------------------------------------------------- */

static void ask_of(const struct wr_ring_question *q, struct wr_ring_ask *ask)
{
    ask->op = q->op;
    ask->regardless = q->regardless;
    ask->nodes = (uint16_t)wr_min_u64(wr_max_u64(q->nodes, 1), UINT16_MAX);
    ask->count = q->count;
    for (unsigned i = 0; i < q->count; i++) {
        const struct wr_remote_charge *from = &q->charge[i];
        struct wr_ring_charge *to = &ask->charge[i];
        to->key.name = (struct weir_slice){from->name, strlen(from->name)};
        memcpy(to->key.tag, from->tag, sizeof to->key.tag);
        memcpy(to->key.limit, from->limit, sizeof to->key.limit);
        to->cost = from->cost;
        to->extra = wr_max_i64(0, from->extra);
        to->ttl_ns = wr_max_i64(0, from->ttl_ns);
        to->receipt[0] = from->receipt[0];
        to->receipt[1] = from->receipt[1];
        to->shadow = (q->shadow >> i & 1) != 0;
    }
}

size_t wr_ring_encode(struct wr_redis_store *store, struct wr_redis_ticket *ticket)
{
    struct wr_ring_question q;
    struct wr_ring_ask ask;
    char bytes[WR_RING_ASK_BYTES];
    size_t len;

    _Static_assert(sizeof(struct wr_limit) == WR_RING_LIMIT_BYTES, "a limit travels as it is");
    _Static_assert(WR_TAG_BYTES == WR_RING_TAG_BYTES, "");
    question_of(ticket, &q);
    ask_of(&q, &ask);
    len = wr_ring_ask_write(bytes, sizeof bytes, &ask);
    if (len == 0 || !wr_redis_reserve_scratch(store, len + 128))
        return 0;
    count(ticket, WR_RING_FORWARDED);
    return wr_ring_command(store->scratch, store->scratch_size, "WEIR.RING.TAKE", bytes, len);
}

static bool makes_sense(const struct wr_remote_charge *asked, const struct wr_ring_verdict *v)
{
    return v->granted <= asked->extra && (v->granted == 0 || v->allowed) &&
           v->remaining <= wr_limit_capacity(asked->limit) && v->lease_ns <= asked->ttl_ns &&
           (v->allowed || v->never || v->retry_after_ns > 0);
}

static void verdict_of(struct wr_remote_charge *charge, const struct wr_ring_verdict *v)
{
    charge->allowed = v->allowed;
    charge->never = v->never;
    charge->granted = v->granted;
    charge->lease_ns = v->lease_ns;
    charge->remaining = v->remaining;
    charge->retry_after_ns = v->retry_after_ns;
    charge->delay_ns = v->delay_ns;
    charge->next_ns = v->next_ns;
    charge->reset_ns = v->reset_ns;
    charge->receipt[0] = v->receipt[0];
    charge->receipt[1] = v->receipt[1];
}

enum wr_script_result wr_ring_decode(struct wr_redis_ticket *ticket, const struct redisReply *reply,
                                     bool *passed)
{
    struct wr_ring_answer out;
    unsigned at = 0;

    *passed = false;
    count(ticket, ticket->late ? WR_RING_LATE : WR_RING_ANSWERED);
    if (reply->type != REDIS_REPLY_STRING ||
        !wr_ring_answer_read((struct weir_slice){reply->str, reply->len}, &out))
        return WR_SCRIPT_NONSENSE;
    *passed = out.passed;
    if (ticket->op != WR_REDIS_TAKE && ticket->op != WR_REDIS_JUDGE)
        return WR_SCRIPT_DONE;
    if (out.count != (unsigned)__builtin_popcount(ticket->asked))
        return WR_SCRIPT_NONSENSE;
    for (uint32_t rest = ticket->asked; rest != 0; rest &= rest - 1, at++)
        if (!makes_sense(charge_of(ticket, (unsigned)__builtin_ctz(rest)), &out.verdict[at]))
            return WR_SCRIPT_NONSENSE;
    at = 0;
    for (uint32_t rest = ticket->asked; rest != 0; rest &= rest - 1)
        verdict_of(charge_of(ticket, (unsigned)__builtin_ctz(rest)), &out.verdict[at++]);
    return WR_SCRIPT_DONE;
}
