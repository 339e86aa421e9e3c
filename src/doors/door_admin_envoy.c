/* door_admin_envoy.c - what operators ask about the rules of envoy_ratelimit: which are in force,
 * what a question of descriptors would be answered and why, what one counter has, forgetting it.
 *
 * Invariant: nothing is taken, and nothing is counted in the statistics. */
#include <stdlib.h>
#include <string.h>

#include "doors/door_admin.h"
#include "engine/envoy.h"
#include "lib/handle.h"
#include "serve/log.h"
#include "wire/query.h"
#include "wire/ratejson.h"

static const struct weir_slice nothing = {NULL, 0};

/* A question and its answer: too much for a stack, and asked seldom. */
struct question {
    struct wr_rate_reader reader;
    struct wr_rate_response answer;
    struct wr_rate_reason reasons[WR_DESCRIPTORS_MAX];
};

static const char *unit_name(unsigned unit)
{
    static const char *const names[WR_UNITS] = {NULL,  "second", "minute", "hour",
                                                "day", "month",  "year",   "week"};

    return unit < WR_UNITS ? names[unit] : NULL;
}

/* ---- what is in force ----------------------------------------------------------------------- */

static void put_rule(struct wr_page *page, const struct wr_envoy_rule *rule)
{
    wr_page_open(page, '{');
    admin_put_name(page, "rule", rule->path);
    admin_put_name(page, "name", rule->name[0] != '\0' ? rule->name : NULL);
    admin_put_bool(page, "unlimited", rule->unlimited);
    if (!rule->unlimited) {
        admin_put_int(page, "requests_per_unit", rule->units);
        admin_put_name(page, "unit", unit_name(rule->unit));
    }
    admin_put_bool(page, "shadow_mode", rule->shadow);
    admin_put_bool(page, "quota_mode", rule->quota);
    wr_page_key(page, "replaces");
    wr_page_open(page, '[');
    for (size_t i = 0; i < rule->replaces_count; i++)
        wr_page_name(page, rule->replaces[i]);
    wr_page_close(page, ']');
    wr_page_close(page, '}');
}

void admin_put_envoy(struct wr_page *page, const struct wr_policy *policy)
{
    const struct wr_envoy *envoy = wr_policy_envoy(policy);
    const struct wr_envoy_options *options = envoy != NULL ? wr_envoy_options(envoy) : NULL;

    wr_page_key(page, "envoy_ratelimit");
    if (envoy == NULL) {
        wr_page_null(page);
        return;
    }
    wr_page_open(page, '{');
    admin_put_bool(page, "count_over_limit", options->count_over_limit);
    admin_put_bool(page, "epoch_windows", options->epoch_windows);
    admin_put_bool(page, "shadow_mode", options->shadow_mode);
    wr_page_key(page, "rules");
    wr_page_open(page, '[');
    for (size_t i = 0; i < wr_envoy_rule_count(envoy); i++)
        put_rule(page, wr_envoy_rule(envoy, i));
    wr_page_close(page, ']');
    wr_page_close(page, '}');
}

/* ---- answers that say no -------------------------------------------------------------------- */

static void refuse(struct http_service *service, struct http_response *response, int result)
{
    static const char domain[] = "domain";

    if (result == WEIR_ENOENT)
        http_problem(service, response, 404, "no file of envoy_ratelimit is about this domain",
                     (struct weir_slice){domain, sizeof domain - 1});
    else if (result == WEIR_EFULL)
        http_problem(service, response, 503, "too many different limit overrides", nothing);
    else if (result == WEIR_EBUSY)
        http_problem(service, response, 503, "a stopped process holds this key; try again",
                     nothing);
    else
        http_problem(service, response, 400, "the question is out of range", nothing);
}

static struct question *begin(struct http_service *service, struct http_response *response)
{
    struct question *q = calloc(1, sizeof *q);

    if (q == NULL)
        http_problem(service, response, 503, "out of memory", nothing);
    return q;
}

/* ---- POST /v1/explain/envoy ----------------------------------------------------------------- */

