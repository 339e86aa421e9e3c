/* memory.c - loading a policy when the n-th allocation fails, for every n: no crash, no leak, and
 * WEIR_ENOMEM. The program is linked with malloc and calloc wrapped; what is still held is counted
 * here, libyaml's own allocations apart. */
#include <stdlib.h>

#include "requests.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void __wrap_free(void *block);

static bool counting;
static int until_failure; /* < 0: never */
static int held;

static bool fails(void)
{
    return counting && until_failure >= 0 && until_failure-- == 0;
}

void *__wrap_malloc(size_t size)
{
    if (fails())
        return NULL;
    held += counting;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    if (fails())
        return NULL;
    held += counting;
    return __real_calloc(count, size);
}

void __wrap_free(void *block)
{
    held -= counting && block != NULL;
    __real_free(block);
}

/* Uses every section, in sizes that need several blocks. */
static const char *large_policy(size_t *len)
{
    static char text[400000];
    size_t at = (size_t)snprintf(text, sizeof text,
                                 "version: 1\n"
                                 "arena: {path: /run/weir/arena, size: 64MiB}\n"
                                 "answers: {documentation_url: https://example.com/}\n"
                                 "identity:\n"
                                 "  ip: {from: x-forwarded-for, trusted: [10.0.0.0/8, 127.0.0.1]}\n"
                                 "  api_key: {header: X-Api-Key}\n"
                                 "  plan: {default: free, keys: {");

    for (int i = 0; i < 500; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "key_%d: pro, ", i);
    at += (size_t)snprintf(text + at, sizeof text - at,
                           "x: pro}}\n"
                           "costs: [{match: {method: POST, path: /x/**}, cost: 3}]\n"
                           "bans: [{ip: 192.0.2.0/24}, {api_key: key_7}]\n"
                           "limits:\n"
                           "  - {name: all, by: [ip], rate: {free: 5/s, pro: 6/s}}\n");
    for (int i = 0; i < 500; i++)
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "  - {name: l%d, by: [api_key, route], match: {method: [GET, M%d], "
                               "path: \"/a/p%d/{x}/**\"}, rate: 10/minute}\n",
                               i, i % 20, i);
    *len = at;
    return text;
}

static void test_every_allocation_may_fail(void **state)
{
    static struct wr_diag diag;
    struct wr_policy *policy = NULL;
    size_t len;
    const char *text = large_policy(&len);
    int result = WEIR_ENOMEM, n;
    (void)state;

    for (n = 0; n < 10000 && result != 0; n++) {
        wr_diag_init(&diag, "p");
        until_failure = n;
        held = 0;
        counting = true;
        result = wr_policy_load_text(&policy, text, len, &diag);
        counting = false;
        if (result == 0)
            break;
        if (result != WEIR_ENOMEM)
            fail_msg("allocation %d: %d %s", n, result, diag.items[0].text);
        assert_null(policy);
        assert_int_equal(held, 0);
        assert_int_equal(diag.errors, 0); /* out of memory is not the author's mistake */
    }
    assert_int_equal(result, 0);
    assert_in_range(n, 20, 10000); /* many blocks were asked for */
    assert_int_equal(wr_policy_limit_count(policy), 501);
    counting = true;
    until_failure = -1;
    wr_policy_free(policy);
    counting = false;
    assert_int_equal(held, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
