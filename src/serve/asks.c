/* asks.c - asking, stopping, and doing it again.
 *
 * Problem. Doors are functions of their input: a request is decoded into scratch memory of the
 * door, decided and answered, and nothing of it is left. A decision that waits for a store would
 * need all of that to be kept, for each of three protocols.
 *
 * Idea. Nothing is kept but the decisions. The input stays where it is, and is handled once more
 * when they are there: decoding twice costs a microsecond, where the store takes hundreds.
 *
 * Nor are decisions, where all of a batch are there at once, as those of hot keys are that have
 * leases: they are remembered from the first on that is not.
 *
 * Invariants:
 *   1. The same input asks for the same decisions in the same order. So a door stops before the
 *      first thing that it cannot do twice, and never goes on behind a decision that is not there.
 *   2. All that is remembered was decided under one policy, and is given out under it: if another
 *      came meanwhile, what was taken goes back and everything is asked anew. On a connection to
 * one server that is heard in this order, so nobody is refused by his own shadow.
 *   3. What was given out and answered is forgotten, and was the caller's to take. What was not, is
 *      given back.
 *
 * Rejected: an answer kept with the policy it was made under, and rendered by it (every function of
 * every door, its counters and its log lines would need that policy passed in; reloads are rare).
 */
#include "serve/asks.h"

#include <string.h>

#include "base/units.h"
#include "lib/handle.h"
#include "serve/broker_parts.h"

enum kind { DECIDE, RESERVE, CHECK, ONE };

/* What is asked for. */
struct what {
    enum kind kind;
    const struct weir_request *request; /* DECIDE, RESERVE */
    unsigned limit;                     /* CHECK */
    struct weir_slice plain;            /* CHECK */
    const struct wr_selected *key;      /* ONE */
    unsigned plan;                      /* ONE */
    int64_t cost;                       /* CHECK, ONE */
};

bool wr_asks_shares(const struct wr_loop *loop)
{
    return wr_engine_shares(loop->handle->weir->engine);
}

bool wr_asks_shares_limit(const struct wr_loop *loop, unsigned limit)
{
    return wr_asks_shares(loop) && wr_policy_limit(loop->handle->policy, limit)->shared;
}

/* ---- beginning ------------------------------------------------------------------------------- */

/* A request whose customer has moved to |plan| meanwhile. */
static bool begin_by_plan(struct wr_engine *engine, const struct what *what, int plan, int64_t now,
                          struct wr_question *question)
{
    struct weir_request request = *what->request;

    request.plan = plan;
    return (what->kind == RESERVE ? wr_engine_begin_reserve : wr_engine_begin)(
        engine, &request, now, &question->answer, &question->pending);
}

static bool begin(struct wr_engine *engine, const struct what *what, int64_t now,
                  struct weir_answer *answer, struct wr_pending *pending)
{
    switch (what->kind) {
    case DECIDE:
        return wr_engine_begin(engine, what->request, now, answer, pending);
    case RESERVE:
        return wr_engine_begin_reserve(engine, what->request, now, answer, pending);
    case CHECK:
        return wr_engine_begin_check(engine, what->limit, what->plain, what->cost, false, now,
                                     answer, pending);
    case ONE:
    default:
        return wr_engine_begin_one(engine, what->key, what->plan, what->cost, now, answer, pending);
    }
}

/* What there is of it: an answer has room for far more limits than nearly any request meets. */
static void copy(struct weir_answer *to, const struct weir_answer *from)
{
    memcpy(to, from, offsetof(struct weir_answer, verdicts));
    memcpy(to->verdicts, from->verdicts, from->count * sizeof from->verdicts[0]);
    memcpy(to->receipts, from->receipts, from->count * sizeof from->receipts[0]);
}

static void append(struct wr_asks *asks, struct wr_question *question)
{
    if (asks->last == NULL)
        asks->last = &asks->first;
    question->next = NULL;
    question->handle = asks->loop->handle;
    wr_handle_ref(question->handle);
    *asks->last = question;
    asks->last = &question->next;
    asks->at = &question->next;
}

