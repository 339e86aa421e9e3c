/* ratejson_write.c - answers of the Envoy Rate Limit Service as proto3 JSON: names in
 * lowerCamelCase, enums by name, zeros left out, durations in seconds with their letter, bytes in
 * base64. */
#include <stdio.h>
#include <string.h>

#include "wire/json.h"
#include "wire/ratejson.h"

#define STATUS_BYTES 256U /* of a status, besides its name */

static const char *const codes[] = {"UNKNOWN", "OK", "OVER_LIMIT"};
static const char *const units[WR_UNITS] = {"UNKNOWN", "SECOND", "MINUTE", "HOUR",
                                            "DAY",     "MONTH",  "YEAR",   "WEEK"};

size_t wr_rate_write_max(const struct wr_rate_response *response)
{
    size_t bytes = STATUS_BYTES + response->body.len / 3 * 4 + 4;

    for (size_t i = 0; i < response->count; i++)
        bytes += STATUS_BYTES + 6 * response->statuses[i].name.len;
    for (size_t i = 0; i < response->header_count; i++)
        bytes += 32 + 6 * (response->headers[i].key.len + response->headers[i].value.len);
    return bytes;
}

static char *put_bytes(char *at, const char *bytes, size_t len)
{
    memcpy(at, bytes, len);
    return at + len;
}

static char *put(char *at, const char *text)
{
    return put_bytes(at, text, strlen(text));
}

static char *put_string(char *at, struct weir_slice text)
{
    return at + wr_json_write_string(at, 6 * text.len + 2, text);
}

static char *put_number(char *at, const char *name, uint64_t value)
{
    return at + snprintf(at, 64, ",\"%s\":%llu", name, (unsigned long long)value);
}

static char *put_limit(char *at, const struct wr_rate_status *status)
{
    char *start;

    at = put(at, ",\"currentLimit\":");
    start = at;
    *at = '{'; /* for a limit of which everything is zero */
    if (status->name.len > 0)
        at = put_string(put(at, ",\"name\":"), status->name);
    if (status->units > 0)
        at = put_number(at, "requestsPerUnit", status->units);
    if (status->unit > 0 && status->unit < WR_UNITS) {
        at = put(at, ",\"unit\":\"");
        at = put(at, units[status->unit]);
        *at++ = '"';
    }
    if (at == start)
        at++;
    *start = '{'; /* in place of the first comma */
    *at++ = '}';
    return at;
}

static char *put_status(char *at, const struct wr_rate_status *status)
{
    at = put(at, "{\"code\":\"");
    at = put(at, codes[status->code < 3 ? status->code : 0]);
    *at++ = '"';
    if (status->has_limit)
        at = put_limit(at, status);
    if (status->remaining > 0)
        at = put_number(at, "limitRemaining", status->remaining);
    if (status->reset_s > 0)
        at += snprintf(at, 64, ",\"durationUntilReset\":\"%llds\"", (long long)status->reset_s);
    *at++ = '}';
    return at;
}

static char *put_base64(char *at, struct weir_slice bytes)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
    const unsigned char *p = (const unsigned char *)bytes.ptr;

    for (size_t i = 0; i < bytes.len; i += 3) {
        size_t n = bytes.len - i < 3 ? bytes.len - i : 3;
        unsigned group = (unsigned)p[i] << 16 | (n > 1 ? (unsigned)p[i + 1] << 8 : 0) |
                         (n > 2 ? (unsigned)p[i + 2] : 0);
        for (size_t k = 0; k < 4; k++)
            *at++ = letters[k <= n ? group >> (18 - 6 * k) & 63 : 64];
    }
    return at;
}

size_t wr_rate_write(const struct wr_rate_response *response, char *out)
{
    char *at = put(out, "{\"overallCode\":\"");

    at = put(at, codes[response->code < 3 ? response->code : 0]);
    *at++ = '"';
    for (size_t i = 0; i < response->count; i++)
        at = put_status(put(at, i == 0 ? ",\"statuses\":[" : ","), &response->statuses[i]);
    if (response->count > 0)
        *at++ = ']';
    for (size_t i = 0; i < response->header_count; i++) {
        at = put(at, i == 0 ? ",\"responseHeadersToAdd\":[{\"key\":" : ",{\"key\":");
        at = put_string(at, response->headers[i].key);
        at = put_string(put(at, ",\"value\":"), response->headers[i].value);
        *at++ = '}';
    }
    if (response->header_count > 0)
        *at++ = ']';
    if (response->body.len > 0) {
        at = put_base64(put(at, ",\"rawBody\":\""), response->body);
        *at++ = '"';
    }
    *at++ = '}';
    return (size_t)(at - out);
}
