/* grpc.c - the small codecs of gRPC over HTTP/2. Source: grpc, PROTOCOL-HTTP2. */
#include "wire/grpc.h"

#include <string.h>

#include "base/arith.h"
#include "base/units.h"

#define TIMEOUT_DIGITS 8

bool wr_grpc_frame_read(const uint8_t bytes[WR_GRPC_FRAME], struct wr_grpc_frame *out)
{
    out->compressed = bytes[0] == 1;
    out->len =
        (uint32_t)bytes[1] << 24 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 8 | bytes[4];
    return bytes[0] <= 1;
}

void wr_grpc_frame_write(uint8_t bytes[WR_GRPC_FRAME], uint32_t len)
{
    bytes[0] = 0;
    bytes[1] = (uint8_t)(len >> 24);
    bytes[2] = (uint8_t)(len >> 16);
    bytes[3] = (uint8_t)(len >> 8);
    bytes[4] = (uint8_t)len;
}

static int64_t unit_ns(char unit)
{
    switch (unit) {
    case 'H':
        return WR_NS_PER_HOUR;
    case 'M':
        return WR_NS_PER_MINUTE;
    case 'S':
        return WR_NS_PER_S;
    case 'm':
        return WR_NS_PER_MS;
    case 'u':
        return WR_NS_PER_US;
    case 'n':
        return 1;
    default:
        return 0;
    }
}

bool wr_grpc_timeout(struct weir_slice text, int64_t *ns)
{
    int64_t value = 0, unit;

    *ns = 0;
    if (text.len < 2 || text.len > TIMEOUT_DIGITS + 1)
        return false;
    for (size_t i = 0; i + 1 < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        value = value * 10 + (text.ptr[i] - '0');
    }
    unit = unit_ns(text.ptr[text.len - 1]);
    if (unit == 0)
        return false;
    if (!wr_mul_i64(value, unit, ns)) /* 99999999H is 11 400 years */
        *ns = INT64_MAX;
    return true;
}

bool wr_grpc_content_type(struct weir_slice text)
{
    static const char type[] = "application/grpc";
    size_t len = sizeof type - 1;

    return text.len >= len && memcmp(text.ptr, type, len) == 0 &&
           (text.len == len || text.ptr[len] == '+' || text.ptr[len] == ';');
}

size_t wr_grpc_message(const char *text, char *out, size_t size)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t at = 0;

    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        bool plain = c >= 0x20 && c <= 0x7e && c != '%';
        if (at + (plain ? 1 : 3) > size)
            break;
        if (plain) {
            out[at++] = (char)c;
        } else {
            out[at++] = '%';
            out[at++] = hex[c >> 4];
            out[at++] = hex[c & 15];
        }
    }
    return at;
}
