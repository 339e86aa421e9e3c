/* utf8.h - the table of RFC 3629 section 4: no overlong forms, no surrogates, nothing above
 * U+10FFFF. */
#ifndef WR_WIRE_UTF8_H
#define WR_WIRE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length of the sequence of two bytes or more that starts at |p|, which has |left| bytes, at
 * least one; 0: none does. */
static inline size_t wr_utf8_sequence(const unsigned char *p, size_t left)
{
    unsigned char low = 0x80, high = 0xbf; /* of the second byte */
    size_t len;

    if (p[0] >= 0xc2 && p[0] <= 0xdf)
        len = 2;
    else if (p[0] >= 0xe0 && p[0] <= 0xef)
        len = 3;
    else if (p[0] >= 0xf0 && p[0] <= 0xf4)
        len = 4;
    else
        return 0;
    if (len > left)
        return 0;
    if (p[0] == 0xe0)
        low = 0xa0;
    else if (p[0] == 0xed)
        high = 0x9f;
    else if (p[0] == 0xf0)
        low = 0x90;
    else if (p[0] == 0xf4)
        high = 0x8f;
    if (p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if (p[i] < 0x80 || p[i] > 0xbf)
            return 0;
    return len;
}

/* The character at |p| and its length; what is no UTF-8 is U+FFFD, one byte long. */
static inline uint32_t wr_utf8_read(const unsigned char *p, size_t left, size_t *len)
{
    uint32_t c;

    *len = 1;
    if (p[0] < 0x80)
        return p[0];
    *len = wr_utf8_sequence(p, left);
    if (*len == 0) {
        *len = 1;
        return 0xfffd;
    }
    c = p[0] & (0x7fU >> *len);
    for (size_t i = 1; i < *len; i++)
        c = c << 6 | (p[i] & 0x3fU);
    return c;
}

/* Controls of terminals (C0, C1), ends of line, and what turns the order of what is seen
 * (Bidi_Control of Unicode's PropList). */
static inline bool wr_utf8_is_unseen(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff ||
           c == 0xfffd;
}

/* The length of the character at |p|, which has |left| bytes; 0: none that may stand in a name. */
static inline size_t wr_utf8_seen(const unsigned char *p, size_t left)
{
    size_t len;
    uint32_t c = wr_utf8_read(p, left, &len);

    return wr_utf8_is_unseen(c) ? 0 : len;
}

#endif
