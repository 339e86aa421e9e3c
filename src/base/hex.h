/* hex.h - bytes and numbers as hexadecimal digits: written in lower case, read in either. */
#ifndef WR_BASE_HEX_H
#define WR_BASE_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WR_HEX_U64 16 /* digits of a number of 64 bits */

/* What the digit |c| stands for; -1: it is none. */
static inline int wr_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that two digits stand for; -1: they are none. */
static inline int wr_hex_byte(const char digits[2])
{
    int high = wr_hex_digit(digits[0]), low = wr_hex_digit(digits[1]);

    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* Two digits for each of |len| bytes, nothing behind them. */
void wr_hex_write(char *out, const uint8_t *bytes, size_t len);

/* All digits of |value|, nothing behind them. */
void wr_hex_write_u64(char out[WR_HEX_U64], uint64_t value);

/* The same, back, and only what was written so: no digit in upper case. False: it is none, and
 * |*value| is 0. */
bool wr_hex_read_u64(const char text[WR_HEX_U64], uint64_t *value);

#endif
