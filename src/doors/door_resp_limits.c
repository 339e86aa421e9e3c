/* door_resp_limits.c - decisions over RESP by the policy's own limits.
 *
 * A reply is integers alone, so that every client of every language reads it without help. What the
 * numbers mean is docs/resp.md. */
#include <string.h>

#include "base/units.h"
#include "doors/door_resp.h"
#include "lib/handle.h"
#include "serve/broker.h"
#include "serve/reservations.h"
#include "wire/checkjson.h"

#define SHOWN_BYTES 128U
#define TTL_MAX_MS INT64_C(86400000)

static_assert(WR_RESP_BATCH <= WR_ASKS_BATCH, "a batch is asked for at once");

static void count(uint64_t *counter)
{
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}

/* ---- the policy's limits ----------------------------------------------------------------- */

static bool is_named(const struct weir *weir, unsigned limit, struct weir_slice name)
{
    const char *have = weir_limit_name(weir, limit);
    return have != NULL && strlen(have) == name.len && memcmp(have, name.ptr, name.len) == 0;
}

static bool find_limit(struct wr_resp_session *session, struct weir_slice name, unsigned *limit)
{
    const struct weir *weir = session->door->loop->handle->weir;

    *limit = session->door->last_limit;
    if (is_named(weir, *limit, name))
        return true;
    for (unsigned i = 0; i < weir_limit_count(weir); i++) {
        if (is_named(weir, i, name)) {
            *limit = session->door->last_limit = i;
            return true;
        }
    }
    return false;
}

static bool read_cost(struct weir_slice text, int64_t *cost)
{
    return wr_resp_integer(text, cost) && *cost >= 0 && *cost <= WEIR_COST_MAX;
}

/* Find the limit named by the first argument, or write the error. */
static bool need_limit(struct wr_resp_session *session, const struct wr_resp_call *call,
                       unsigned *limit)
{
    if (find_limit(session, call->args[1], limit))
        return true;
    wr_resp_error_begin(&session->out, "ERR the policy has no limit named '");
    wr_resp_error_bytes(&session->out, call->args[1], SHOWN_BYTES);
    wr_resp_error_end(&session->out, "'");
    return false;
}

static bool need_cost(struct wr_resp_session *session, struct weir_slice text, int64_t *cost)
{
    if (read_cost(text, cost))
        return true;
    wr_resp_error(&session->out, "ERR the cost must be an integer from 0 to 1000000000");
    return false;
}

/* ---- verdicts ---------------------------------------------------------------------------- */

static int64_t milliseconds(int64_t ns)
{
    return ns < 0 ? -1 : ns / WR_NS_PER_MS + (ns % WR_NS_PER_MS > 0 ? 1 : 0);
}

/* [allowed, limit, remaining, retry_after_ms, reset_ms, delay_ms], and |more| elements behind.
 * False: an error instead, as the store is gone: that is not a refusal of the caller. */
static bool write_verdict(struct wr_resp_session *session, const struct weir_verdict *verdict,
                          int64_t now, size_t more)
{
    struct wr_resp_out *out = &session->out;
    bool unlimited = verdict->capacity_units == INT64_MAX;
    bool passes = verdict->outcome != WEIR_DENY || verdict->shadow != 0;
    int64_t next_ns, reset_ns;

    if (!passes && verdict->reason == WEIR_REASON_STORE) {
        wr_resp_error(out, "UNAVAILABLE the store of this shared limit is gone");
        return false;
    }
    weir_verdict_times(session->door->loop->handle->weir, verdict, now, &next_ns, &reset_ns);
    wr_resp_array(out, 6 + more);
    wr_resp_int(out, passes ? 1 : 0);
    wr_resp_int(out, unlimited ? -1 : verdict->capacity_units);
    wr_resp_int(out, unlimited ? -1 : verdict->remaining_units);
    wr_resp_int(out, passes ? 0 : milliseconds(verdict->retry_after_ns));
    wr_resp_int(out, milliseconds(reset_ns));
    wr_resp_int(out, verdict->shadow != 0 ? 0 : milliseconds(verdict->delay_ns));
    return true;
}

