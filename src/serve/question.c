/* question.c - a question to the store: asked, come back, completed, given back.
 *
 *   begun --> ASKING --done--> DONE --> given out, forgotten
 *       |           |           ^
 *       |           +--upgrade--|--> AGAIN
 *       +--> WAITS --landed--> AGAIN (begun anew), ALONE (begun anew, ended without the store)
 *
 * Invariants:
 *   1. A question that the store has is not freed, whoever goes: its memory is the backend's until
 *      done. Without asks, what it took is given back when it is.
 *   2. What was decided under a handle is completed under it. */
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "engine/explain.h"
#include "engine/shared.h"
#include "lib/handle.h"
#include "serve/broker_parts.h"

/* ---- questions --------------------------------------------------------------------------------
 */

struct wr_question *wr_question_new(struct wr_asks *asks)
{
    struct wr_broker *d = asks->loop->broker;
    struct wr_question *question = d->spare;

    if (question != NULL)
        d->spare = question->next;
    else
        question = malloc(sizeof *question);
    if (question == NULL)
        return NULL;
    question->next = NULL;
    question->asks = asks;
    question->broker = d;
    question->loop = d->loop;
    question->handle = NULL;
    question->link = NULL;
    question->flight = NULL;
    question->since_ns = 0;
    question->taking = false;
    question->heard = false;
    question->state = WR_QUESTION_AGAIN;
    return question;
}

static void leave_link(struct wr_question *question)
{
    struct wr_store_link *link = question->link;

    question->link = NULL;
    if (link != NULL && wr_store_link_leave(link))
        wr_broker_wake(question->broker);
}

void wr_question_free(struct wr_question *question)
{
    struct wr_broker *d = question->broker;

    leave_link(question);
    if (question->handle != NULL)
        wr_handle_unref(question->handle);
    question->handle = NULL;
    question->next = d->spare;
    d->spare = question;
}

static struct wr_engine *engine_of(const struct wr_question *question)
{
    return question->handle->weir->engine;
}

/* One more that its asks waits for. */
static void depart(struct wr_question *question)
{
    struct wr_asks *asks = question->asks;

    question->since_ns = question->since_ns != 0 ? question->since_ns : uv_hrtime();
    if (asks->since_ns == 0)
        asks->since_ns = question->since_ns;
    asks->outstanding++;
}

/* One less. */
static void arrive(struct wr_question *question)
{
    struct wr_asks *asks = question->asks;

    if (--asks->outstanding == 0)
        wr_broker_ready(question->broker, asks);
}

void wr_question_landed(struct wr_question *question, bool gone, const struct wr_remote_call *of)
{
    question->lost_by = of->trouble;
    question->pending.call.retry_ns = of->retry_ns;
    question->state = gone ? WR_QUESTION_ALONE : WR_QUESTION_AGAIN;
    arrive(question);
}

/* Units of leases that were spent on it are counted, and what it owes the store is charged there.
 */
void wr_question_decided(struct wr_question *question, const struct weir_answer *answer)
{
    struct wr_broker *d = question->broker;
    const struct wr_pending *p = &question->pending;
    struct wr_store_link *link = question->link != NULL ? question->link : d->link;

    if (p->held != 0 && answer->outcome != WEIR_DENY)
        wr_broker_count(&d->loop->metrics.store.lease_spent,
                        (uint64_t)__builtin_popcount(p->held) * (uint64_t)p->cost);
    for (unsigned i = 0; p->force != 0 && link != NULL && i < p->call.count; i++)
        if ((p->force >> i & 1) != 0)
            wr_store_link_force(link, &p->call.charge[i], p->cost, p->call.now_ns);
}

/* ---- coming back ------------------------------------------------------------------------------
 */

/* By index in the loop's policy: what was decided under another is not counted by limit. */
static void count_degraded(const struct wr_question *question)
{
    const struct wr_pending *p = &question->pending;
    struct wr_loop *loop = question->loop;
    static const enum wr_limit_counter counters[] = {[WR_GONE_LOCAL] = WR_LIMIT_GONE_LOCAL,
                                                     [WR_GONE_OPEN] = WR_LIMIT_GONE_OPEN,
                                                     [WR_GONE_CLOSED] = WR_LIMIT_GONE_CLOSED};

    if (question->handle != loop->handle)
        return;
    for (unsigned i = 0; i < p->ballot.count; i++) {
        unsigned limit = p->ballot.limit[i];
        if ((p->asked >> i & 1) != 0)
            wr_broker_count(
                &loop->metrics
                     .limit[limit]
                           [counters[wr_policy_limit(loop->handle->policy, limit)->when_gone]],
                1);
    }
}

