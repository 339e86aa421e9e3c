/* fixture.h - a handle on a policy given as text, for the tests of engine and lib. */
#ifndef TEST_ENGINE_FIXTURE_H
#define TEST_ENGINE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <cmocka.h>

#include "weir/weir.h"

#define S INT64_C(1000000000)
#define MS INT64_C(1000000)
#define T0 \
    (INT64_C(1767225600) * S) /* 2026-01-01T00:00:00Z, a multiple of every window used here */

#define FIELDS_MAX 16

static inline struct weir *open_text(const char *text, const char *arena)
{
    struct weir_options options = {.arena_path = arena, .arena_bytes = UINT64_C(2) << 20};
    char path[] = "/tmp/weir-test-XXXXXX", errors[4000];
    struct weir *weir;
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    (void)close(fd);
    if (weir_open(&weir, path, &options, errors, sizeof errors) != 0)
        fail_msg("%s", errors);
    (void)unlink(path);
    return weir;
}

/* A request by header values: |api_key| and |user| may be NULL. */
struct call {
    const char *method, *path, *peer, *api_key, *user;
    int64_t cost; /* 0 stands for -1, by the policy; LOOK for 0 */
    bool peek;
};
#define LOOK INT64_C(-2)

static inline struct weir_slice slice(const char *text)
{
    return (struct weir_slice){text, text != NULL ? strlen(text) : 0};
}

static inline struct weir_request request_of(const struct weir *weir, const struct call *call,
                                             struct weir_slice fields[FIELDS_MAX])
{
    size_t count = weir_field_count(weir);

    assert_true(count <= FIELDS_MAX);
    for (size_t i = 0; i < count; i++) {
        const char *name = weir_field_name(weir, i);
        bool header = weir_field_kind(weir, i) == WEIR_FIELD_HEADER;
        fields[i] = (struct weir_slice){NULL, 0};
        if (header && strcasecmp(name, "X-Api-Key") == 0)
            fields[i] = slice(call->api_key);
        if (header && strcasecmp(name, "X-User-Id") == 0)
            fields[i] = slice(call->user);
    }
    return (struct weir_request){.method = slice(call->method != NULL ? call->method : "GET"),
                                 .path = slice(call->path != NULL ? call->path : "/"),
                                 .peer = slice(call->peer != NULL ? call->peer : "192.0.2.1"),
                                 .fields = fields,
                                 .field_count = count,
                                 .cost_units = call->cost == 0      ? -1
                                               : call->cost == LOOK ? 0
                                                                    : call->cost,
                                 .plan = -1,
                                 .peek = call->peek};
}

static inline struct weir_answer decide(struct weir *weir, int64_t now, struct call call)
{
    struct weir_slice fields[FIELDS_MAX];
    struct weir_request request = request_of(weir, &call, fields);
    struct weir_answer answer;

    assert_int_equal(weir_decide(weir, &request, now, &answer), 0);
    return answer;
}

static inline struct weir_answer reserve(struct weir *weir, int64_t now, int64_t ttl,
                                         struct call call)
{
    struct weir_slice fields[FIELDS_MAX];
    struct weir_request request = request_of(weir, &call, fields);
    struct weir_answer answer;

    assert_int_equal(weir_reserve(weir, &request, ttl, now, &answer), 0);
    return answer;
}

/* The name of the limit that |answer| speaks of, "" for none. */
static inline const char *speaks_of(const struct weir *weir, const struct weir_answer *answer)
{
    return answer->decisive < 0 ? ""
                                : weir_limit_name(weir, answer->verdicts[answer->decisive].limit);
}

/* What remains of the limit called |name| in |answer|. */
static inline int64_t left(const struct weir *weir, const struct weir_answer *answer,
                           const char *name)
{
    for (unsigned i = 0; i < answer->count; i++) {
        if (strcmp(weir_limit_name(weir, answer->verdicts[i].limit), name) == 0)
            return answer->verdicts[i].remaining_units;
    }
    fail_msg("%s does not match the request", name);
    return -1;
}

#endif