/* Not asked yet: the store is, or nobody. True: complete, in |answer|. */
static bool go_on(struct wr_question *question, struct weir_answer *answer)
{
    if (question->state == WR_QUESTION_ALONE)
        wr_question_finish_alone(question, question->lost_by);
    else
        wr_question_ask(question);
    if (question->state != WR_QUESTION_DONE)
        return false;
    copy(answer, &question->answer);
    return true;
}

/* Nothing can be remembered. */
static bool refuse_busy(struct weir_answer *answer)
{
    memset(answer, 0, sizeof *answer);
    answer->outcome = answer->verdicts[0].outcome = WEIR_DENY;
    answer->reason = answer->verdicts[0].reason = WEIR_REASON_BUSY;
    answer->retry_after_ns = answer->verdicts[0].retry_after_ns = WR_NS_PER_S;
    answer->decisive = -1;
    return true;
}

static bool begin_new(struct wr_asks *asks, const struct what *what, struct weir_answer *answer)
{
    struct wr_question *question = wr_question_new(asks);
    struct wr_engine *engine = asks->loop->handle->weir->engine;

    if (question == NULL)
        return refuse_busy(answer);
    if (!begin(engine, what, wr_loop_now(asks->loop), answer, &question->pending)) {
        append(asks, question);
        return go_on(question, answer);
    }
    wr_question_decided(question, answer);
    if (!asks->keep) {
        wr_question_free(question);
        return true;
    }
    question->state = WR_QUESTION_DONE;
    copy(&question->answer, answer);
    append(asks, question);
    return true;
}

/* It waited for a lease that is there now, or never will be; or its customer has moved. */
static bool begin_again(struct wr_asks *asks, struct wr_question *question, const struct what *what,
                        struct weir_answer *answer)
{
    struct wr_engine *engine = asks->loop->handle->weir->engine;
    int64_t now = wr_loop_now(asks->loop);
    int plan = what->request != NULL ? question->pending.upgrade_to : -1;
    bool complete;

    asks->at = &question->next;
    complete = plan >= 0 ? begin_by_plan(engine, what, plan, now, question)
                         : begin(engine, what, now, &question->answer, &question->pending);
    if (!complete)
        return go_on(question, answer);
    question->state = WR_QUESTION_DONE;
    wr_question_decided(question, &question->answer);
    copy(answer, &question->answer);
    return true;
}

static bool decide(struct wr_asks *asks, const struct what *what, struct weir_answer *answer)
{
    struct wr_question *question;

    if (asks->at == NULL)
        asks->at = &asks->first;
    question = *asks->at;
    if (question != NULL && asks->at == &asks->first && question->handle != asks->loop->handle) {
        wr_asks_abandon(asks);
        question = NULL;
    }
    if (question == NULL)
        return begin_new(asks, what, answer);
    if (question->state == WR_QUESTION_AGAIN || question->state == WR_QUESTION_ALONE)
        return begin_again(asks, question, what, answer);
    asks->at = &question->next;
    if (question->state != WR_QUESTION_DONE)
        return false;
    copy(answer, &question->answer);
    return true;
}

/* ---- several ----------------------------------------------------------------------------------
 */

/* |answer| was given by nobody but a lease, or by all that there is, and another has to wait. */
static bool remember(struct wr_asks *asks, const struct weir_answer *answer)
{
    struct wr_question *question = wr_question_new(asks);

    if (question == NULL)
        return false;
    question->state = WR_QUESTION_DONE;
    copy(&question->answer, answer);
    append(asks, question);
    return true;
}

static bool begin_all(struct wr_asks *asks, const struct weir_request *requests, size_t n,
                      struct weir_answer *answers, struct wr_question *question)
{
    struct wr_engine *engine = asks->loop->handle->weir->engine;
    int64_t now = wr_loop_now(asks->loop);
    size_t i = 0;

