/* rls.c - a question of Envoy's rate limit service -> a decision.
 *
 * A domain that envoyproxy/ratelimit's configuration speaks of is decided by it (engine/envoy.h).
 * Every other domain is about the policy's own limits: the descriptors of a question describe one
 * request in pieces, so their entries are put together into that request and decided once, all or
 * none. Deciding each descriptor for itself would charge a limit by address as often as there are
 * descriptors. What becomes of which entry: docs/envoy.md. */
#include "doors/rls.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/arith.h"
#include "base/units.h"
#include "engine/envoy.h"
#include "lib/handle.h"

static struct weir_slice text(const char *string)
{
    return (struct weir_slice){string, strlen(string)};
}

static bool is(struct weir_slice key, const char *name)
{
    return key.len == strlen(name) && memcmp(key.ptr, name, key.len) == 0;
}

static uint32_t clamp_u32(int64_t value)
{
    return (uint32_t)wr_max_i64(0, wr_min_i64(value, UINT32_MAX));
}

static int64_t seconds_up(int64_t ns)
{
    return ns / WR_NS_PER_S + (ns % WR_NS_PER_S > 0);
}

static void add_header(struct wr_rate_response *out, const char *key, struct weir_slice value)
{
    if (out->header_count < WR_RATE_HEADERS_MAX)
        out->headers[out->header_count++] = (struct wr_rate_header){text(key), value};
}

/* ---- by envoyproxy/ratelimit's configuration ----------------------------------------------- */

/* The status to speak of: the last that is over, else the one with least remaining. */
static const struct wr_rate_status *to_speak_of(const struct wr_rate_response *response)
{
    const struct wr_rate_status *best = NULL;

    for (size_t i = 0; i < response->count; i++) {
        const struct wr_rate_status *s = &response->statuses[i];
        if (!s->has_limit)
            continue;
        if (best == NULL || s->code == WR_RATE_OVER_LIMIT ||
            (best->code != WR_RATE_OVER_LIMIT && s->remaining < best->remaining))
            best = s;
    }
    return best;
}

static void add_limit_headers(struct wr_rls_scratch *scratch, struct wr_rate_response *out)
{
    static const char *const names[] = {"RateLimit-Limit", "RateLimit-Remaining",
                                        "RateLimit-Reset"};
    const struct wr_rate_status *status = to_speak_of(out);
    char *at = scratch->headers;

    if (status == NULL)
        return;
    for (int i = 0; i < 3; i++) {
        int64_t value = i == 0 ? status->units : i == 1 ? status->remaining : status->reset_s;
        int len = snprintf(at, 24, "%lld", (long long)value);
        add_header(out, names[i], (struct weir_slice){at, (size_t)len});
        at += len + 1;
    }
}

static uint64_t hits_of(const struct wr_rate_request *request, size_t descriptor)
{
    const struct wr_descriptor *d = &request->descriptors[descriptor];

    return d->has_hits ? d->hits : request->hits > 0 ? request->hits : 1;
}

/* A refusal is spoken of by the first rule that is over. */
static void count(struct wr_loop *loop, const struct wr_rate_request *request, enum wr_door_id door,
                  const struct wr_rate_response *out)
{
    struct wr_refusal refusal = {.door = door, .limit = "(override)", .reason = "limit"};
    size_t i = 0;

    wr_metrics_outcome(&loop->metrics, out->code == WR_RATE_OVER_LIMIT ? WEIR_DENY : WEIR_ALLOW);
    while (i < out->count && out->statuses[i].code != WR_RATE_OVER_LIMIT)
        i++;
    if (out->code != WR_RATE_OVER_LIMIT || i == out->count)
        return;
    if (out->statuses[i].rule != NULL)
        refusal.limit = out->statuses[i].rule;
    refusal.retry_after_ns = out->statuses[i].reset_s * WR_NS_PER_S;
    refusal.cost_units = (int64_t)wr_min_u64(hits_of(request, i), INT64_MAX);
    wr_refused_tell(loop, &refusal);
}

