/* webhook.c - what is posted, how it is signed (against `openssl dgst -sha256 -hmac`), when it is
 * tried again. What becomes of it is tests/e2e/test_alerts.py's. */
#include "keeping.h"

#include "meter/webhook.h"

static struct wr_alert an_alert(void)
{
    return (struct wr_alert){.kind = WR_ALERT_QUOTA,
                             .event = "9f2d6c3b1e0a4f7788aa01c2d3e4f506",
                             .customer = INT64_C(4617315517961601024),
                             .name = "Acme \"North\"",
                             .plan = "pro",
                             .quota = "daily",
                             .zone = "Europe/Istanbul",
                             .per = WR_PER_DAY,
                             .percent = 80,
                             .window = 19675, /* 2023-11-14 */
                             .used = 8003,
                             .limit = 10000,
                             .starts_ns = INT64_C(1699909200) * WR_NS_PER_S,
                             .ends_ns = INT64_C(1699995600) * WR_NS_PER_S,
                             .at_ns = NOW};
}

static const char *body_of(const struct wr_alert *alert)
{
    static char body[WR_WEBHOOK_BODY_MAX + 1];

    body[wr_webhook_body(body, alert)] = '\0';
    return body;
}

static void the_body(void **state)
{
    struct wr_alert alert = an_alert();

    (void)state;
    assert_string_equal(
        body_of(&alert),
        "{\"event\":\"9f2d6c3b1e0a4f7788aa01c2d3e4f506\",\"type\":\"quota\","
        "\"time\":\"2023-11-14T22:13:20Z\",\"customer\":{\"id\":\"4617315517961601024\","
        "\"name\":\"Acme \\\"North\\\"\",\"tenant\":null},\"plan\":\"pro\",\"quota\":\"daily\","
        "\"percent\":80,\"used\":8003,\"limit\":10000,\"window\":{\"first_day\":\"2023-11-14\","
        "\"per\":\"day\",\"zone\":\"Europe/Istanbul\",\"start\":\"2023-11-13T21:00:00Z\","
        "\"end\":\"2023-11-14T21:00:00Z\"}}\n");
    alert.kind = WR_ALERT_UPGRADE;
    (void)snprintf(alert.tenant, sizeof alert.tenant, "north");
    (void)snprintf(alert.after, sizeof alert.after, "enterprise");
    alert.ends_ns = 0;
    assert_string_equal(body_of(&alert),
                        "{\"event\":\"9f2d6c3b1e0a4f7788aa01c2d3e4f506\",\"type\":\"upgrade\","
                        "\"time\":\"2023-11-14T22:13:20Z\",\"customer\":{\"id\":"
                        "\"4617315517961601024\",\"name\":\"Acme \\\"North\\\"\",\"tenant\":"
                        "\"north\"},\"plan\":\"pro\",\"upgrade_to\":\"enterprise\","
                        "\"trial_until\":null}\n");
    alert.ends_ns = INT64_C(1700000000) * WR_NS_PER_S;
    assert_non_null(
        strstr(body_of(&alert), "\"enterprise\",\"trial_until\":\"2023-11-14T22:13:20Z\"}\n"));
}

/* The longest names there are, of bytes that need six each. */
static void the_longest_body(void **state)
{
    struct wr_alert alert = an_alert();
    const char *body;

    (void)state;
    memset(alert.name, 1, WR_CUSTOMER_NAME_MAX);
    memset(alert.tenant, 1, WR_CUSTOMER_NAME_MAX);
    memset(alert.plan, 1, WR_CUSTOMER_PLAN_MAX);
    memset(alert.quota, 1, sizeof alert.quota - 1);
    memset(alert.zone, 1, sizeof alert.zone - 1);
    body = body_of(&alert);
    assert_string_equal(body + strlen(body) - 4, "\"}}\n");
}

static void the_signature(void **state)
{
    char text[WR_WEBHOOK_SIGNATURE_MAX];

    (void)state;
    /* printf '1700000000.{"event":"x"}\n' | openssl dgst -sha256 -hmac s3cret-of-a-receiver */
    wr_webhook_sign(text, "s3cret-of-a-receiver", NOW + 999, slice("{\"event\":\"x\"}\n"));
    assert_string_equal(
        text, "t=1700000000,v1=a84ef7fb48ac67ea0b77d51a8ce8b3ffc6fc93d5c0e046323889e04b194cf29f");
}

static void later_and_later(void **state)
{
    const int64_t quarter = 15 * WR_NS_PER_MINUTE;

    (void)state;
    assert_true(wr_webhook_backoff_ns(1, 0) == WR_NS_PER_S / 2);
    assert_true(wr_webhook_backoff_ns(1, UINT32_MAX) <= WR_NS_PER_S);
    assert_true(wr_webhook_backoff_ns(1, UINT32_MAX) > WR_NS_PER_S * 9 / 10);
    assert_true(wr_webhook_backoff_ns(5, 0) == 8 * WR_NS_PER_S);
    assert_true(wr_webhook_backoff_ns(11, 0) == quarter / 2); /* 1024 s are more */
    assert_true(wr_webhook_backoff_ns(UINT32_MAX, UINT32_MAX) <= quarter);
    assert_true(wr_webhook_backoff_ns(0, 0) == WR_NS_PER_S / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_body),
        cmocka_unit_test(the_longest_body),
        cmocka_unit_test(the_signature),
        cmocka_unit_test(later_and_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
