/* alerting.c - questions of the keeper to the store, through the first loop.
 *
 * Idea. A question is one charge of its own call: a look costs nothing; a claim takes more than
 * half of a window that nothing else is counted in. All of a batch are under way at once, and the
 * thread that asks waits for the last.
 *
 * Invariants:
 *   1. A batch belongs to two: who waits, and the loop until its last call is done. Whoever leaves
 *      last frees it, so that a store which answers late writes to nobody's memory.
 *   2. Nothing is handed to a loop that has been told to stop. */
#include "serve/alerting.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/units.h"
#include "lib/handle.h"
#include "policy/customers.h"
#include "serve/broker.h"
#include "serve/errand.h"
#include "serve/log.h"

#define WAIT_NS (10 * WR_NS_PER_S) /* a store's deadline is at most a second or a few */
#define CLAIMS "weir!alert"        /* no limit of a policy can be called so */

struct question {
    struct wr_remote_call call;
    struct wr_limit limit; /* of a claim */
    struct wr_alert_ask ask;
    struct batch *batch;
};

struct batch {
    struct wr_errand errand;
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    unsigned holders; /* 2: who waits, and the loop */
    size_t under_way; /* the loop's, and one more while it begins them */
    bool done;
    size_t count;
    struct question question[];
};

/* ---- a batch -------------------------------------------------------------------------------- */

static void destroy(struct batch *batch)
{
    (void)pthread_mutex_destroy(&batch->mutex);
    (void)pthread_cond_destroy(&batch->ended);
    free(batch);
}

static void leave(struct batch *batch)
{
    bool last;

    (void)pthread_mutex_lock(&batch->mutex);
    last = --batch->holders == 0;
    (void)pthread_mutex_unlock(&batch->mutex);
    if (last)
        destroy(batch);
}

/* One call less is under way. In the loop. */
static void one_less(struct batch *batch)
{
    if (--batch->under_way > 0)
        return;
    (void)pthread_mutex_lock(&batch->mutex);
    batch->done = true;
    (void)pthread_cond_signal(&batch->ended);
    (void)pthread_mutex_unlock(&batch->mutex);
    leave(batch);
}

/* ---- a question, in the loop ---------------------------------------------------------------- */

/* Who was first is known by what he left. */
static void read_claim(struct wr_alert_ask *ask, const struct wr_remote_charge *charge)
{
    int64_t first = wr_limit_capacity(charge->limit) - charge->remaining;

    if (charge->allowed)
        first = ask->who;
    if (first < WR_CLAIM_LOW || charge->remaining <= 0)
        return; /* two at the same moment: not settled yet */
    ask->mine = first == ask->who;
    ask->answer = WR_ALERT_DONE;
}

static void on_done(struct wr_remote_call *call, enum wr_remote_result result)
{
    struct question *q = call->context;
    const struct wr_remote_charge *charge = &call->charge[0];

    if (result == WR_REMOTE_DONE && q->ask.claim) {
        read_claim(&q->ask, charge);
    } else if (result == WR_REMOTE_DONE) {
        q->ask.used = (uint64_t)wr_max_i64(0, wr_limit_capacity(charge->limit) - charge->remaining);
        q->ask.answer = WR_ALERT_DONE;
    }
    one_less(q->batch);
}

static bool make_claim(struct question *q, struct wr_remote_charge *charge)
{
    const char *wrong = wr_limit_make(&q->limit, WR_FIXED_WINDOW, 2 * (int64_t)WR_CLAIM_LOW - 1,
                                      q->ask.window_ns, -1, false);

    static_assert(WR_EVENT_BYTES == WR_TAG_BYTES, "an event is a tag");
    charge->limit = &q->limit;
    charge->name = CLAIMS;
    charge->cost = q->ask.who;
    memcpy(charge->tag, q->ask.event, sizeof charge->tag);
    return wrong == NULL;
}

/* The limit's number in |policy|; -1: it has no such. */
static int find_limit(const struct wr_policy *policy, const char *name)
{
    for (size_t i = 0; i < wr_policy_limit_count(policy); i++)
        if (strcmp(wr_policy_limit(policy, i)->name, name) == 0)
            return (int)i;
    return -1;
}

static int find_plan(const struct wr_policy *policy, const char *name)
{
    for (size_t i = 0; i < wr_policy_plan_count(policy); i++)
        if (strcmp(wr_policy_plan(policy, i), name) == 0)
            return (int)i;
    return -1;
}

static bool make_look(struct question *q, const struct wr_handle *handle,
                      struct wr_remote_charge *charge)
{
    const struct wr_policy *policy = handle->policy;
    int limit = find_limit(policy, q->ask.quota), plan = find_plan(policy, q->ask.plan);
    struct wr_selected key = {.parts = 1};

