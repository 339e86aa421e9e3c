/* webhook_body.c - what is sent, how it is signed, and when it is tried again. Pure. */
#include "meter/webhook.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "base/hex.h"
#include "base/hmac.h"
#include "base/units.h"
#include "meter/customers_parts.h"
#include "wire/json_write.h"

#define BACKOFF_MAX_NS (15 * WR_NS_PER_MINUTE)

/* ---- the body ------------------------------------------------------------------------------- */

struct text {
    char *out;
    size_t len; /* below WR_WEBHOOK_BODY_MAX: names have bounds */
};

static void add(struct text *text, const char *literal)
{
    size_t len = strlen(literal);

    if (text->len + len < WR_WEBHOOK_BODY_MAX) {
        memcpy(text->out + text->len, literal, len);
        text->len += len;
    }
}

static void add_string(struct text *text, const char *name, const char *value)
{
    const struct weir_slice slice = {value, strlen(value)};
    size_t room, len;

    add(text, name);
    room = WR_WEBHOOK_BODY_MAX - text->len;
    len = wr_json_write_string(text->out + text->len, room, slice);
    text->len += len < room ? len : 0;
}

static void add_number(struct text *text, const char *name, int64_t value)
{
    char digits[24];

    (void)snprintf(digits, sizeof digits, "%" PRId64, value);
    add(text, name);
    add(text, digits);
}

static void add_moment(struct text *text, const char *name, int64_t moment_ns)
{
    char moment[WR_MOMENT_TEXT];

    wr_moment_text(moment_ns, moment);
    add_string(text, name, moment);
}

/* Identifiers are texts: 63 bits are more than a number of JavaScript holds. */
static void add_customer(struct text *text, const struct wr_alert *alert)
{
    char id[24];

    (void)snprintf(id, sizeof id, "%" PRId64, alert->customer);
    add_string(text, ",\"customer\":{\"id\":", id);
    add_string(text, ",\"name\":", alert->name);
    if (alert->tenant[0] != '\0')
        add_string(text, ",\"tenant\":", alert->tenant);
    else
        add(text, ",\"tenant\":null");
    add(text, "}");
}

static void add_quota(struct text *text, const struct wr_alert *alert)
{
    static const char *const pers[] = {
        [WR_PER_DAY] = "day", [WR_PER_WEEK] = "week", [WR_PER_MONTH] = "month"};
    char date[32];
    unsigned month, day;
    int year;

    wr_civil_date(alert->window, &year, &month, &day);
    (void)snprintf(date, sizeof date, "%04d-%02u-%02u", year, month, day);
    add_string(text, ",\"quota\":", alert->quota);
    add_number(text, ",\"percent\":", alert->percent);
    add_number(text, ",\"used\":", (int64_t)alert->used);
    add_number(text, ",\"limit\":", alert->limit);
    add_string(text, ",\"window\":{\"first_day\":", date);
    add_string(text, ",\"per\":", alert->per <= WR_PER_MONTH ? pers[alert->per] : "");
    add_string(text, ",\"zone\":", alert->zone);
    add_moment(text, ",\"start\":", alert->starts_ns);
    add_moment(text, ",\"end\":", alert->ends_ns);
    add(text, "}");
}

static void add_upgrade(struct text *text, const struct wr_alert *alert)
{
    add_string(text, ",\"upgrade_to\":", alert->after);
    if (alert->ends_ns != 0)
        add_moment(text, ",\"trial_until\":", alert->ends_ns);
    else
        add(text, ",\"trial_until\":null");
}

size_t wr_webhook_body(char out[WR_WEBHOOK_BODY_MAX], const struct wr_alert *alert)
{
    struct text text = {out, 0};
    bool upgrade = alert->kind == WR_ALERT_UPGRADE;

    add_string(&text, "{\"event\":", alert->event);
    add_string(&text, ",\"type\":", upgrade ? "upgrade" : "quota");
    add_moment(&text, ",\"time\":", alert->at_ns);
    add_customer(&text, alert);
    add_string(&text, ",\"plan\":", alert->plan);
    if (upgrade)
        add_upgrade(&text, alert);
    else
        add_quota(&text, alert);
    add(&text, "}\n");
    return text.len;
}

/* ---- its signature -------------------------------------------------------------------------- */

void wr_webhook_sign(char out[WR_WEBHOOK_SIGNATURE_MAX], const char *secret, int64_t now_ns,
                     struct weir_slice body)
{
    unsigned char digest[WR_SHA256_BYTES];
    struct wr_hmac hmac;
    char moment[32];
    int len, at;

    len = snprintf(moment, sizeof moment, "%" PRId64 ".", now_ns / WR_NS_PER_S);
    wr_hmac_init(&hmac, secret, strlen(secret));
    wr_hmac_add(&hmac, moment, (size_t)len);
    wr_hmac_add(&hmac, body.ptr, body.len);
    wr_hmac_finish(&hmac, digest);
    explicit_bzero(&hmac, sizeof hmac);
    at = snprintf(out, WR_WEBHOOK_SIGNATURE_MAX, "t=%.*s,v1=", len - 1, moment);
    wr_hex_write(out + at, digest, WR_SHA256_BYTES);
    out[at + 2 * WR_SHA256_BYTES] = '\0';
}

/* ---- again ---------------------------------------------------------------------------------- */

int64_t wr_webhook_backoff_ns(unsigned tries, uint32_t random)
{
    int64_t most = WR_NS_PER_S;

    for (unsigned i = 1; i < tries && most < BACKOFF_MAX_NS; i++)
        most *= 2;
    if (most > BACKOFF_MAX_NS)
        most = BACKOFF_MAX_NS;
    return most / 2 + (int64_t)((wr_u128)(uint64_t)(most / 2) * random / UINT32_MAX);
}
