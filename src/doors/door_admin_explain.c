/* door_admin_explain.c - /v1/explain: a request in the form of /v1/check, and what would happen to
 * it and why.
 *
 * Invariants: nothing is taken; every limit of the policy is told of, with why it matches or does
 * not. */
#include <stdlib.h>
#include <string.h>

#include "doors/door_admin.h"
#include "lib/handle.h"
#include "wire/checkjson.h"

static const struct weir_slice nothing = {NULL, 0};

/* Both by their enums; docs/admin.md has them. */
static const char *const outcomes[] = {"allow", "delay", "deny", "shadow"};
static const char *const reasons[] = {
    [WR_MATCHES] = NULL,         [WR_OTHER_PATH] = "path",     [WR_OTHER_METHOD] = "method",
    [WR_NO_LIMIT] = "unlimited", [WR_KEY_SKIPPED] = "missing", [WR_BEYOND_MAX] = "too many"};

/* ---- the question --------------------------------------------------------------------------- */

static int find_plan(const void *context, struct weir_slice name)
{
    return weir_plan_find(context, name);
}

static bool is_array(struct weir_slice body)
{
    for (size_t i = 0; i < body.len; i++)
        if (body.ptr[i] != ' ' && body.ptr[i] != '\t' && body.ptr[i] != '\r' && body.ptr[i] != '\n')
            return body.ptr[i] == '[';
    return false;
}

static bool read_body(struct admin_door *door, struct weir_slice body,
                      struct http_response *response)
{
    struct wr_check_reader reader = {.form = WR_CHECK_FORM,
                                     .field_count = door->policy.field_count,
                                     .field_names = door->policy.names,
                                     .field_kinds = door->policy.kinds,
                                     .find_plan = find_plan,
                                     .context = door->service.loop->handle->weir,
                                     .scratch = door->decoded,
                                     .requests = &door->request,
                                     .fields = door->fields};

    if (is_array(body)) {
        http_problem(&door->service, response, 400, "expected one request, found an array",
                     nothing);
        return false;
    }
    if (wr_check_read(&reader, body))
        return true;
    http_body_problem(&door->service, response, reader.error,
                      (struct weir_slice){reader.member, reader.member_len}, reader.offset);
    return false;
}

/* ---- the answer ----------------------------------------------------------------------------- */

static void put_client(struct wr_page *page, const struct wr_policy *policy,
                       const struct weir_request *request, const struct wr_selection *selection)
{
    char text[WR_IP_TEXT_MAX];

    wr_page_key(page, "client");
    wr_page_open(page, '{');
    wr_page_key(page, "peer");
    wr_page_string(page, request->peer);
    admin_put_bool(page, "trusted", wr_policy_trusts(policy, request->peer));
    wr_page_key(page, selection->client_is_host ? "host" : "ip");
    if (selection->client_is_host)
        wr_page_string(page, selection->client_host);
    else
        wr_page_string(page, (struct weir_slice){text, wr_ip_format(&selection->client, text)});
    admin_put_bool(page, "banned", selection->banned);
    wr_page_close(page, '}');
}

static void put_identities(struct wr_page *page, const struct wr_policy *policy,
                           const struct weir_request *request)
{
    static const char *const from[] = {[WR_VALUE_MISSING] = "missing",
                                       [WR_VALUE_GIVEN] = "keys",
                                       [WR_VALUE_HEADER] = "headers",
                                       [WR_VALUE_NOT_BELIEVED] = "not believed"};

    wr_page_key(page, "identities");
    wr_page_open(page, '[');
    for (size_t i = 0; i < wr_policy_identity_count(policy); i++) {
        const char *name = wr_policy_identity(policy, i);
        struct weir_slice value;
        enum wr_value_from where = wr_policy_identity_value(policy, i, request, &value);
        wr_page_open(page, '{');
        admin_put_name(page, "name", name);
        admin_put_name(page, "from", from[where]);
        if (where != WR_VALUE_MISSING)
            admin_put_value(page, name, value);
        wr_page_close(page, '}');
    }
    wr_page_close(page, ']');
}