/* The key is not told to the log: it may be a secret. */
static void tell_refusal(struct wr_loop *loop, const struct weir_verdict *verdict, int64_t cost)
{
    const struct wr_refusal refusal = {.door = WR_DOOR_RESP,
                                       .shadow = verdict->shadow != 0,
                                       .limit = weir_limit_name(loop->handle->weir, verdict->limit),
                                       .reason = wr_check_reason(verdict->reason),
                                       .retry_after_ns = verdict->retry_after_ns,
                                       .cost_units = cost};
    wr_refused_tell(loop, &refusal);
}

static void count_verdict(struct wr_resp_session *session, const struct weir_verdict *verdict,
                          int64_t cost)
{
    struct wr_metrics *metrics = &session->door->loop->metrics;
    bool denied = verdict->outcome == WEIR_DENY, shadow = denied && verdict->shadow != 0;
    bool delayed = verdict->outcome == WEIR_DELAY;
    enum wr_limit_counter counter = shadow    ? WR_LIMIT_SHADOW_DENIED
                                    : denied  ? WR_LIMIT_DENIED
                                    : delayed ? WR_LIMIT_DELAYED
                                              : WR_LIMIT_ALLOWED;
    unsigned outcome = verdict->outcome & 3;

    if (verdict->shadow != 0 && (denied || delayed)) /* nobody waits for it */
        outcome = denied ? WEIR_SHADOW : WEIR_ALLOW;
    count(&metrics->outcome[outcome]);
    if (verdict->limit < WR_POLICY_LIMITS_MAX)
        count(&metrics->limit[verdict->limit][counter]);
    if (denied)
        tell_refusal(session->door->loop, verdict, cost);
}

void wr_resp_check_prepare(struct wr_resp_session *session, struct wr_resp_call *call)
{
    struct weir_charge *charge = &call->as.check;

    charge->cost_units = 1;
    if (call->argc < 3 || call->argc > 4 || !find_limit(session, call->args[1], &charge->limit) ||
        (call->argc == 4 && !read_cost(call->args[3], &charge->cost_units)))
        return;
    charge->key = call->args[2];
    call->prepared = true;
}

void wr_resp_check(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    unsigned limit;
    int64_t cost;

    if (call->prepared)
        wr_resp_check_run(session, call, 1);
    else if (call->argc > 4)
        wr_resp_error(&session->out, "ERR usage: WEIR.CHECK <limit> <key> [<cost>]");
    else if (need_limit(session, call, &limit))
        (void)need_cost(session, call->args[3], &cost);
}

/* Of shared limits, what was asked for. */
static void check_each(struct wr_resp_session *session, const struct weir_charge *charges,
                       unsigned n, struct weir_verdict *verdicts)
{
    struct wr_loop *loop = session->door->loop;
    struct weir_answer answer;

    for (unsigned i = 0; i < n; i++) {
        const struct weir_charge *charge = &charges[i];
        if (wr_asks_shares_limit(loop, charge->limit)) {
            (void)wr_asks_check(&session->asks, charge->limit, charge->key, charge->cost_units,
                                &answer);
            verdicts[i] = answer.verdicts[0];
        } else {
            (void)weir_check(loop->handle->weir, charge->limit, charge->key, charge->cost_units,
                             wr_loop_now(loop), &verdicts[i]);
        }
    }
}

bool wr_resp_check_ask(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    const struct weir_charge *charge = &call->as.check;
    struct weir_answer answer;

    return !call->prepared || !wr_asks_shares_limit(session->door->loop, charge->limit) ||
           wr_asks_check(&session->asks, charge->limit, charge->key, charge->cost_units, &answer);
}

static void write_verdicts(struct wr_resp_session *session, const struct weir_charge *charges,
                           const struct weir_verdict *verdicts, unsigned n)
{
    int64_t now = wr_loop_now(session->door->loop);

    for (unsigned i = 0; i < n; i++) {
        if (session->out.size - session->out.len < WR_RESP_REPLY_MAX)
            wr_resp_flush(session);
        (void)write_verdict(session, &verdicts[i], now, 0);
        count_verdict(session, &verdicts[i], charges[i].cost_units);
    }
}

static void gather(const struct wr_resp_call *calls, unsigned n, struct weir_charge *charges)
{
    for (unsigned i = 0; i < n; i++)
        charges[i] = calls[i].as.check;
}

