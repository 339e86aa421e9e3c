/* hex.c - bytes and numbers as hexadecimal digits. */
#include "base/hex.h"

static const char digits[] = "0123456789abcdef";

void wr_hex_write(char *out, const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
}

void wr_hex_write_u64(char out[WR_HEX_U64], uint64_t value)
{
    for (unsigned i = 0; i < WR_HEX_U64; i++)
        out[i] = digits[value >> (60 - 4 * i) & 15];
}

bool wr_hex_read_u64(const char text[WR_HEX_U64], uint64_t *value)
{
    *value = 0;
    for (unsigned i = 0; i < WR_HEX_U64; i++) {
        int digit = wr_hex_digit(text[i]);
        if (digit < 0 || text[i] != digits[digit]) {
            *value = 0;
            return false;
        }
        *value = *value << 4 | (unsigned)digit;
    }
    return true;
}
