/* problem.c - the body of a refusal, RFC 9457.
 *
 * One object, members in a fixed order; what is not known is left out. |detail| is one English
 * sentence that a person can act on: what the limit is and when to come back, or why waiting does
 * not help. Strings that a policy's author chose are escaped; nothing of the request is echoed, so
 * there is nothing for an attacker to write here.
 *
 * Types: draft-ietf-httpapi-ratelimit-headers -11, section "Problem types"; choices:
 * docs/headers.md. */
#include "wire/problem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "wire/json_write.h"

#define TYPES "https://iana.org/assignments/http-problem-types#"
#define DETAIL_MAX 320

struct body {
    char *buffer;
    size_t size;
    size_t at; /* wanted length; more than size: full */
};

struct kind {
    const char *type;
    const char *title;
};

static const struct kind quota_exceeded = {TYPES "quota-exceeded", "Quota exceeded"};
static const struct kind reduced = {TYPES "temporary-reduced-capacity",
                                    "Temporarily reduced capacity"};
static const struct kind unavailable = {"about:blank", "Service Unavailable"};
static const struct kind forbidden = {"about:blank", "Forbidden"};
static const struct kind abnormal = {TYPES "abnormal-usage-detected", "Abnormal usage detected"};

static void add(struct body *body, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct body *body, const char *format, ...)
{
    bool fits = body->at < body->size;
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(fits ? body->buffer + body->at : NULL, fits ? body->size - body->at : 0, format,
                  args);
    va_end(args);
    body->at += n > 0 ? (size_t)n : 0;
}

static void add_string(struct body *body, const char *text)
{
    bool fits = body->at < body->size;

    body->at += wr_json_write_string(fits ? body->buffer + body->at : NULL,
                                     fits ? body->size - body->at : 0,
                                     (struct weir_slice){text, strlen(text)});
}

/* ,"name":"text", where there is a text. */
static void add_member(struct body *body, const char *name, const char *text)
{
    if (text == NULL)
        return;
    add(body, ",\"%s\":", name);
    add_string(body, text);
}

static int64_t seconds(int64_t ns)
{
    return ns / WR_NS_PER_S + (ns % WR_NS_PER_S != 0);
}

/* "12 s", "5 min 3 s", "2 h 5 min", "3 d 4 h": two units at most, rounded up. */
static void write_wait(char *out, size_t size, int64_t ns)
{
    static const struct {
        int64_t seconds;
        const char *name;
        int64_t small_seconds; /* the unit that comes second */
        const char *small_name;
    } units[] = {{86400, "d", 3600, "h"}, {3600, "h", 60, "min"}, {60, "min", 1, "s"}};
    int64_t s = seconds(ns);

    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        int64_t small = s / units[i].small_seconds + (s % units[i].small_seconds != 0);
        int64_t per = units[i].seconds / units[i].small_seconds;
        if (s < units[i].seconds)
            continue;
        if (small % per == 0)
            (void)snprintf(out, size, "%lld %s", (long long)(small / per), units[i].name);
        else
            (void)snprintf(out, size, "%lld %s %lld %s", (long long)(small / per), units[i].name,
                           (long long)(small % per), units[i].small_name);
        return;
    }
    (void)snprintf(out, size, "%lld s", (long long)s);
}

/* "minute", "15 minutes", "250 ms". */
static void write_window(char *out, size_t size, int64_t window_ns)
{
    static const struct {
        int64_t ns;
        const char *name;
    } units[] = {{WR_NS_PER_WEEK, "week"},     {WR_NS_PER_DAY, "day"},  {WR_NS_PER_HOUR, "hour"},
                 {WR_NS_PER_MINUTE, "minute"}, {WR_NS_PER_S, "second"}, {WR_NS_PER_MS, "ms"}};

    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        int64_t n = window_ns / units[i].ns;
        if (window_ns % units[i].ns != 0 || n == 0)
            continue;
        if (units[i].ns == WR_NS_PER_MS)
            (void)snprintf(out, size, "%lld ms", (long long)n);
        else if (n == 1)
            (void)snprintf(out, size, "%s", units[i].name);
        else
            (void)snprintf(out, size, "%lld %ss", (long long)n, units[i].name);
        return;
    }
    (void)snprintf(out, size, "%lld ns", (long long)window_ns);
}

/* "30 requests per minute", or "4 requests at a time" where there is no window. */
static void write_quota(char *out, size_t size, const struct wr_problem *problem)
{
    const char *noun = problem->quota_units == 1 ? "request" : "requests";
    char window[64];

    if (problem->window_ns <= 0) {
        (void)snprintf(out, size, "%lld %s at a time", (long long)problem->quota_units, noun);
        return;
    }
    write_window(window, sizeof window, problem->window_ns);
    if (problem->period != NULL)
        (void)snprintf(window, sizeof window, "%s", problem->period);
    (void)snprintf(out, size, "%lld %s per %s", (long long)problem->quota_units, noun, window);
}

