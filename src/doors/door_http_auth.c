/* door_http_auth.c - /v1/auth: a proxy shows us each request's head and lets it through if we
 * answer 200 (nginx auth_request, ingress-nginx, Traefik, Caddy, HAProxy, Envoy ext_authz).
 *
 * The problem. Every proxy tells the original request in fields of its own, and passes the client's
 * fields on as well: who believes whichever field comes first lets a client choose the path that it
 * is limited by.
 *
 * The idea. Fields that tell the original request are believed from the policy's trusted peers
 * only, and those that are there have to agree; ?from= names the only one to be looked at. Behind
 * an ext_authz prefix (/v1/auth/path) the request line tells it, and no field is looked at.
 *
 * Invariants:
 *   1. No answer has a body, allowed or denied, unless asked (?body=1): with one, nginx would open
 * a new connection for every request.
 *   2. Allowed is exactly 200; every field is sent once.
 *   3. A field that tells one identity comes once, or the request is refused: of two lines one is
 * counted here, and the other may be believed by what is behind the proxy.
 *   4. A refusal is 4xx unless ?deny= says otherwise: proxies take 5xx for an authoriser that
 * fails, and many let the request pass then (Envoy's failure_mode_allow). Not so where the store is
 * gone and a limit wants to be closed: 503, never 429.
 *
 * Rejected: first field found wins (a client's X-Original-URI behind Traefik). */
#include <string.h>
#include <strings.h>

#include "base/units.h"
#include "doors/door_http.h"
#include "serve/broker.h"

static const struct weir_slice nothing = {NULL, 0};

#define PATH_LEN (sizeof "/v1/auth" - 1)

enum from { FROM_ANY, FROM_ORIGINAL_URL, FROM_ORIGINAL_URI, FROM_FORWARDED_URI };

struct asked {
    unsigned given; /* bits of the options that came: each comes once */
    int deny;       /* status of refusals; 0: the policy's */
    bool body;      /* refusals have a problem body */
    enum from from; /* the field that tells the original request */
};

/* The fields of a proxy that tell the original request. */
static const struct source {
    const char *name; /* as in ?from= */
    const char *path, *method;
} sources[] = {
    [FROM_ORIGINAL_URL] = {"x-original-url", "x-original-url", "x-original-method"},
    [FROM_ORIGINAL_URI] = {"x-original-uri", "x-original-uri", "x-original-method"},
    [FROM_FORWARDED_URI] = {"x-forwarded-uri", "x-forwarded-uri", "x-forwarded-method"},
};

/* ---- what is asked for -------------------------------------------------------------------- */

/* Is the option |name| the |bit|th, and here for the first time? */
static bool is_first(struct asked *asked, struct weir_slice name, const char *option, unsigned bit)
{
    if (!http_is(name, option) || (asked->given >> bit & 1) != 0)
        return false;
    asked->given |= 1U << bit;
    return true;
}

static bool read_option(struct asked *asked, struct weir_slice name, struct weir_slice value)
{
    bool from;

    if (is_first(asked, name, "deny", 0) && value.len == 3) {
        for (size_t i = 0; i < 3; i++) {
            if (value.ptr[i] < '0' || value.ptr[i] > '9')
                return false;
            asked->deny = asked->deny * 10 + (value.ptr[i] - '0');
        }
        return asked->deny >= 400 && asked->deny <= 599;
    }
    if (is_first(asked, name, "body", 1)) {
        asked->body = http_is(value, "1");
        return asked->body || http_is(value, "0");
    }
    from = is_first(asked, name, "from", 2);
    for (unsigned i = FROM_ORIGINAL_URL; from && i <= FROM_FORWARDED_URI; i++) {
        if (http_is(value, sources[i].name)) {
            asked->from = (enum from)i;
            return true;
        }
    }
    return false;
}

/* The query of /v1/auth itself: name=value, with & between. False: |*wrong| is not known. */
static bool read_query(struct weir_slice query, struct asked *asked, struct weir_slice *wrong)
{
    const char *at = query.ptr, *end = query.ptr + query.len;

    while (at < end) {
        const char *stop = memchr(at, '&', (size_t)(end - at));
        const char *equals;
        stop = stop != NULL ? stop : end;
        equals = memchr(at, '=', (size_t)(stop - at));
        *wrong = (struct weir_slice){at, (size_t)(stop - at)};
        if (equals == NULL ||
            !read_option(asked, (struct weir_slice){at, (size_t)(equals - at)},
                         (struct weir_slice){equals + 1, (size_t)(stop - equals - 1)}))
            return false;
        at = stop < end ? stop + 1 : end;
    }
    return true;
}

/* ---- the original request ----------------------------------------------------------------- */

/* "https://host/path" and "/path" -> "/path"; "" where there is none. */
static struct weir_slice path_of(struct weir_slice uri)
{
    const char *slash;

