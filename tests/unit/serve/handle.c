/* handle.c - policies in force: counting, sharing of arenas, tokens. */
#include "fixture.h"

static void test_a_reload_keeps_counts(void **state)
{
    struct wr_handle *first = handle_of(SMALL BUCKET(10), NULL), *second, *third;
    int64_t now = weir_now(first->weir);
    (void)state;

    assert_int_equal(first->generation, 1);
    (void)decide(first, "192.0.2.1", 4, now);
    second = handle_of(SMALL BUCKET(10), first);
    assert_int_equal(second->generation, 2);
    assert_int_equal(left(second, "192.0.2.1", now), 6);
    wr_handle_unref(first); /* its arena lives on under the second */
    (void)decide(second, "192.0.2.1", 1, now);
    third = handle_of(SMALL BUCKET(10), second);
    wr_handle_unref(second);
    assert_int_equal(third->generation, 3);
    assert_int_equal(left(third, "192.0.2.1", now), 5);
    wr_handle_unref(third);
}

static void test_an_answer_outlives_its_policy(void **state)
{
    struct wr_handle *first = handle_of(SMALL BUCKET(10), NULL), *second;
    int64_t now = weir_now(first->weir);
    struct weir_answer answer = decide(first, "192.0.2.1", 4, now);
    (void)state;

    answer.expires_ns = now + S;
    wr_handle_ref(first);
    second = handle_of(SMALL BUCKET(10), first);
    wr_handle_unref(first);
    assert_int_equal(weir_settle(first->weir, &answer, 1, now), 0);
    assert_int_equal(left(second, "192.0.2.1", now), 9);
    wr_handle_unref(first);
    wr_handle_unref(second);
}

static void test_another_arena(void **state)
{
    char text[200], path[] = "/tmp/weir-test-arena-XXXXXX";
    struct wr_handle *first = handle_of(SMALL BUCKET(10), NULL), *second;
    int64_t now = weir_now(first->weir);
    (void)state;

    assert_non_null(mkdtemp(path));
    (void)decide(first, "192.0.2.1", 4, now);
    (void)snprintf(text, sizeof text,
                   "version: 1\narena: {size: 1MiB, path: %s/arena}\n" BUCKET(10), path);
    second = handle_of(text, first);
    wr_handle_unref(first);
    assert_int_equal(left(second, "192.0.2.1", weir_now(second->weir)), 10);
    wr_handle_unref(second);
    (void)snprintf(text, sizeof text, "%s/arena", path);
    assert_int_equal(unlink(text), 0);
    assert_int_equal(rmdir(path), 0);
}

static void test_another_size_is_no_reason_to_refuse(void **state)
{
    struct wr_handle *first = handle_of(SMALL BUCKET(10), NULL), *second;
    int64_t now = weir_now(first->weir);
    (void)state;

    (void)decide(first, "192.0.2.1", 4, now);
    second = handle_of("version: 1\narena: {size: 2MiB}\n" BUCKET(10), first);
    assert_int_equal(left(second, "192.0.2.1", now), 6);
    wr_handle_unref(first);
    wr_handle_unref(second);
}

static void test_refused(void **state)
{
    struct wr_handle *first = handle_of(SMALL BUCKET(10), NULL);
    (void)state;

    assert_non_null(strstr(errors_of(SMALL "limits: [{nam: a}]\n", first), "unknown key"));
    wr_handle_unref(first);
}

static void test_tokens(void **state)
{
    static const char *const bad[] = {"", "\n", "two words\n", "two\nlines\n", "caf\xc3\xa9\n"};
    struct wr_handle *handle =
        handle_of(SMALL BUCKET(10) "listen: {admin_token: 0123456789abcdef}\n", NULL);
    char text[200], path[64];
    (void)state;

    assert_string_equal(handle->admin_token, "0123456789abcdef");
    wr_handle_unref(handle);
    (void)snprintf(path, sizeof path, "%s", file_of("from-a-file-0001\r\n"));
    (void)snprintf(text, sizeof text, SMALL BUCKET(10) "listen: {admin_token_file: %s}\n", path);
    handle = handle_of(text, NULL);
    assert_string_equal(handle->admin_token, "from-a-file-0001");
    wr_handle_unref(handle);
    (void)unlink(path);
    assert_non_null(strstr(errors_of(text, NULL), "expected the admin door's token: No such file"));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        (void)snprintf(path, sizeof path, "%s", file_of(bad[i]));
        (void)snprintf(text, sizeof text, SMALL BUCKET(10) "listen: {admin_token_file: %s}\n",
                       path);
        assert_non_null(strstr(errors_of(text, NULL), "expected one line of visible ASCII"));
        (void)unlink(path);
    }
}

static void test_passwords(void **state)
{
    static const char *const bad[] = {"", "\n", "two\nlines\n", "a\tb\n"};
    struct wr_handle *handle =
        handle_of(SMALL BUCKET(10) "listen: {resp_password: open sesame}\n", NULL);
    char text[200], path[64];
    (void)state;

    assert_string_equal(handle->resp_password, "open sesame");
    assert_null(handle->admin_token);
    wr_handle_unref(handle);
    (void)snprintf(path, sizeof path, "%s", file_of("ouvre s\xc3\xa9same\n"));
    (void)snprintf(text, sizeof text, SMALL BUCKET(10) "listen: {resp_password_file: %s}\n", path);
    handle = handle_of(text, NULL);
    assert_string_equal(handle->resp_password, "ouvre s\xc3\xa9same");
    wr_handle_unref(handle);
    (void)unlink(path);
    assert_non_null(
        strstr(errors_of(text, NULL), "expected the resp door's password: No such file"));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        (void)snprintf(path, sizeof path, "%s", file_of(bad[i]));
        (void)snprintf(text, sizeof text, SMALL BUCKET(10) "listen: {resp_password_file: %s}\n",
                       path);
        assert_non_null(strstr(errors_of(text, NULL), "expected one line of text as password"));
        (void)unlink(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_passwords),
        cmocka_unit_test(test_a_reload_keeps_counts),
        cmocka_unit_test(test_an_answer_outlives_its_policy),
        cmocka_unit_test(test_another_arena),
        cmocka_unit_test(test_another_size_is_no_reason_to_refuse),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
