/* json_write.c - any bytes as one JSON string.
 *
 * The bytes come from callers and from logs, so they may be anything. What is valid UTF-8 passes;
 * every other byte becomes U+FFFD, one for one, so that the result is valid whatever came in.
 *
 * Rejected: jansson's dump, which refuses what is not UTF-8 and allocates. */
#include "wire/json_write.h"

#include <string.h>

#include "wire/utf8.h"

bool wr_json_is_utf8(struct weir_slice bytes)
{
    const unsigned char *p = (const unsigned char *)bytes.ptr;
    size_t i = 0;

    while (i < bytes.len) {
        uint64_t eight;
        size_t len = 1;
        if (bytes.len - i >= sizeof eight) {
            memcpy(&eight, p + i, sizeof eight);
            if ((eight & UINT64_C(0x8080808080808080)) == 0) {
                i += sizeof eight;
                continue;
            }
        }
        if (p[i] >= 0x80 && (len = wr_utf8_sequence(p + i, bytes.len - i)) == 0)
            return false;
        i += len;
    }
    return true;
}

static size_t put(char *out, size_t size, size_t at, const char *text, size_t len)
{
    if (at <= size && len <= size - at)
        memcpy(out + at, text, len);
    return at + len;
}

static size_t put_escape(char *out, size_t size, size_t at, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    char text[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};

    switch (c) {
    case '"':
        return put(out, size, at, "\\\"", 2);
    case '\\':
        return put(out, size, at, "\\\\", 2);
    case '\n':
        return put(out, size, at, "\\n", 2);
    case '\r':
        return put(out, size, at, "\\r", 2);
    case '\t':
        return put(out, size, at, "\\t", 2);
    default:
        return put(out, size, at, text, sizeof text);
    }
}

size_t wr_json_write_string(char *out, size_t size, struct weir_slice bytes)
{
    const unsigned char *p = (const unsigned char *)bytes.ptr;
    size_t at = put(out, size, 0, "\"", 1);
    size_t i = 0;

    while (i < bytes.len) {
        size_t len = 1;
        if (p[i] < 0x20 || p[i] == '"' || p[i] == '\\' || p[i] == 0x7f) {
            at = put_escape(out, size, at, p[i]);
        } else if (p[i] < 0x80) {
            at = put(out, size, at, bytes.ptr + i, 1);
        } else if ((len = wr_utf8_sequence(p + i, bytes.len - i)) > 0) {
            at = put(out, size, at, bytes.ptr + i, len);
        } else {
            at = put(out, size, at, "\\ufffd", 6);
            len = 1;
        }
        i += len;
    }
    return put(out, size, at, "\"", 1);
}