    if (uri.len > 0 && uri.ptr[0] == '/')
        return uri;
    for (size_t i = 0; i + 2 < uri.len; i++) {
        if (memcmp(uri.ptr + i, "://", 3) != 0)
            continue;
        slash = memchr(uri.ptr + i + 3, '/', uri.len - i - 3);
        return slash != NULL ? (struct weir_slice){slash, (size_t)(uri.ptr + uri.len - slash)}
                             : (struct weir_slice){"/", 1};
    }
    return (struct weir_slice){"", 0};
}

/* Keep |value| as what is told, or see that it says the same. */
static bool agree(struct weir_slice *told, struct weir_slice value)
{
    if (told->ptr == NULL)
        *told = value;
    return told->len == value.len && memcmp(told->ptr, value.ptr, value.len) == 0;
}

static bool is_source(const struct asked *asked, enum from from)
{
    return asked->from == FROM_ANY || asked->from == from;
}

/* Method and path from the fields. NULL, or what is wrong. */
static const char *read_original(const struct wr_http_request *request, const struct asked *asked,
                                 struct weir_request *out)
{
    struct weir_slice method = nothing, path = nothing;

    for (unsigned i = 0; i < request->field_count; i++) {
        const struct wr_http_field *field = &request->field[i];
        for (unsigned s = FROM_ORIGINAL_URL; s <= FROM_FORWARDED_URI; s++) {
            if (!is_source(asked, (enum from)s))
                continue;
            if (wr_http_name_is(field->name, sources[s].path) &&
                (path_of(field->value).len == 0 || !agree(&path, path_of(field->value))))
                return "the fields that tell the original request disagree, or are no URI; "
                       "?from= names one of them";
            if (wr_http_name_is(field->name, sources[s].method) && !agree(&method, field->value))
                return "the fields that tell the original method disagree; ?from= names one of "
                       "them";
        }
    }
    if (path.ptr != NULL)
        out->path = path;
    if (method.ptr != NULL && method.len > 0)
        out->method = method;
    return NULL;
}

static bool is_field(const struct http_policy *policy, size_t f, const struct wr_http_field *field)
{
    return policy->lens[f] == field->name.len &&
           strncasecmp(policy->names[f], field->name.ptr, field->name.len) == 0;
}

/* The value of the policy's field |f|: several lines of one name are joined by ", " at |*scratch|,
 * which takes what the head has, and two bytes a line. */
static struct weir_slice collect_field(const struct http_policy *policy, size_t f,
                                       const struct wr_http_request *request, char **scratch)
{
    struct weir_slice have = nothing;
    char *start = *scratch;

    for (unsigned i = 0; i < request->field_count; i++) {
        const struct wr_http_field *field = &request->field[i];
        if (!is_field(policy, f, field))
            continue;
        if (have.ptr == NULL) {
            have = field->value;
            continue;
        }
        if (have.ptr != start) /* the first line, as it came */
            memcpy(start, have.ptr, have.len);
        start[have.len] = ',';
        start[have.len + 1] = ' ';
        memcpy(start + have.len + 2, field->value.ptr, field->value.len);
        have = (struct weir_slice){start, have.len + 2 + field->value.len};
        *scratch = start + have.len;
    }
    return have;
}

/* Does the policy's field |f|, which is no list, come more than once? */
static bool is_repeated(const struct http_policy *policy, size_t f,
                        const struct wr_http_request *request)
{
    unsigned lines = 0;

    for (unsigned i = 0; i < request->field_count; i++)
        lines += is_field(policy, f, &request->field[i]);
    return lines > 1;
}

bool http_refuse_repeated(struct http_door *door, const struct wr_http_request *request,
                          struct http_response *response)
{
    const struct http_policy *policy = &door->policy;

    for (size_t f = 0; f < policy->field_count; f++) {
        if (policy->kinds[f] != WEIR_FIELD_HEADER || policy->lists[f] ||
            !is_repeated(policy, f, request))
            continue;
        http_problem(&door->service, response, 400, "the field tells one caller, and comes twice",
                     (struct weir_slice){policy->names[f], policy->lens[f]});
        return true;
    }
    return false;
}

void http_collect_fields(struct http_door *door, const struct wr_http_request *request)
{
    char *scratch = door->service.scratch; /* the body, if it lay there, is not looked at */

    for (size_t f = 0; f < door->policy.field_count; f++)
        door->fields[f] = door->policy.kinds[f] == WEIR_FIELD_HEADER
                              ? collect_field(&door->policy, f, request, &scratch)
                              : nothing;
}

/* ---- answers ------------------------------------------------------------------------------ */

static void add_text(struct http_response *response, const char *name, const char *text)
{
    http_add_field(response, name, (struct weir_slice){text, strlen(text)});
}

static void add_limit_fields(struct http_door *door, const struct weir_answer *answer,
                             struct http_response *response)
{
    struct weir_header headers[WEIR_HEADERS_MAX];
    int n =
        weir_answer_headers(door->service.loop->handle->weir, answer, door->policy.answers.families,
                            headers, door->values, sizeof door->values);

    for (int i = 0; i < n; i++)
        http_add_field(response, headers[i].name, headers[i].value);
}