/* "the plan free does not include this; the plan pro does". */
static void write_excluded(char *out, size_t size, const struct wr_problem *problem)
{
    const char *plan = problem->plan, *better = problem->upgrade_to;

    (void)snprintf(out, size, "the plan %s%sdoes not include this%s%s%s", plan != NULL ? plan : "",
                   plan != NULL ? " " : "", better != NULL ? "; the plan " : "",
                   better != NULL ? better : "", better != NULL ? " does" : "");
}

static void write_detail(char *out, size_t size, const struct wr_problem *problem)
{
    char quota[128], wait[64];

    write_quota(quota, sizeof quota, problem);
    write_wait(wait, sizeof wait, problem->retry_after_ns > 0 ? problem->retry_after_ns : 0);
    switch (problem->reason) {
    case WEIR_REASON_CAPACITY:
        (void)snprintf(out, size, "this request costs more than %s can ever allow", quota);
        return;
    case WEIR_REASON_ZERO:
        (void)snprintf(out, size, "no requests are allowed here");
        return;
    case WEIR_REASON_BANNED:
        (void)snprintf(out, size, "requests from this caller are blocked%s%s",
                       problem->retry_after_ns > 0 ? "; try again in " : "",
                       problem->retry_after_ns > 0 ? wait : "");
        return;
    case WEIR_REASON_MISSING:
        (void)snprintf(out, size, "the request lacks a credential that this limit needs");
        return;
    case WEIR_REASON_BUSY:
        (void)snprintf(out, size, "too many requests at this moment; try again in %s", wait);
        return;
    case WEIR_REASON_STORE:
        (void)snprintf(out, size, "limits cannot be checked at this moment; try again in %s", wait);
        return;
    case WEIR_REASON_PLAN:
        write_excluded(out, size, problem);
        return;
    case WEIR_REASON_NONE:
    case WEIR_REASON_LIMIT:
    default:
        break;
    }
    if (problem->retry_after_ns > 0)
        (void)snprintf(out, size, "%s; try again in %s", quota, wait);
    else
        (void)snprintf(out, size, "%s", quota);
}

/* Our own word for what happened: only what waiting or paying can cure is a rate limit exceeded. */
static const char *error_of(enum weir_reason reason)
{
    switch (reason) {
    case WEIR_REASON_BANNED:
        return "banned";
    case WEIR_REASON_MISSING:
        return "credential_missing";
    case WEIR_REASON_CAPACITY:
        return "cost_above_capacity";
    case WEIR_REASON_STORE:
        return "store_unavailable";
    case WEIR_REASON_PLAN:
        return "plan_excludes_route";
    case WEIR_REASON_NONE:
    case WEIR_REASON_LIMIT:
    case WEIR_REASON_ZERO:
    case WEIR_REASON_BUSY:
    default:
        return "rate_limit_exceeded";
    }
}

static const struct kind *kind_of(const struct wr_problem *problem)
{
    if (problem->reason == WEIR_REASON_BANNED)
        return &abnormal;
    if (problem->reason == WEIR_REASON_STORE)
        return &unavailable;
    if (problem->reason == WEIR_REASON_PLAN)
        return &forbidden;
    return problem->status == 503 ? &reduced : &quota_exceeded;
}

int wr_problem_write(const struct wr_problem *problem, char *buffer, size_t size)
{
    struct body body = {.buffer = buffer, .size = size};
    const struct kind *kind = kind_of(problem);
    char detail[DETAIL_MAX];

    if (size > 0)
        buffer[0] = '\0';
    write_detail(detail, sizeof detail, problem);
    add(&body, "{\"type\":\"%s\",\"title\":\"%s\",\"status\":%d", kind->type, kind->title,
        problem->status);
    add_member(&body, "detail", detail);
    add(&body, ",\"violated-policies\":[");
    for (size_t i = 0; i < problem->violated_count; i++) {
        add(&body, "%s", i > 0 ? "," : "");
        add_string(&body, problem->violated[i]);
    }
    add(&body, "],\"error\":\"%s\"", error_of(problem->reason));
    if (problem->retry_after_ns > 0)
        add(&body, ",\"retry_after\":%lld", (long long)seconds(problem->retry_after_ns));
    add_member(&body, "limit", problem->limit);
    add_member(&body, "plan", problem->plan);
    if (problem->reason != WEIR_REASON_BANNED && problem->reason != WEIR_REASON_MISSING &&
        problem->reason != WEIR_REASON_STORE) {
        add_member(&body, "upgrade_to", problem->upgrade_to);
        add_member(&body, "upgrade_url", problem->upgrade_url);
    }
    add_member(&body, "documentation_url", problem->documentation_url);
    add(&body, "}");
    if (body.at >= size) {
        if (size > 0)
            buffer[size - 1] = '\0';
        return WEIR_EFULL;
    }
    return (int)body.at;
}