/* Where the policy has customers: whose request it is. */
static void put_customer(struct wr_page *page, const struct wr_policy *policy,
                         const struct wr_selection *selection)
{
    const struct wr_customer_seen *customer = &selection->customer;

    if (wr_policy_settings(policy)->customers == NULL)
        return;
    wr_page_key(page, "customer");
    if (!selection->customer_known) {
        wr_page_null(page);
        return;
    }
    wr_page_open(page, '{');
    admin_put_id(page, customer->id);
    admin_put_bool(page, "partner", (customer->flags & WR_CUSTOMER_PARTNER) != 0);
    admin_put_bool(page, "suspended", (customer->flags & WR_CUSTOMER_SUSPENDED) != 0);
    wr_page_close(page, '}');
}

static void put_plan(struct wr_page *page, const struct wr_policy *policy,
                     const struct wr_selection *selection)
{
    static const char *const from[] = {[WR_PLAN_DEFAULT] = "default",
                                       [WR_PLAN_GIVEN] = "request",
                                       [WR_PLAN_KEY] = "keys",
                                       [WR_PLAN_HEADER] = "header",
                                       [WR_PLAN_CUSTOMER] = "customer"};

    wr_page_key(page, "plan");
    if (wr_policy_plan_count(policy) == 1) {
        wr_page_null(page);
        return;
    }
    wr_page_open(page, '{');
    admin_put_name(page, "name", wr_policy_plan(policy, selection->plan));
    admin_put_name(page, "from", from[selection->plan_from]);
    if (selection->plan_excludes) {
        admin_put_bool(page, "excludes", true);
        admin_put_name(page, "included_in",
                       selection->plan_wanted >= 0
                           ? wr_policy_plan(policy, (size_t)selection->plan_wanted)
                           : NULL);
    }
    wr_page_close(page, '}');
}

static void put_cost(struct wr_page *page, const struct wr_policy *policy,
                     const struct weir_request *request, const struct wr_selection *selection)
{
    bool given = request->cost_units >= 0;
    size_t index;
    int plan = wr_policy_cost_rule(policy, selection->cost_rule, &index);

    wr_page_key(page, "cost");
    wr_page_open(page, '{');
    admin_put_int(page, "units", selection->cost);
    admin_put_name(page, "from",
                   given                      ? "request"
                   : selection->cost_rule < 0 ? "default"
                   : plan >= 0                ? "plan"
                                              : "costs");
    if (!given && selection->cost_rule >= 0)
        admin_put_int(page, "rule", (int64_t)index);
    wr_page_close(page, '}');
}

/* What the limit says: as in the answers of /v1/check. */
static void put_verdict(struct wr_page *page, const struct weir *w,
                        const struct weir_answer *answer, unsigned i)
{
    const struct weir_verdict *v = &answer->verdicts[i];
    int64_t next_ns, reset_ns;

    weir_verdict_times(w, v, answer->decided_ns, &next_ns, &reset_ns);
    admin_put_name(page, "verdict", outcomes[v->outcome & 3]);
    admin_put_name(page, "reason", v->outcome == WEIR_DENY ? wr_check_reason(v->reason) : NULL);
    admin_put_int(page, "limit", v->capacity_units);
    admin_put_int(page, "remaining", v->remaining_units);
    admin_put_ms(page, "retry_after_ms", v->retry_after_ns > 0 ? v->retry_after_ns : -1);
    admin_put_ms(page, "delay_ms", v->delay_ns);
    admin_put_ms(page, "reset_ms", reset_ns);
    admin_put_bool(page, "shadow", v->shadow != 0);
    admin_put_bool(page, "decides", wr_answer_spoken(answer) == (int)i);
}

/* |at|: where in the selection the limit is, if it is. */
static void put_limit(struct wr_page *page, const struct weir *w,
                      const struct wr_explanation *explanation, size_t limit, unsigned at)
{
    const struct wr_match_reason *reason = &explanation->reason[limit];
    bool matches = reason->why == WR_MATCHES;
    char quota[160];

    wr_page_open(page, '{');
    admin_put_name(page, "name", wr_policy_limit(w->policy, limit)->name);
    if (wr_policy_limit(w->policy, limit)->quota != NULL) {
        wr_policy_describe_rate(w->policy, limit, explanation->selection.plan, quota, sizeof quota);
        admin_put_name(page, "quota", quota);
    }
    admin_put_bool(page, "matches", matches);
    if (!matches)
        admin_put_name(page, "why", reasons[reason->why]);
    if (reason->pattern != NULL)
        admin_put_name(page, "path", reason->pattern);
    if (reason->missing != NULL)
        admin_put_name(page, "missing", reason->missing);
    if (matches)
        admin_put_key(page, w->policy, &explanation->selection.selected[at]);
    for (unsigned i = 0; matches && i < explanation->answer.count; i++)
        if (explanation->answer.verdicts[i].limit == limit)
            put_verdict(page, w, &explanation->answer, i);
    wr_page_close(page, '}');
}

