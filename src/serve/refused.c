/* refused.c - refused requests in the log.
 *
 * The problem. Whoever is refused most is an attacker, who so decides how much is logged; and
 * whoever operates the service wants to see some of it.
 *
 * The idea. In each second a loop writes at most so many lines as the policy says. What is above is
 * counted by limit, and told in one line a limit a second after the first of it. So nothing is lost
 * as a number, and a second costs a bounded number of bytes: with the default of 10, at most 27
 * lines.
 *
 * Invariants:
 *   1. Lines and suppressed numbers add up to all refusals, but for what could not be told at all
 *      before the process ended.
 *   2. Nothing here waits: a line that cannot be written now is suppressed; a number that cannot be
 *      told now is told later.
 *   3. A caller's words are in a line in these places: client, method and path (without its query),
 *      cut and escaped. Header fields and keys are never in it: they may be secrets.
 *
 * Rejected: a share of refusals instead of the first ones (one in a thousand of a flood is a flood;
 * of ten refusals it is none); a table of callers (memory that callers decide about). */
#include "serve/refused.h"

#include <string.h>

#include "base/units.h"
#include "lib/handle.h"
#include "serve/log.h"
#include "serve/serve.h"
#include "wire/checkjson.h"

#define SECOND_MS 1000U
#define METHOD_MAX 32U
#define PATH_MAX_SHOWN 512U
#define CLIENT_MAX 128U
#define VALUES_MAX 10U

static const char *const doors[WR_DOORS] = {[WR_DOOR_HTTP] = "http",
                                            [WR_DOOR_GRPC] = "grpc",
                                            [WR_DOOR_RESP] = "resp",
                                            [WR_DOOR_AGENT] = "agent",
                                            [WR_DOOR_ADMIN] = "admin"};

/* ---- how many ------------------------------------------------------------------------------- */

void wr_refused_suppress(struct wr_refused *refused, const char *limit)
{
    unsigned i = 0;

    while (i < refused->names && refused->suppressed[i].limit != limit)
        i++;
    if (i == refused->names && i < WR_REFUSED_NAMES) {
        refused->suppressed[i].limit = limit;
        refused->suppressed[i].count = 0;
        refused->names++;
    }
    refused->suppressed[i].count++; /* where all names are taken, the last */
}

static bool has_suppressed(const struct wr_refused *refused)
{
    return refused->names > 0 || refused->suppressed[WR_REFUSED_NAMES].count > 0;
}

bool wr_refused_admit(struct wr_refused *refused, const char *limit, int64_t now_ns,
                      unsigned per_second)
{
    int64_t second = now_ns / WR_NS_PER_S;

    if (second != refused->second) {
        refused->second = second;
        refused->written = 0;
    }
    if (refused->written < per_second) {
        refused->written++;
        return true;
    }
    wr_refused_suppress(refused, limit);
    return false;
}

/* ---- numbers -------------------------------------------------------------------------------- */

static bool tell_number(const char *limit, uint64_t count)
{
    const struct wr_log_value values[] = {wr_log_text("limit", limit),
                                          wr_log_number("suppressed", (int64_t)count)};

    return wr_log_try(WR_LOG_INFO, "refused, not logged each", values, 2);
}

static void flush(struct wr_loop *loop)
{
    struct wr_refused *refused = &loop->refused;
    uint64_t *others = &refused->suppressed[WR_REFUSED_NAMES].count;
    unsigned left = 0;

    for (unsigned i = 0; i < refused->names; i++)
        if (!tell_number(refused->suppressed[i].limit, refused->suppressed[i].count))
            refused->suppressed[left++] = refused->suppressed[i];
    refused->names = left;
    if (*others > 0 && tell_number("(others)", *others))
        *others = 0;
}

static void tell_later(struct wr_loop *loop);

static void on_time_to_tell(uv_timer_t *timer)
{
    struct wr_loop *loop = timer->data;

    flush(loop);
    if (has_suppressed(&loop->refused)) /* nobody reads: next second again */
        tell_later(loop);
}

static void tell_later(struct wr_loop *loop)
{
    if (!uv_is_active((const uv_handle_t *)&loop->refused.timer))
        (void)uv_timer_start(&loop->refused.timer, on_time_to_tell, SECOND_MS, 0);
}

void wr_refused_forget(struct wr_loop *loop)
{
    struct wr_refused *refused = &loop->refused;

    flush(loop);
    for (unsigned i = 0; i < refused->names; i++) /* not written: as a number without a name */
        refused->suppressed[WR_REFUSED_NAMES].count += refused->suppressed[i].count;
    refused->names = 0;
}