static const char *write_status(int status, char out[4])
{
    out[0] = (char)('0' + status / 100 % 10);
    out[1] = (char)('0' + status / 10 % 10);
    out[2] = (char)('0' + status % 10);
    out[3] = '\0';
    return out;
}

/* What a refusal is answered with, whose status by the policy is |status|. That the store is gone
 * is a failure: a proxy that lets pass what fails has been told to. */
static int status_of_refusal(const struct asked *asked, const struct weir_answer *answer,
                             int status)
{
    if (asked->deny != 0)
        return asked->deny;
    return status < 500 || answer->reason == WEIR_REASON_STORE ? status : 429;
}

static void deny(struct http_door *door, const struct asked *asked,
                 const struct weir_answer *answer, struct http_response *response)
{
    const struct weir_answer_options *options = &door->policy.answers;
    int status = weir_answer_status(options, answer);
    int len;

    *response = (struct http_response){.status = status_of_refusal(asked, answer, status)};
    add_text(response, "X-Weir-Status", write_status(status, door->status));
    add_text(response, "X-Weir-Reason", wr_check_reason(answer->reason));
    if (answer->decisive >= 0)
        add_text(response, "X-Weir-Limit",
                 weir_limit_name(door->service.loop->handle->weir,
                                 answer->verdicts[answer->decisive].limit));
    add_limit_fields(door, answer, response);
    if (!asked->body)
        return;
    len = weir_answer_problem(door->service.loop->handle->weir, answer, response->status,
                              door->service.body, WEIR_PROBLEM_BYTES);
    if (len > 0) {
        response->type = "application/problem+json";
        response->body = (struct weir_slice){door->service.body, (size_t)len};
    }
}

/* A delay that cannot be held, being too long or one of too many: nothing is taken, and the caller
 * is told to come back. */
static void cannot_hold(struct http_door *door, struct weir_answer *answer)
{
    for (int i = 0; i < (int)answer->count; i++) /* whose delay it is, and no shadow limit's */
        if (answer->verdicts[i].shadow == 0 && answer->verdicts[i].delay_ns == answer->delay_ns)
            answer->decisive = (int16_t)i;
    wr_broker_give_back(door->service.loop, door->service.loop->handle, answer);
    answer->outcome = WEIR_DENY;
    answer->reason = WEIR_REASON_BUSY;
    answer->retry_after_ns = answer->delay_ns;
    answer->delay_ns = 0;
}

static void decide(struct http_door *door, const struct asked *asked,
                   const struct weir_request *original, struct http_response *response)
{
    struct weir_answer *answer = &door->answers[0];

    if (!wr_asks_decide(door->service.asks, original, answer)) {
        response->waits = true;
        return;
    }
    if (answer->delay_ns > 0 && answer->outcome != WEIR_DENY &&
        (answer->delay_ns > door->service.hold_max_ns || door->service.held >= HTTP_HELD_MAX))
        cannot_hold(door, answer);
    wr_refused_answer(door->service.loop, WR_DOOR_HTTP, original, answer);
    if (answer->outcome == WEIR_DENY) {
        deny(door, asked, answer, response);
        return;
    }
    *response = (struct http_response){.status = 200, .delay_ns = answer->delay_ns};
    add_limit_fields(door, answer, response);
}

void http_auth(struct http_service *service, struct weir_slice peer,
               const struct wr_http_request *request, struct http_response *response)
{
    struct http_door *door = http_door_of(service);
    const struct http_policy *policy = &door->policy;
    struct weir_slice rest = {request->target.ptr + PATH_LEN, request->target.len - PATH_LEN};
    struct weir_slice wrong = nothing;
    struct asked asked = {.from = FROM_ANY};
    struct weir_request original = {.method = request->method,
                                    .path = {"/", 1},
                                    .peer = peer,
                                    .field_count = policy->field_count,
                                    .cost_units = -1,
                                    .plan = -1};
    const char *error = NULL;

    if (rest.len > 0 && rest.ptr[0] == '/') {
        original.path = rest;
    } else if (rest.len > 0 &&
               !read_query((struct weir_slice){rest.ptr + 1, rest.len - 1}, &asked, &wrong)) {
        http_problem(&door->service, response, 400,
                     "there are deny=400..599, body=0|1 and from=FIELD, each once", wrong);
        return;
    } else if (wr_policy_trusts(door->service.loop->handle->policy, peer)) {
        error = read_original(request, &asked, &original);
    }
    if (error != NULL) {
        http_problem(&door->service, response, 400, error, nothing);
        return;
    }
    if (http_refuse_repeated(door, request, response))
        return;
    if (!http_fields_room(door, 1)) {
        http_problem(&door->service, response, 503, "out of memory", nothing);
        return;
    }
    http_collect_fields(door, request);
    original.fields = door->fields;
    if (policy->answers.skip_options && http_is(original.method, "OPTIONS"))
        *response = (struct http_response){.status = 200};
    else
        decide(door, &asked, &original, response);
}