static void put_limits(struct wr_page *page, const struct weir *w,
                       const struct wr_explanation *explanation)
{
    unsigned at = 0;

    wr_page_key(page, "limits");
    wr_page_open(page, '[');
    for (size_t i = 0; i < wr_policy_limit_count(w->policy); i++) {
        put_limit(page, w, explanation, i, at);
        at += explanation->reason[i].why == WR_MATCHES;
    }
    wr_page_close(page, ']');
}

static void put_decision(struct wr_page *page, const struct weir *w,
                         const struct weir_answer *answer)
{
    bool denied = answer->outcome == WEIR_DENY;
    int spoken = wr_answer_spoken(answer);

    admin_put_name(page, "verdict", outcomes[answer->outcome & 3]);
    admin_put_name(page, "reason", denied ? wr_check_reason(answer->reason) : NULL);
    admin_put_name(page, "limit",
                   spoken < 0 ? NULL : weir_limit_name(w, answer->verdicts[spoken].limit));
    admin_put_ms(page, "retry_after_ms",
                 denied && answer->retry_after_ns > 0 ? answer->retry_after_ns : -1);
    admin_put_ms(page, "delay_ms", denied ? 0 : answer->delay_ns);
}

static void let_pass(struct weir_answer *answer)
{
    answer->outcome = WEIR_ALLOW;
    answer->reason = WEIR_REASON_NONE;
    answer->decisive = -1;
    answer->delay_ns = 0;
    answer->retry_after_ns = 0;
}

static void put_all(struct admin_door *door)
{
    const struct weir *w = door->service.loop->handle->weir;
    struct wr_explanation *explanation = &door->explanation;
    struct wr_page *page = &door->page;
    bool counted = !(door->policy.answers.skip_options && http_is(door->request.method, "OPTIONS"));

    if (!counted) /* it passes before anything is looked at, bans too */
        let_pass(&explanation->answer);
    wr_page_open(page, '{');
    put_decision(page, w, &explanation->answer);
    admin_put_bool(page, "counted", counted);
    put_client(page, w->policy, &door->request, &explanation->selection);
    put_identities(page, w->policy, &door->request);
    put_customer(page, w->policy, &explanation->selection);
    put_plan(page, w->policy, &explanation->selection);
    put_cost(page, w->policy, &door->request, &explanation->selection);
    admin_put_name(page, "route",
                   explanation->selection.route[0] != '\0' ? explanation->selection.route : NULL);
    put_limits(page, w, explanation);
    wr_page_close(page, '}');
}

void admin_explain(struct http_service *service, struct weir_slice peer,
                   const struct wr_http_request *request, struct http_response *response)
{
    struct admin_door *door = admin_door_of(service);
    struct weir *w = service->loop->handle->weir;
    struct wr_explanation *explanation = &door->explanation;
    struct weir_answer answer;
    struct weir_request look;
    bool shares;

    (void)peer;
    if (!read_body(door, request->body, response))
        return;
    /* What the store says comes first: the rest is said once. */
    shares = wr_asks_shares(service->loop);
    look = door->request;
    look.peek = true;
    if (shares && !wr_asks_decide(service->asks, &look, &answer)) {
        response->waits = true;
        return;
    }
    explanation->reason = calloc(wr_policy_limit_count(w->policy), sizeof *explanation->reason);
    if (explanation->reason == NULL) {
        http_problem(service, response, 503, "out of memory", nothing);
        return;
    }
    wr_engine_explain(w->engine, &door->request, wr_loop_now(service->loop), explanation);
    if (shares)
        explanation->answer = answer;
    put_all(door);
    free(explanation->reason);
    explanation->reason = NULL;
    admin_page(door, response, 200, "application/json");
}