void wr_resp_check_run(struct wr_resp_session *session, const struct wr_resp_call *calls,
                       unsigned count_calls)
{
    struct wr_loop *loop = session->door->loop;
    struct weir_charge charges[WR_RESP_BATCH];
    struct weir_verdict verdicts[WR_RESP_BATCH];

    gather(calls, count_calls, charges);
    if (wr_asks_shares(loop))
        check_each(session, charges, count_calls, verdicts);
    else
        (void)weir_check_batch(loop->handle->weir, charges, count_calls, wr_loop_now(loop),
                               verdicts);
    write_verdicts(session, charges, verdicts, count_calls);
}

unsigned wr_resp_check_leased(struct wr_resp_session *session, const struct wr_resp_call *calls,
                              unsigned count_calls)
{
    struct weir_charge charges[WR_RESP_BATCH];
    struct weir_verdict verdicts[WR_RESP_BATCH];
    unsigned known;

    gather(calls, count_calls, charges);
    known = wr_asks_check_all(&session->asks, charges, count_calls, verdicts);
    if (known == count_calls)
        write_verdicts(session, charges, verdicts, count_calls);
    return known;
}

/* |cost| of a shared limit, by the store itself. */
static bool ask_one(struct wr_resp_session *session, unsigned limit, struct weir_slice key,
                    int64_t cost, struct weir_answer *answer)
{
    const struct wr_loop *loop = session->door->loop;
    const struct wr_selected selected = wr_asks_plain_key(limit, key);

    return wr_asks_one(&session->asks, &selected, wr_policy_default_plan(loop->handle->policy),
                       cost, answer);
}

bool wr_resp_peek_ask(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    struct weir_answer answer;
    unsigned limit;

    return !find_limit(session, call->args[1], &limit) ||
           !wr_asks_shares_limit(session->door->loop, limit) ||
           ask_one(session, limit, call->args[2], 0, &answer);
}

/* A look takes nothing and always fits; what is asked is whether one unit would. A quota by
 * customer may have an overage behind its end, which the look knows. */
static void refuse_empty(struct wr_resp_session *session, unsigned limit,
                         struct weir_verdict *verdict, int64_t now)
{
    const struct wr_policy *policy = session->door->loop->handle->policy;
    int64_t next_ns, reset_ns;

    if (verdict->outcome == WEIR_DENY || verdict->remaining_units > 0 ||
        wr_policy_limit(policy, limit)->quota != NULL)
        return;
    weir_verdict_times(session->door->loop->handle->weir, verdict, now, &next_ns, &reset_ns);
    verdict->outcome = WEIR_DENY;
    verdict->reason = verdict->capacity_units == 0 ? WEIR_REASON_ZERO : WEIR_REASON_LIMIT;
    verdict->retry_after_ns = verdict->capacity_units == 0 ? WEIR_NEVER : next_ns > 0 ? next_ns : 1;
    verdict->delay_ns = 0;
}

void wr_resp_peek(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    struct wr_loop *loop = session->door->loop;
    struct weir_answer answer;
    unsigned limit;
    int64_t now = wr_loop_now(loop);

    if (!need_limit(session, call, &limit))
        return;
    if (wr_asks_shares_limit(loop, limit))
        (void)ask_one(session, limit, call->args[2], 0, &answer);
    else
        (void)weir_check(loop->handle->weir, limit, call->args[2], 0, now, &answer.verdicts[0]);
    refuse_empty(session, limit, &answer.verdicts[0], now);
    (void)write_verdict(session, &answer.verdicts[0], now, 0);
}

void wr_resp_forget(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    struct wr_selected selected;
    unsigned limit;
    int result;

    if (!need_limit(session, call, &limit))
        return;
    selected = wr_asks_plain_key(limit, call->args[2]);
    result = wr_broker_forget(session->door->loop, &selected);
    if (result == WEIR_EBUSY)
        wr_resp_error(&session->out, "BUSY a stopped process holds this key; try again");
    else
        wr_resp_int(&session->out, result == 0 ? 1 : 0);
}

/* ---- reservations ------------------------------------------------------------------------ */