static int by_configuration(struct wr_loop *loop, const struct wr_rate_request *request,
                            struct wr_rls_scratch *scratch, struct wr_rate_response *out,
                            const char **why)
{
    struct weir *weir = loop->handle->weir;
    int result = wr_engine_rate(weir->engine, request, loop->index, wr_loop_now(loop), out);

    if (result == WEIR_ENOENT) /* not a domain of its */
        return result;
    if (result == 0)
        count(loop, request, scratch->door, out);
    if (result == WEIR_EFULL)
        *why = "too many different limit overrides";
    else if (result != 0)
        *why = "the request is out of range";
    else if (wr_envoy_options(wr_policy_envoy(weir->policy))->headers)
        add_limit_headers(scratch, out);
    return result;
}

/* ---- by the policy's own limits ------------------------------------------------------------ */

/* A request in the making. */
struct described {
    struct weir_request request;
    struct weir_slice fields[WR_POLICY_FIELDS_MAX];
    bool has_plan;
};

static void set(struct weir_slice *to, struct weir_slice value)
{
    if (to->ptr == NULL)
        *to = value;
}

/* The value of an identity that the policy names, or of a header field that it looks at. */
static void add_field(const struct weir *weir, struct described *d, const struct wr_entry *entry)
{
    for (size_t i = 0; i < d->request.field_count; i++) {
        const char *name = weir_field_name(weir, i);
        size_t len = strlen(name);
        bool same = len == entry->key.len && (weir_field_kind(weir, i) == WEIR_FIELD_KEY
                                                  ? memcmp(name, entry->key.ptr, len) == 0
                                                  : strncasecmp(name, entry->key.ptr, len) == 0);
        if (same)
            set(&d->fields[i], entry->value);
    }
}

static void add_entry(const struct weir *weir, struct described *d, const struct wr_entry *entry)
{
    if (is(entry->key, "remote_address") || is(entry->key, "masked_remote_address")) {
        set(&d->request.peer, entry->value);
    } else if (is(entry->key, "path") || is(entry->key, ":path")) {
        set(&d->request.path, entry->value);
    } else if (is(entry->key, "method") || is(entry->key, ":method")) {
        set(&d->request.method, entry->value);
    } else if (is(entry->key, "plan")) {
        if (!d->has_plan)
            d->request.plan = (int)wr_max_i64(-1, weir_plan_find(weir, entry->value));
        d->has_plan = true;
    } else {
        add_field(weir, d, entry);
    }
}

/* Negative hits are ignored: who gives units back by them alone takes none. */
static int64_t cost_of(const struct wr_rate_request *request)
{
    bool negative = false;

    for (size_t i = 0; i < request->count; i++) {
        const struct wr_descriptor *descriptor = &request->descriptors[i];
        if (descriptor->has_hits && !descriptor->negative)
            return (int64_t)wr_min_u64(descriptor->hits, (uint64_t)WEIR_COST_MAX);
        negative = negative || descriptor->negative;
    }
    if (negative)
        return 0;
    return request->hits > 0 ? wr_min_i64(request->hits, WEIR_COST_MAX) : -1;
}

static void describe_request(const struct weir *weir, const struct wr_rate_request *request,
                             struct described *d)
{
    size_t fields = weir_field_count(weir);

    d->request = (struct weir_request){
        .fields = d->fields, .field_count = fields, .cost_units = cost_of(request), .plan = -1};
    d->has_plan = false;
    for (size_t i = 0; i < fields; i++)
        d->fields[i] = (struct weir_slice){NULL, 0};
    for (size_t i = 0; i < request->count; i++)
        for (size_t j = 0; j < request->descriptors[i].count; j++)
            add_entry(weir, d, &request->descriptors[i].entries[j]);
    set(&d->request.path, text("/"));
    set(&d->request.method, text("GET"));
}

/* The unit that is exactly |window_ns| long. */
static uint8_t unit_of(int64_t window_ns)
{
    for (unsigned unit = WR_UNIT_SECOND; unit < WR_UNITS; unit++)
        if (wr_unit_seconds((enum wr_unit)unit) * WR_NS_PER_S == window_ns)
            return (uint8_t)unit;
    return WR_UNIT_UNKNOWN;
}