    while (i < n && wr_engine_begin(engine, &requests[i], now, &answers[i], &question->pending))
        wr_question_decided(question, &answers[i++]);
    if (i == n) {
        wr_question_free(question);
        return true;
    }
    for (size_t k = 0; k < i; k++) {
        if (remember(asks, &answers[k]))
            continue;
        /* No memory: what there is goes back, but for what is in no question, which is lost. */
        wr_engine_cancel(engine, &question->pending, now);
        wr_question_free(question);
        wr_asks_abandon(asks);
        for (k = 0; k < n; k++)
            (void)refuse_busy(&answers[k]);
        return true;
    }
    append(asks, question);
    asks->keep = true;
    (void)go_on(question, &answers[i]);
    while (++i < n)
        (void)wr_asks_decide(asks, &requests[i], &answers[i]);
    asks->keep = false;
    return !wr_asks_waits(asks);
}

bool wr_asks_decide_all(struct wr_asks *asks, const struct weir_request *requests, size_t n,
                        struct weir_answer *answers)
{
    struct wr_question *question = asks->first == NULL ? wr_question_new(asks) : NULL;
    bool there = true;

    if (question != NULL)
        return begin_all(asks, requests, n, answers, question);
    asks->keep = true;
    for (size_t i = 0; i < n; i++)
        there = wr_asks_decide(asks, &requests[i], &answers[i]) && there;
    asks->keep = false;
    return there;
}

/* The charges of shared limits among the first |n|, decided by leases. */
static bool remember_checks(struct wr_asks *asks, const struct weir_charge *charges, unsigned n,
                            const struct weir_verdict *verdicts,
                            const struct weir_receipt *receipts)
{
    struct weir_answer answer;

    for (unsigned i = 0; i < n; i++) {
        if (!wr_asks_shares_limit(asks->loop, charges[i].limit))
            continue;
        wr_engine_lease_answer(&verdicts[i], &receipts[i], charges[i].cost_units,
                               wr_loop_now(asks->loop), &answer);
        if (!remember(asks, &answer))
            return false;
    }
    return true;
}

/* How many of |charges|, from the first on, leases decide, or are not shared and still to be
 * decided. */
static unsigned check_leases(struct wr_asks *asks, const struct weir_charge *charges, unsigned n,
                             struct weir_verdict *verdicts, struct weir_receipt *receipts)
{
    struct wr_engine *engine = asks->loop->handle->weir->engine;
    int64_t now = wr_loop_now(asks->loop), spent = 0;
    uint64_t lease[WR_ASKS_BATCH];
    unsigned i;

    for (i = 0; i < n; i++)
        lease[i] = wr_engine_lease_of(engine, charges[i].limit, charges[i].key);
    for (i = 0; i < n; i++) {
        if (lease[i] == 0 && !wr_asks_shares_limit(asks->loop, charges[i].limit))
            continue;
        if (lease[i] == 0 ||
            !wr_engine_lease_check(engine, charges[i].limit, lease[i], charges[i].cost_units, now,
                                   &verdicts[i], &receipts[i]))
            break;
        spent += wr_engine_lease_taken(&receipts[i]);
    }
    if (spent > 0)
        wr_broker_count(&asks->loop->metrics.store.lease_spent, (uint64_t)spent);
    return i;
}

unsigned wr_asks_check_all(struct wr_asks *asks, const struct weir_charge *charges, unsigned n,
                           struct weir_verdict *verdicts)
{
    struct weir_receipt receipts[WR_ASKS_BATCH];
    struct weir_answer busy;
    unsigned known;

    if (asks->first != NULL)
        return 0;
    known = check_leases(asks, charges, n, verdicts, receipts);
    if (known < n && remember_checks(asks, charges, known, verdicts, receipts))
        return known;
    if (known < n) { /* no memory: what is in no question is lost */
        wr_asks_abandon(asks);
        (void)refuse_busy(&busy);
    }
    for (unsigned i = 0; i < n; i++) {
        if (!wr_asks_shares_limit(asks->loop, charges[i].limit))
            wr_engine_check(asks->loop->handle->weir->engine, charges[i].limit, charges[i].key,
                            charges[i].cost_units, wr_loop_now(asks->loop), &verdicts[i]);
        else if (known < n)
            verdicts[i] = busy.verdicts[0];
    }
    return n;
}

/* ---- what doors call ------------------------------------------------------------------------- */

bool wr_asks_decide(struct wr_asks *asks, const struct weir_request *request,
                    struct weir_answer *answer)
{
    const struct what what = {.kind = DECIDE, .request = request};

