/* redis_reply.c - errors of Redis, as real servers word them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "remote/redis_reply.h"

static enum wr_redis_error error_of(const char *text)
{
    return wr_redis_error_of(text, strlen(text));
}

static void test_errors_by_their_words(void **state)
{
    static const struct {
        const char *text;
        enum wr_redis_error error;
        enum wr_remote_trouble trouble;
    } row[] = {
        {"NOSCRIPT No matching script. Please use EVAL.", WR_REDIS_NOSCRIPT, WR_TROUBLE_PROTOCOL},
        {"READONLY You can't write against a read only replica.", WR_REDIS_READONLY,
         WR_TROUBLE_BUSY},
        {"LOADING Redis is loading the dataset in memory", WR_REDIS_BUSY, WR_TROUBLE_BUSY},
        {"BUSY Redis is busy running a script. You can only call SCRIPT KILL", WR_REDIS_BUSY,
         WR_TROUBLE_BUSY},
        {"MASTERDOWN Link with MASTER is down", WR_REDIS_BUSY, WR_TROUBLE_BUSY},
        {"OOM command not allowed when used memory > 'maxmemory'.", WR_REDIS_BUSY, WR_TROUBLE_BUSY},
        {"ERR max number of clients reached", WR_REDIS_BUSY, WR_TROUBLE_BUSY},
        {"NOAUTH Authentication required.", WR_REDIS_DENIED, WR_TROUBLE_DENIED},
        {"NOPERM this user has no permissions to run the 'evalsha' command", WR_REDIS_DENIED,
         WR_TROUBLE_DENIED},
        {"WRONGPASS invalid username-password pair or user is disabled.", WR_REDIS_DENIED,
         WR_TROUBLE_DENIED},
        {"ERR The user executing the script can't run this command or subcommand script: 0123",
         WR_REDIS_DENIED, WR_TROUBLE_DENIED},
        {"ERR AUTH <password> called without any password configured for the default user",
         WR_REDIS_DENIED, WR_TROUBLE_DENIED},
        {"CLUSTERDOWN The cluster is down", WR_REDIS_CLUSTERDOWN, WR_TROUBLE_BUSY},
        {"TRYAGAIN Multiple keys request during rehashing of slot", WR_REDIS_TRYAGAIN,
         WR_TROUBLE_BUSY},
        {"MOVED 3999 127.0.0.1:6381", WR_REDIS_MOVED, WR_TROUBLE_BUSY},
        {"ASK 3999 127.0.0.1:6381", WR_REDIS_ASK, WR_TROUBLE_BUSY},
        {"ERR unknown command 'EVALSHA'", WR_REDIS_OTHER, WR_TROUBLE_PROTOCOL},
        {"BUSYGROUP Consumer Group name already exists", WR_REDIS_OTHER, WR_TROUBLE_PROTOCOL},
        {"", WR_REDIS_OTHER, WR_TROUBLE_PROTOCOL},
    };
    (void)state;

    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        assert_int_equal(error_of(row[i].text), row[i].error);
        assert_int_equal(wr_redis_trouble_of(error_of(row[i].text)), row[i].trouble);
    }
}

static void expect_redirection(const char *text, unsigned slot, const char *host, unsigned port)
{
    char got[WR_REDIS_HOST_MAX];
    uint16_t got_slot, got_port;

    assert_true(wr_redis_redirection(text, strlen(text), &got_slot, got, &got_port));
    assert_int_equal(got_slot, slot);
    assert_string_equal(got, host);
    assert_int_equal(got_port, port);
}

static void test_where_a_slot_went(void **state)
{
    (void)state;
    expect_redirection("MOVED 3999 127.0.0.1:6381", 3999, "127.0.0.1", 6381);
    expect_redirection("ASK 16383 redis-2.example:7000", 16383, "redis-2.example", 7000);
    expect_redirection("MOVED 0 :6381", 0, "", 6381);
    expect_redirection("MOVED 1 2001:db8::1:6379", 1, "2001:db8::1", 6379);
}

static void test_no_redirection(void **state)
{
    static const char *const bad[] = {
        "",           "MOVED",           "MOVED 1",          "MOVED 16384 a:1", "MOVED x a:1",
        "MOVED 1 a:", "MOVED 1 a:65536", "MOVED 1 a:123456", "MOVED -1 a:1",    "MOVED 1 a:0",
        "MOVED 1 a",  "MOVED  1 a:1",
    };
    char host[WR_REDIS_HOST_MAX], text[400];
    uint16_t slot, port;
    (void)state;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(wr_redis_redirection(bad[i], strlen(bad[i]), &slot, host, &port));
    memset(text, 'a', sizeof text);
    memcpy(text, "MOVED 1 ", 8);
    memcpy(text + sizeof text - 2, ":1", 2);
    assert_false(wr_redis_redirection(text, sizeof text, &slot, host, &port));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_by_their_words),
        cmocka_unit_test(test_where_a_slot_went),
        cmocka_unit_test(test_no_redirection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
