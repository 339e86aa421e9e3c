/* utf8.h - the table of RFC 3629 section 4: no overlong forms, no surrogates, nothing above
 * U+10FFFF. */
#ifndef WR_WIRE_UTF8_H
#define WR_WIRE_UTF8_H

#include <stddef.h>

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

#endif