    if (wr_asks_shares(asks->loop))
        return decide(asks, &what, answer);
    (void)weir_decide(asks->loop->handle->weir, request, wr_loop_now(asks->loop), answer);
    return true;
}

bool wr_asks_reserve(struct wr_asks *asks, const struct weir_request *request,
                     struct weir_answer *answer)
{
    const struct what what = {.kind = RESERVE, .request = request};

    if (wr_asks_shares(asks->loop))
        return decide(asks, &what, answer);
    (void)weir_decide(asks->loop->handle->weir, request, wr_loop_now(asks->loop), answer);
    return true;
}

bool wr_asks_check(struct wr_asks *asks, unsigned limit, struct weir_slice key, int64_t cost,
                   struct weir_answer *answer)
{
    const struct what what = {.kind = CHECK, .limit = limit, .plain = key, .cost = cost};

    return decide(asks, &what, answer);
}

bool wr_asks_one(struct wr_asks *asks, const struct wr_selected *key, unsigned plan, int64_t cost,
                 struct weir_answer *answer)
{
    const struct what what = {.kind = ONE, .key = key, .plan = plan, .cost = cost};

    return decide(asks, &what, answer);
}

/* -1: nobody is limited. */
static int widest_plan(const struct wr_policy *policy, unsigned limit)
{
    const struct wr_policy_limit *quota = wr_policy_limit(policy, limit);
    int widest = -1;

    for (size_t plan = 0; plan < wr_policy_plan_count(policy); plan++)
        if (!quota->unlimited[plan] &&
            (widest < 0 || wr_policy_at_store(quota, (unsigned)plan)->units >
                               wr_policy_at_store(quota, (unsigned)widest)->units))
            widest = (int)plan;
    return widest;
}

bool wr_asks_counted(struct wr_asks *asks, const struct wr_selected *key, int64_t *used)
{
    int plan = widest_plan(asks->loop->handle->policy, key->limit);
    const struct wr_question *question;
    const struct wr_remote_charge *charge;
    struct weir_answer answer;

    *used = -1;
    if (plan < 0)
        return true;
    if (!wr_asks_one(asks, key, (unsigned)plan, 0, &answer))
        return false;
    question = asks->first;
    while (question != NULL && asks->at != &question->next)
        question = question->next;
    if (answer.count != 1 || question == NULL || !question->heard) /* count 0: no memory */
        return true;
    charge = &question->pending.call.charge[0];
    *used = charge->limit->units - charge->remaining;
    return true;
}

bool wr_asks_next(struct wr_asks *asks, struct weir_answer *answer)
{
    struct wr_question *question = asks->at != NULL ? *asks->at : NULL;

    if (question == NULL || question->state != WR_QUESTION_DONE)
        return false;
    copy(answer, &question->answer);
    asks->at = &question->next;
    return true;
}

struct wr_selected wr_asks_plain_key(unsigned limit, struct weir_slice key)
{
    return (struct wr_selected){
        .limit = (uint16_t)limit, .parts = 1, .part = {{key, WR_PART_VALUE}}};
}

void wr_asks_again(struct wr_asks *asks)
{
    asks->at = &asks->first;
}

void wr_asks_answered(struct wr_asks *asks)
{
    if (asks->first == NULL || asks->at == NULL)
        return;
    while (asks->at != &asks->first) {
        struct wr_question *question = asks->first;
        asks->first = question->next;
        if (asks->at == &question->next)
            asks->at = &asks->first;
        wr_question_free(question);
    }
    if (asks->first != NULL)
        return;
    asks->last = &asks->first;
    asks->since_ns = 0;
}

void wr_asks_abandon(struct wr_asks *asks)
{
    struct wr_question *question = asks->first;

    if (asks->ready)
        wr_broker_unready(asks->loop->broker, asks);
    asks->first = NULL;
    asks->last = asks->at = &asks->first;
    asks->outstanding = 0;
    asks->since_ns = 0;
    while (question != NULL) {
        struct wr_question *next = question->next;
        wr_question_abandon(question);
        question = next;
    }
}