    if (limit < 0 || plan < 0 || wr_policy_limit(policy, (size_t)limit)->unlimited[plan] ||
        wr_policy_limit(policy, (size_t)limit)->quota == NULL)
        return false;
    key.limit = (uint16_t)limit;
    key.part[0] = (struct wr_key_part){{(const char *)&q->ask.customer, sizeof q->ask.customer},
                                       WR_PART_CUSTOMER};
    if (!wr_engine_store_key(handle->weir->engine, &key, charge))
        return false;
    charge->limit = wr_policy_at_store(wr_policy_limit(policy, (size_t)limit), (unsigned)plan);
    return true;
}

static void begin(struct question *q, struct wr_loop *loop)
{
    struct wr_remote_charge *charge = &q->call.charge[0];
    bool possible = q->ask.claim ? make_claim(q, charge) : make_look(q, loop->handle, charge);

    q->ask.answer = WR_ALERT_GONE;
    q->call.count = 1;
    q->call.now_ns = wr_loop_now(loop);
    q->call.done = on_done;
    q->call.context = q;
    q->batch->under_way++;
    if (possible && wr_broker_take(loop->broker, &q->call))
        return;
    if (!possible || wr_policy_settings(loop->handle->policy)->store == NULL)
        q->ask.answer = WR_ALERT_NONE;
    one_less(q->batch);
}

static void run(struct wr_errand *errand, struct wr_loop *loop)
{
    struct batch *batch = (struct batch *)errand; /* its first member */

    batch->under_way = 1;
    for (size_t i = 0; loop != NULL && i < batch->count; i++)
        begin(&batch->question[i], loop);
    one_less(batch);
}

/* ---- who waits ------------------------------------------------------------------------------ */

static struct batch *make(const struct wr_alert_ask *asks, size_t count)
{
    struct batch *batch = calloc(1, sizeof *batch + count * sizeof batch->question[0]);
    pthread_condattr_t monotonic;

    if (batch == NULL)
        return NULL;
    (void)pthread_mutex_init(&batch->mutex, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&batch->ended, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    batch->errand.run = run;
    batch->holders = 2;
    batch->count = count;
    for (size_t i = 0; i < count; i++) {
        batch->question[i].ask = asks[i];
        batch->question[i].ask.answer = WR_ALERT_GONE;
        batch->question[i].batch = batch;
    }
    return batch;
}

/* True: all is answered. */
static bool wait(struct batch *batch)
{
    struct timespec until;
    bool done;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += WAIT_NS / WR_NS_PER_S;
    (void)pthread_mutex_lock(&batch->mutex);
    while (!batch->done && pthread_cond_timedwait(&batch->ended, &batch->mutex, &until) == 0)
        continue;
    done = batch->done;
    (void)pthread_mutex_unlock(&batch->mutex);
    return done;
}

void wr_alerting_ask(void *context, struct wr_alert_ask *asks, size_t count)
{
    struct wr_alerting *alerting = context;
    struct batch *batch = make(asks, count);
    bool asked;

    for (size_t i = 0; i < count; i++)
        asks[i].answer = WR_ALERT_GONE;
    if (batch == NULL)
        return;
    (void)pthread_mutex_lock(&alerting->mutex);
    asked = alerting->worker != NULL;
    if (asked)
        wr_worker_errand(alerting->worker, &batch->errand);
    (void)pthread_mutex_unlock(&alerting->mutex);
    if (!asked) {
        destroy(batch);
        return;
    }
    if (wait(batch))
        for (size_t i = 0; i < count; i++)
            asks[i] = batch->question[i].ask;
    leave(batch);
}

/* ---- the loops ------------------------------------------------------------------------------ */

void wr_alerting_init(struct wr_alerting *alerting)
{
    alerting->worker = NULL;
    (void)pthread_mutex_init(&alerting->mutex, NULL);
}

void wr_alerting_fini(struct wr_alerting *alerting)
{
    (void)pthread_mutex_destroy(&alerting->mutex);
}

void wr_alerting_by(struct wr_alerting *alerting, struct wr_worker *worker)
{
    (void)pthread_mutex_lock(&alerting->mutex);
    alerting->worker = worker;
    (void)pthread_mutex_unlock(&alerting->mutex);
}

/* ---- the log -------------------------------------------------------------------------------- */

void wr_alerting_log(const struct wr_alert *alert)
{
    wr_log(WR_LOG_INFO, "a quota's threshold was reached", wr_log_text("alert", alert->event),
           wr_log_text("customer", alert->name), wr_log_text("plan", alert->plan),
           wr_log_text("quota", alert->quota), wr_log_number("percent", alert->percent),
           wr_log_number("used", (int64_t)alert->used), wr_log_number("limit", alert->limit),
           wr_log_number("window_end", alert->ends_ns / WR_NS_PER_S));
}