static int64_t now_of(const struct wr_question *question)
{
    struct wr_loop *loop = question->loop;

    return question->handle == loop->handle ? wr_loop_now(loop) : weir_now(question->handle->weir);
}

static void complete(struct wr_question *question, enum wr_remote_result result, unsigned nodes)
{
    struct wr_pending *p = &question->pending;
    int64_t now = now_of(question);
    uint32_t refund;

    question->heard = result == WR_REMOTE_DONE;
    refund = wr_engine_finish(engine_of(question), p, result, nodes, now, &question->answer);

    for (unsigned i = 0; question->link != NULL && i < p->call.count; i++) {
        int64_t cost = (refund >> i & 1) != 0 ? p->call.charge[i].cost : 0;
        if (cost - p->adjust[i] > 0)
            wr_store_link_refund(question->link, &p->call.charge[i], cost - p->adjust[i], now);
        if (p->adjust[i] < 0)
            wr_broker_count(&question->loop->metrics.store.lease_returned, (uint64_t)-p->adjust[i]);
    }
    if (result == WR_REMOTE_GONE)
        count_degraded(question);
    if (p->upgrade_to >= 0 && question->asks != NULL && !question->taking) {
        question->state = WR_QUESTION_AGAIN; /* refused: nothing is taken */
        return;
    }
    wr_question_decided(question, &question->answer);
    question->state = WR_QUESTION_DONE;
}

/* Leases that are not kept go back as they come. */
static void hand_back(struct wr_question *question)
{
    struct wr_pending *p = &question->pending;
    int64_t now = now_of(question);

    for (unsigned i = 0; i < p->call.count; i++) {
        const struct wr_remote_charge *charge = &p->call.charge[i];
        uint64_t key = charge->granted > 0 ? wr_engine_lease_key(p, i) : 0;
        int64_t units = key != 0 ? wr_engine_lease_return(engine_of(question), key, now) : 0;
        if (units == 0)
            continue;
        wr_store_link_refund(question->link, charge, units, now);
        wr_broker_count(&question->loop->metrics.store.lease_returned, (uint64_t)units);
    }
}

static void count_done(struct wr_question *question, enum wr_remote_result result)
{
    struct wr_store_metrics *m = &question->loop->metrics.store;
    uint64_t elapsed = uv_hrtime() - question->asked_ns;

    if (result == WR_REMOTE_DONE)
        wr_metrics_store(m, (int64_t)elapsed);
    else
        wr_broker_count(&m->gone[question->pending.call.trouble], 1);
}

static void on_done(struct wr_remote_call *call, enum wr_remote_result result)
{
    struct wr_question *question = call->context;
    struct wr_broker *d = question->broker;
    struct wr_lease_giving to = wr_broker_giving(d);

    d->asking--;
    count_done(question, result);
    wr_store_link_heard(question->link, result);
    complete(question, result, wr_store_link_nodes(question->link));
    if (result == WR_REMOTE_DONE && !wr_leases_keep(question))
        hand_back(question);
    wr_leases_landed(d->leases, question, result == WR_REMOTE_GONE, &to);
    wr_broker_watch_leases(d);
    if (question->taking)
        return;
    if (question->asks != NULL) {
        arrive(question);
        return;
    }
    d->abandoned--;
    wr_answer_give_back(question->link, question->handle, &question->answer, now_of(question));
    wr_question_free(question);
}

void wr_question_finish_alone(struct wr_question *question, enum wr_remote_trouble trouble)
{
    struct wr_broker *d = question->broker;

    wr_broker_count(&d->loop->metrics.store.gone[trouble], 1);
    question->pending.call.trouble = trouble;
    complete(question, WR_REMOTE_GONE,
             d->link != NULL ? wr_store_link_nodes(d->link)
                             : wr_policy_settings(question->handle->policy)->store->nodes);
}