static void put_entries(struct wr_page *page, const struct wr_descriptor *descriptor)
{
    wr_page_key(page, "entries");
    wr_page_open(page, '[');
    for (size_t i = 0; i < descriptor->count; i++) {
        wr_page_open(page, '{');
        wr_page_key(page, "key");
        wr_page_string(page, descriptor->entries[i].key);
        admin_put_value(page, "", descriptor->entries[i].value);
        wr_page_close(page, '}');
    }
    wr_page_close(page, ']');
}

/* What is counted against a limit. */
static void put_count(struct wr_page *page, const struct wr_rate_status *status,
                      const struct wr_rate_reason *reason)
{
    admin_put_int(page, "requests_per_unit", status->units);
    admin_put_name(page, "unit", unit_name(status->unit));
    admin_put_int(page, "used", (int64_t)reason->used);
    admin_put_int(page, "remaining", status->remaining);
    admin_put_int(page, "reset_s", status->reset_s);
}

static void put_descriptor(struct wr_page *page, const struct question *q, size_t i)
{
    static const char *const whys[] = {[WR_RATE_MEETS] = "meets",
                                       [WR_RATE_MEETS_NONE] = "meets no rule",
                                       [WR_RATE_REPLACED] = "replaced",
                                       [WR_RATE_OVERRIDDEN] = "override"};
    const struct wr_rate_reason *reason = &q->reasons[i];

    wr_page_open(page, '{');
    put_entries(page, &q->reader.request.descriptors[i]);
    admin_put_name(page, "why", whys[reason->why]);
    admin_put_name(page, "rule", reason->rule != NULL ? reason->rule->path : NULL);
    admin_put_int(page, "hits", (int64_t)reason->hits);
    admin_put_bool(page, "counted", reason->counted);
    if (reason->counted) {
        put_count(page, &q->answer.statuses[i], reason);
        admin_put_bool(page, "over_limit", reason->over);
        admin_put_bool(page, "refuses", q->answer.statuses[i].code == WR_RATE_OVER_LIMIT);
    }
    wr_page_close(page, '}');
}

static void put_question(struct wr_page *page, const struct question *q)
{
    wr_page_open(page, '{');
    wr_page_key(page, "domain");
    wr_page_string(page, q->reader.request.domain);
    admin_put_name(page, "code", q->answer.code == WR_RATE_OVER_LIMIT ? "OVER_LIMIT" : "OK");
    wr_page_key(page, "descriptors");
    wr_page_open(page, '[');
    for (size_t i = 0; i < q->reader.request.count; i++)
        put_descriptor(page, q, i);
    wr_page_close(page, ']');
    wr_page_close(page, '}');
}

void admin_explain_envoy(struct http_service *service, struct weir_slice peer,
                         const struct wr_http_request *request, struct http_response *response)
{
    struct admin_door *door = admin_door_of(service);
    struct question *q = begin(service, response);
    int result;

    (void)peer;
    if (q == NULL)
        return;
    if (!wr_rate_read(&q->reader, request->body, door->decoded)) {
        http_body_problem(service, response, q->reader.error,
                          (struct weir_slice){q->reader.member, q->reader.member_len},
                          q->reader.offset);
    } else {
        result = wr_engine_rate_explain(service->loop->handle->weir->engine, &q->reader.request,
                                        wr_loop_now(service->loop), &q->answer, q->reasons);
        if (result != 0)
            refuse(service, response, result);
        else
            put_question(&door->page, q);
        if (result == 0)
            admin_page(door, response, 200, "application/json");
    }
    free(q);
}

/* ---- /v1/keys/envoy ------------------------------------------------------------------------- */

/* NULL, or what is wrong. Which there are, and that domain comes once, is checked before
 * (http_query.c). */
static const char *take_parameter(struct question *q, struct weir_slice name,
                                  struct weir_slice value)
{
    struct wr_descriptor *descriptor = &q->reader.descriptors[0];
    const char *colon = value.len > 0 ? memchr(value.ptr, ':', value.len) : NULL;

    if (http_is(name, "domain")) {
        q->reader.request.domain = value;
        return NULL;
    }
    if (descriptor->count == WR_ENTRIES_MAX)
        return "given more often than a descriptor can have entries";
    if (colon == NULL || colon == value.ptr)
        return "expected entry=KEY:VALUE";
    q->reader.entries[descriptor->count++] = (struct wr_entry){
        .key = {value.ptr, (size_t)(colon - value.ptr)},
        .value = {colon + 1, value.len - (size_t)(colon + 1 - value.ptr)},
    };
    return NULL;
}