/* Remember |answer| when it passes; its name, or nothing, behind the verdict. */
static void write_reservation(struct wr_resp_session *session, struct weir_answer *answer,
                              int64_t ttl_ms, int64_t now)
{
    struct wr_loop *loop = session->door->loop;
    char id[WR_RESERVATION_ID + 1];
    bool passes = answer->outcome != WEIR_DENY;

    if (passes) {
        answer->expires_ns = now + ttl_ms * WR_NS_PER_MS;
        if (wr_reservations_put(wr_server_reservations(loop->server), loop->handle, answer,
                                answer->expires_ns, wr_conn_peer(session->conn), id) != 0) {
            /* Nobody could settle it: undo it. */
            wr_broker_give_back(loop, loop->handle, answer);
            wr_resp_error(&session->out, "ERR too many reservations are open; try again");
            return;
        }
    }
    if (write_verdict(session, &answer->verdicts[0], now, 1)) {
        if (passes)
            wr_resp_text(&session->out, id);
        else
            wr_resp_null(&session->out);
    }
    count_verdict(session, &answer->verdicts[0], answer->cost_units);
}

static bool read_ttl(struct weir_slice text, int64_t *ttl_ms)
{
    return wr_resp_integer(text, ttl_ms) && *ttl_ms >= 1 && *ttl_ms <= TTL_MAX_MS;
}

bool wr_resp_reserve_ask(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    struct weir_answer answer;
    int64_t cost, ttl_ms;
    unsigned limit;

    return !find_limit(session, call->args[1], &limit) ||
           !wr_asks_shares_limit(session->door->loop, limit) || !read_cost(call->args[3], &cost) ||
           !read_ttl(call->args[4], &ttl_ms) ||
           ask_one(session, limit, call->args[2], cost, &answer);
}

void wr_resp_reserve(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    struct wr_loop *loop = session->door->loop;
    int64_t cost, ttl_ms, now = wr_loop_now(loop);
    struct weir_answer answer;
    unsigned limit;

    if (!need_limit(session, call, &limit) || !need_cost(session, call->args[3], &cost))
        return;
    if (!read_ttl(call->args[4], &ttl_ms)) {
        wr_resp_error(&session->out, "ERR the time to live must be 1 to 86400000 ms");
        return;
    }
    if (wr_asks_shares_limit(loop, limit))
        (void)ask_one(session, limit, call->args[2], cost, &answer);
    else
        wr_engine_check_one(loop->handle->weir->engine, limit, call->args[2], cost, now, &answer);
    write_reservation(session, &answer, ttl_ms, now);
}

/* An id as text; false, and the error written: it cannot be one. */
static bool need_id(struct wr_resp_session *session, struct weir_slice text,
                    char id[WR_RESERVATION_ID + 1])
{
    id[0] = '\0';
    if (text.len != WR_RESERVATION_ID) {
        wr_resp_error(&session->out, "ERR no such reservation");
        return false;
    }
    memcpy(id, text.ptr, text.len);
    id[text.len] = '\0';
    return true;
}

static void write_ending(struct wr_resp_session *session, int result)
{
    if (result == 0)
        wr_resp_simple(&session->out, "OK");
    else if (result == WEIR_EEXPIRED)
        wr_resp_error(&session->out, "ERR the reservation has expired or was settled before");
    else
        wr_resp_error(&session->out, "ERR no such reservation");
}

/* The status that the request was answered with, for quotas that count only some. */
static bool need_status(struct wr_resp_session *session, const struct wr_resp_call *call,
                        int *status)
{
    int64_t number = 0;

    *status = 0;
    if (call->argc == 3)
        return true;
    if (call->argc > 4) {
        wr_resp_error(&session->out, "ERR usage: WEIR.SETTLE <name> <cost> [<status>]");
        return false;
    }
    if (!wr_resp_integer(call->args[3], &number) || number < 100 || number > 599) {
        wr_resp_error(&session->out, "ERR the status must be an integer from 100 to 599");
        return false;
    }
    *status = (int)number;
    return true;
}

void wr_resp_settle(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    struct wr_loop *loop = session->door->loop;
    char id[WR_RESERVATION_ID + 1];
    int64_t cost;
    int status;

    if (need_id(session, call->args[1], id) && need_cost(session, call->args[2], &cost) &&
        need_status(session, call, &status))
        write_ending(session, wr_reservations_settle(wr_server_reservations(loop->server), loop, id,
                                                     cost, status, wr_loop_now(loop)));
}

void wr_resp_release(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    struct wr_loop *loop = session->door->loop;
    char id[WR_RESERVATION_ID + 1];

    if (need_id(session, call->args[1], id))
        write_ending(session, wr_reservations_release(wr_server_reservations(loop->server), loop,
                                                      id, wr_loop_now(loop)));
}