static void suppressed(struct wr_loop *loop)
{
    uint64_t *count = &loop->metrics.refused_unlogged;

    __atomic_store_n(count, __atomic_load_n(count, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
    tell_later(loop);
}

/* ---- lines ---------------------------------------------------------------------------------- */

static struct weir_slice cut(struct weir_slice text, size_t most)
{
    return (struct weir_slice){text.ptr, text.len < most ? text.len : most};
}

/* A path up to its query or fragment. */
static struct weir_slice path_of(struct weir_slice path)
{
    size_t len = 0;

    while (len < path.len && len < PATH_MAX_SHOWN && path.ptr[len] != '?' && path.ptr[len] != '#')
        len++;
    return cut(path, len);
}

static bool write_line(struct wr_loop *loop, const struct wr_refusal *r)
{
    const struct weir_request *request = r->request;
    struct wr_log_value values[VALUES_MAX];
    char client[CLIENT_MAX] = "";
    size_t n = 0;

    values[n++] = wr_log_text("door", doors[r->door]);
    values[n++] = wr_log_text("limit", r->limit);
    values[n++] = wr_log_text("reason", r->reason);
    if (r->retry_after_ns >= 0)
        values[n++] =
            wr_log_number("retry_after_ms", r->retry_after_ns / WR_NS_PER_MS +
                                                (r->retry_after_ns % WR_NS_PER_MS > 0 ? 1 : 0));
    values[n++] = wr_log_number("cost", r->cost_units);
    if (r->plan != NULL)
        values[n++] = wr_log_text("plan", r->plan);
    if (request != NULL) {
        /* The peer's name as it stands may hold anything, a zero as well. */
        size_t len = weir_client(loop->handle->weir, request, client, sizeof client);
        values[n++] = wr_log_slice("client", cut((struct weir_slice){client, len}, CLIENT_MAX - 1));
        values[n++] = wr_log_slice("method", cut(request->method, METHOD_MAX));
        values[n++] =
            wr_log_slice("path", path_of(request->path)); /* last: what is cut is cut here */
    }
    return wr_log_try(WR_LOG_INFO, r->shadow ? "refused in shadow" : "refused", values, n);
}

void wr_refused_tell(struct wr_loop *loop, const struct wr_refusal *refusal)
{
    struct wr_refused *refused = &loop->refused;
    unsigned per_second = wr_policy_settings(loop->handle->policy)->log_refused_per_second;
    int64_t now_ns = wr_loop_now(loop);

    if (per_second == 0 || !wr_log_wants(WR_LOG_INFO))
        return;
    if (!wr_refused_admit(refused, refusal->limit, now_ns, per_second)) {
        suppressed(loop);
    } else if (!write_line(loop, refusal)) {
        wr_refused_suppress(refused, refusal->limit);
        suppressed(loop);
    }
}

void wr_refused_answer(struct wr_loop *loop, enum wr_door_id door,
                       const struct weir_request *request, const struct weir_answer *answer)
{
    struct weir *weir = loop->handle->weir;
    const struct weir_verdict *decisive =
        answer->decisive >= 0 ? &answer->verdicts[answer->decisive] : NULL;
    struct wr_refusal refusal = {.door = door, .request = request, .limit = ""};

    if (request->peek)
        return;
    wr_metrics_answer(&loop->metrics, answer);
    if (answer->outcome != WEIR_DENY && answer->outcome != WEIR_SHADOW)
        return;
    refusal.shadow = answer->outcome == WEIR_SHADOW;
    refusal.reason = wr_check_reason(answer->reason);
    refusal.retry_after_ns = answer->retry_after_ns;
    refusal.cost_units = answer->cost_units;
    if (wr_policy_plan_count(loop->handle->policy) > 1)
        refusal.plan = weir_plan_name(weir, answer->plan);
    if (decisive != NULL)
        refusal.limit = weir_limit_name(weir, decisive->limit);
    if (decisive != NULL && refusal.shadow) {
        refusal.reason = wr_check_reason(decisive->reason);
        refusal.retry_after_ns = decisive->retry_after_ns;
    }
    wr_refused_tell(loop, &refusal);
}

/* ---- of a loop ------------------------------------------------------------------------------ */

void wr_refused_open(struct wr_loop *loop)
{
    (void)uv_timer_init(&loop->uv, &loop->refused.timer);
    loop->refused.timer.data = loop;
}

void wr_refused_close(struct wr_loop *loop)
{
    flush(loop);
    uv_close((uv_handle_t *)&loop->refused.timer, NULL);
}