/* One descriptor, which is looked at: no hits. False: it is answered. */
static bool read_key(struct admin_door *door, const struct wr_http_request *request,
                     struct question *q, struct http_response *response)
{
    struct weir_slice text = http_query(request), name, value;
    struct wr_query query = {.at = text.ptr, .end = text.ptr + text.len, .scratch = door->decoded};
    struct wr_descriptor *descriptor = &q->reader.descriptors[0];
    const char *wrong = NULL;

    descriptor->entries = q->reader.entries;
    descriptor->has_hits = true;
    q->reader.request.descriptors = descriptor;
    q->reader.request.count = 1;
    while (wrong == NULL && wr_query_next(&query, &name, &value))
        wrong = take_parameter(q, name, value);
    wrong = wrong != NULL ? wrong : query.error;
    if (wrong == NULL && q->reader.request.domain.len == 0) {
        name = (struct weir_slice){"domain", 6};
        wrong = "expected domain=NAME";
    } else if (wrong == NULL && descriptor->count == 0) {
        name = (struct weir_slice){"entry", 5};
        wrong = "expected entry=KEY:VALUE, once for each entry of the descriptor, in their order";
    }
    if (wrong != NULL)
        http_problem(&door->service, response, 400, wrong, name);
    return wrong == NULL;
}

/* The counter that the query names, as it stands. NULL: it is answered. */
static struct question *find_key(struct http_service *service,
                                 const struct wr_http_request *request,
                                 struct http_response *response)
{
    struct question *q = begin(service, response);
    bool found = false;
    int result;

    if (q == NULL)
        return NULL;
    if (read_key(admin_door_of(service), request, q, response)) {
        result = wr_engine_rate_explain(service->loop->handle->weir->engine, &q->reader.request,
                                        wr_loop_now(service->loop), &q->answer, q->reasons);
        found = result == 0 && q->reasons[0].rule != NULL;
        if (result != 0)
            refuse(service, response, result);
        else if (!found)
            http_problem(service, response, 404, "a descriptor of these entries meets no rule",
                         (struct weir_slice){"entry", 5});
    }
    if (found)
        return q;
    free(q);
    return NULL;
}

static void put_key(struct wr_page *page, const struct question *q)
{
    wr_page_open(page, '{');
    wr_page_key(page, "domain");
    wr_page_string(page, q->reader.request.domain);
    admin_put_name(page, "rule", q->reasons[0].rule->path);
}

void admin_key_envoy_get(struct http_service *service, struct weir_slice peer,
                         const struct wr_http_request *request, struct http_response *response)
{
    struct admin_door *door = admin_door_of(service);
    struct question *q = find_key(service, request, response);

    (void)peer;
    if (q == NULL)
        return;
    put_key(&door->page, q);
    admin_put_bool(&door->page, "unlimited", !q->reasons[0].counted);
    if (q->reasons[0].counted)
        put_count(&door->page, &q->answer.statuses[0], &q->reasons[0]);
    wr_page_close(&door->page, '}');
    admin_page(door, response, 200, "application/json");
    free(q);
}

void admin_key_envoy_delete(struct http_service *service, struct weir_slice peer,
                            const struct wr_http_request *request, struct http_response *response)
{
    struct admin_door *door = admin_door_of(service);
    struct question *q = find_key(service, request, response);
    size_t found;
    int result;

    (void)peer;
    if (q == NULL)
        return;
    result = wr_engine_rate_forget(service->loop->handle->weir->engine, &q->reader.request, &found);
    if (result != 0) {
        refuse(service, response, result);
    } else {
        wr_log(WR_LOG_INFO, "key reset", wr_log_text("limit", q->reasons[0].rule->path),
               wr_log_number("found", found > 0));
        put_key(&door->page, q);
        admin_put_bool(&door->page, "reset", found > 0);
        wr_page_close(&door->page, '}');
        admin_page(door, response, 200, "application/json");
    }
    free(q);
}