void wr_question_ask(struct wr_question *question)
{
    struct wr_broker *d = question->broker;
    struct wr_remote_call *call = &question->pending.call;

    if (d->link == NULL || d->asking >= WR_QUESTIONS_MAX) {
        wr_question_finish_alone(question, d->link == NULL ? WR_TROUBLE_CONNECT : WR_TROUBLE_BUSY);
        return;
    }
    if (question->link == NULL) {
        question->link = d->link;
        wr_store_link_join(d->link);
    }
    if (!wr_leases_prepare(d->leases, question, wr_store_link_nodes(d->link))) {
        question->state = WR_QUESTION_WAITS;
        depart(question);
        return;
    }
    question->state = WR_QUESTION_ASKING;
    question->asked_ns = uv_hrtime();
    question->taking = true;
    call->done = on_done;
    call->context = question;
    d->asking++;
    wr_broker_count(&d->loop->metrics.store.calls, 1);
    wr_store_link_take(question->link, call);
    question->taking = false;
    if (question->state == WR_QUESTION_ASKING)
        depart(question);
}

void wr_question_abandon(struct wr_question *question)
{
    struct wr_broker *d = question->broker;

    question->asks = NULL;
    switch (question->state) {
    case WR_QUESTION_ASKING:
        d->abandoned++;
        return; /* on_done frees it */
    case WR_QUESTION_WAITS:
        wr_leases_leave(question);
        break;
    case WR_QUESTION_DONE:
        wr_answer_give_back(question->link != NULL ? question->link : d->link, question->handle,
                            &question->answer, now_of(question));
        break;
    case WR_QUESTION_AGAIN:
    case WR_QUESTION_ALONE:
        break;
    }
    wr_question_free(question);
}

/* ---- afterwards -------------------------------------------------------------------------------
 */

static void adjust(struct wr_store_link *link, const struct wr_pending *p)
{
    for (unsigned i = 0; link != NULL && i < p->call.count; i++) {
        if (p->adjust[i] > 0)
            wr_store_link_force(link, &p->call.charge[i], p->adjust[i], p->call.now_ns);
        else if (p->adjust[i] < 0)
            wr_store_link_refund(link, &p->call.charge[i], -p->adjust[i], p->call.now_ns);
    }
}

void wr_broker_adjust(struct wr_loop *loop, const struct wr_handle *handle,
                      const struct wr_pending *pending)
{
    struct wr_store_link *link;

    if (pending->call.count == 0)
        return;
    link = loop->broker->link;
    if (link != NULL && wr_store_link_fits(link, handle))
        adjust(link, pending);
}

void wr_answer_give_back(struct wr_store_link *link, struct wr_handle *handle,
                         struct weir_answer *answer, int64_t now)
{
    struct wr_engine *engine = handle->weir->engine;
    struct wr_pending pending;

    if (answer->outcome == WEIR_DENY)
        return;
    answer->expires_ns = now + WR_NS_PER_S; /* it has just been decided */
    if (wr_engine_settle_shared(engine, answer, 0, now, &pending) == 0)
        adjust(link, &pending);
    wr_engine_release_shared(engine, answer, now, &pending);
    adjust(link, &pending);
}

void wr_broker_give_back(struct wr_loop *loop, struct wr_handle *handle, struct weir_answer *answer)
{
    struct wr_store_link *link = loop->broker->link;

    wr_answer_give_back(link != NULL && wr_store_link_fits(link, handle) ? link : NULL, handle,
                        answer, weir_now(handle->weir));
}

int wr_broker_forget(struct wr_loop *loop, const struct wr_selected *key)
{
    struct wr_engine *engine = loop->handle->weir->engine;
    struct wr_remote_charge charge;
    int result;

    if (!wr_engine_store_key(engine, key, &charge))
        return wr_engine_forget(engine, key);
    (void)wr_engine_forget_lease(engine, key);
    result = wr_engine_forget(engine, key); /* of times without the store */
    if (loop->broker->link != NULL)
        wr_store_link_drop(loop->broker->link, &charge);
    return result == WEIR_EBUSY ? result : 0;
}