static void describe_verdict(const struct weir *weir, const struct weir_answer *answer,
                             const struct weir_verdict *verdict, struct wr_rate_status *out)
{
    const struct wr_limit *limit =
        &wr_policy_limit(weir->policy, verdict->limit)->by[verdict->plan];
    bool over = verdict->outcome == WEIR_DENY;
    int64_t next_ns, reset_ns;

    weir_verdict_times(weir, verdict, answer->decided_ns, &next_ns, &reset_ns);
    if (verdict->outcome == WEIR_DENY)
        reset_ns = wr_max_i64(verdict->retry_after_ns, 0);
    out->code = over ? WR_RATE_OVER_LIMIT : WR_RATE_OK;
    out->has_limit = true;
    out->name = text(weir_limit_name(weir, verdict->limit));
    out->units = clamp_u32(verdict->capacity_units);
    out->unit = unit_of(limit->window_ns);
    out->remaining = clamp_u32(verdict->remaining_units);
    out->reset_s = wr_max_i64(1, seconds_up(reset_ns));
}

/* A status for each descriptor: the limit's to speak of first, then the others' in their order. Of
 * limits in shadow mode there is none: Envoy tells callers of the one with least remaining. */
static void describe_answer(const struct weir *weir, const struct weir_answer *answer,
                            struct wr_rate_response *out)
{
    int spoken = wr_answer_spoken(answer);
    size_t at = 0;

    for (size_t i = 0; i < out->count; i++)
        out->statuses[i] = (struct wr_rate_status){.code = WR_RATE_OK};
    if (spoken >= 0)
        describe_verdict(weir, answer, &answer->verdicts[spoken], &out->statuses[at++]);
    for (int i = 0; i < answer->count && at < out->count; i++)
        if (i != spoken && answer->verdicts[i].shadow == 0)
            describe_verdict(weir, answer, &answer->verdicts[i], &out->statuses[at++]);
    if (answer->outcome == WEIR_DENY && answer->decisive < 0) /* banned, or the plan */
        out->statuses[0].code = WR_RATE_OVER_LIMIT;
}

/* What a refused caller is told: Envoy passes it on. */
static void describe_refusal(const struct weir *weir, const struct weir_answer *answer,
                             struct wr_rls_scratch *scratch, struct wr_rate_response *out)
{
    struct weir_answer_options options;
    struct weir_header headers[WEIR_HEADERS_MAX];
    int count, len;

    weir_answer_defaults(weir, &options);
    count =
        weir_answer_headers(weir, answer, 0, headers, scratch->headers, sizeof scratch->headers);
    for (int i = 0; i < count; i++)
        add_header(out, headers[i].name, headers[i].value);
    len = weir_answer_problem(weir, answer, weir_answer_status(&options, answer), scratch->body,
                              sizeof scratch->body);
    if (len <= 0)
        return;
    out->body = (struct weir_slice){scratch->body, (size_t)len};
    add_header(out, "content-type", text("application/problem+json"));
}

static int by_limits(struct wr_loop *loop, const struct wr_rate_request *request,
                     struct wr_rls_scratch *scratch, struct wr_rate_response *out, const char **why)
{
    struct weir *weir = loop->handle->weir;
    struct weir_answer *answer = &scratch->answer;
    struct described d;

    describe_request(weir, request, &d);
    if (!wr_asks_decide(scratch->asks, &d.request, answer))
        return WR_RLS_WAITS;
    wr_refused_answer(loop, scratch->door, &d.request, answer);
    if (answer->reason == WEIR_REASON_STORE) { /* over no limit: an error, not an answer */
        *why = "the store of a shared limit is gone";
        return WR_RLS_STORE;
    }
    out->code = answer->outcome == WEIR_DENY ? WR_RATE_OVER_LIMIT : WR_RATE_OK;
    out->count = request->count;
    describe_answer(weir, answer, out);
    if (answer->outcome == WEIR_DENY)
        describe_refusal(weir, answer, scratch, out);
    return 0;
}

int wr_rls_answer(struct wr_loop *loop, const struct wr_rate_request *request,
                  struct wr_rls_scratch *scratch, struct wr_rate_response *out, const char **why)
{
    int result;

    *why = "";
    out->count = 0;
    out->header_count = 0;
    out->body = (struct weir_slice){NULL, 0};
    if (request->domain.len == 0) {
        *why = "rate limit domain must not be empty";
        return WEIR_EINVAL;
    }
    if (request->count == 0) {
        *why = "rate limit descriptor list must not be empty";
        return WEIR_EINVAL;
    }
    result = by_configuration(loop, request, scratch, out, why);
    return result == WEIR_ENOENT ? by_limits(loop, request, scratch, out, why) : result;
}
