/* requests.h - for the tests of src/policy: a policy from a text, requests by name. */
#ifndef TEST_POLICY_REQUESTS_H
#define TEST_POLICY_REQUESTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "policy/policy.h"

static inline struct weir_slice slice(const char *text)
{
    return (struct weir_slice){text, text != NULL ? strlen(text) : 0};
}

/* The policy in |text|, or the test fails with its errors. */
static inline struct wr_policy *policy_of(const char *text)
{
    static struct wr_diag diag;
    static char errors[65536];
    struct wr_policy *policy;

    wr_diag_init(&diag, "test.yaml");
    if (wr_policy_load_text(&policy, text, strlen(text), &diag) != 0) {
        (void)wr_diag_format(&diag, errors, sizeof errors);
        fail_msg("%s", errors);
    }
    assert_non_null(policy);
    return policy;
}

/* All messages about the policy in |text|, each "line:column: error: ...\n"; "" and *loaded for a
 * good one. In static memory. */
static inline const char *messages_of(const char *text, size_t len, int *result)
{
    static struct wr_diag diag;
    static char out[65536];
    struct wr_policy *policy;
    size_t skip = strlen("p:"), at = 0;
    static char raw[65536];

    wr_diag_init(&diag, "p");
    *result = wr_policy_load_text(&policy, text, len, &diag);
    assert_int_equal(*result != 0, policy == NULL);
    assert_int_equal(*result == 0, diag.errors == 0);
    wr_policy_free(policy);
    (void)wr_diag_format(&diag, raw, sizeof raw);
    for (char *line = raw; *line != '\0';) {
        char *end = strchr(line, '\n');
        at += (size_t)snprintf(out + at, sizeof out - at, "%.*s\n", (int)(end - line - (int)skip),
                               line + skip);
        line = end + 1;
    }
    out[at] = '\0';
    return out;
}

/* The policy in |text| is refused with exactly the messages |expected|, a line each. */
static inline void expect_errors(const char *text, const char *expected)
{
    int result;
    const char *got = messages_of(text, strlen(text), &result);

    if (result != WEIR_EPOLICY || strcmp(got, expected) != 0)
        fail_msg("%s\n--- gave %d:\n%s--- not\n%s", text, result, got, expected);
}

/* The policy in |text| is good and has exactly the warnings |expected|. */
static inline void expect_warnings(const char *text, const char *expected)
{
    int result;
    const char *got = messages_of(text, strlen(text), &result);

    if (result != 0 || strcmp(got, expected) != 0)
        fail_msg("%s\n--- gave %d:\n%s--- not\n%s", text, result, got, expected);
}

/* One good limit, for policies that are about something else. */
#define LIMITS "limits: [{name: a, by: [ip], rate: 5/s}]\n"

/* A request under construction. */
struct asking {
    struct weir_request request;
    struct weir_slice fields[WR_POLICY_FIELDS_MAX];
};

static inline void ask(struct asking *a, const struct wr_policy *policy, const char *method,
                       const char *path, const char *peer)
{
    memset(a, 0, sizeof *a);
    a->request.method = slice(method);
    a->request.path = slice(path);
    a->request.peer = slice(peer);
    a->request.fields = a->fields;
    a->request.field_count = wr_policy_field_count(policy);
    a->request.cost_units = -1;
    a->request.plan = -1;
}

static inline void put_field(struct asking *a, const struct wr_policy *policy,
                             enum weir_field_kind wanted, const char *name, struct weir_slice value)
{
    for (size_t i = 0; i < wr_policy_field_count(policy); i++) {
        enum weir_field_kind kind;
        if (strcmp(wr_policy_field(policy, i, &kind), name) == 0 && kind == wanted) {
            a->fields[i] = value;
            return;
        }
    }
    fail_msg("the policy has no field %s", name);
}

static inline void put_header(struct asking *a, const struct wr_policy *policy, const char *name,
                              const char *value)
{
    put_field(a, policy, WEIR_FIELD_HEADER, name, slice(value));
}

static inline void put_key(struct asking *a, const struct wr_policy *policy, const char *name,
                           const char *value)
{
    put_field(a, policy, WEIR_FIELD_KEY, name, slice(value));
}

/* The names of the limits selected, joined by blanks, with their keys if |keys|: parts joined by
 * ",", each with its kind and its text (an address as text). In static memory. */
static inline const char *show(const struct wr_policy *policy, const struct wr_selection *selection,
                               bool keys)
{
    static char out[8192];
    size_t at = 0;

    out[0] = '\0';
    for (unsigned i = 0; i < selection->count; i++) {
        const struct wr_selected *s = &selection->selected[i];
        at += (size_t)snprintf(out + at, sizeof out - at, "%s%s", i > 0 ? " " : "",
                               wr_policy_limit(policy, s->limit)->name);
        for (unsigned j = 0; keys && j < s->parts; j++) {
            static const char kinds[] = {'v', 'i', 'h', 'f', 'g'};
            char address[WR_IP_TEXT_MAX];
            struct weir_slice bytes = s->part[j].bytes;
            struct wr_ip ip;
            if (s->part[j].kind == WR_PART_IP || s->part[j].kind == WR_PART_FALLBACK) {
                assert_int_equal(bytes.len, sizeof ip.bytes);
                memcpy(ip.bytes, bytes.ptr, sizeof ip.bytes);
                bytes = (struct weir_slice){address, wr_ip_format(&ip, address)};
            }
            at += (size_t)snprintf(out + at, sizeof out - at, "%s%c:%.*s", j > 0 ? "," : "=",
                                   kinds[s->part[j].kind], (int)bytes.len,
                                   bytes.len > 0 ? bytes.ptr : "");
        }
        if (s->deny_missing)
            at += (size_t)snprintf(out + at, sizeof out - at, "!");
    }
    return out;
}

#endif
