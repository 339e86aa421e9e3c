/* redis_slot.c - CRC-16/XMODEM (polynomial 0x1021, initially 0, nothing reflected) mod 16384.
 *
 * Bit by bit over a table of 16: our tags are 32 bytes, and the table fits a cache line.
 *
 * Source: Redis Cluster Specification, "Key distribution model" and "Hash tags"; its check value is
 * CRC16("123456789") = 0x31C3. */
#include "remote/redis_slot.h"

#include <string.h>

static uint16_t crc16(const char *bytes, size_t len)
{
    static const uint16_t nibble[16] = {
        0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
        0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef,
    };
    uint16_t crc = 0;

    for (size_t i = 0; i < len; i++) {
        uint8_t byte = (uint8_t)bytes[i];
        crc = (uint16_t)(crc << 4) ^ nibble[(crc >> 12) ^ (byte >> 4)];
        crc = (uint16_t)(crc << 4) ^ nibble[(crc >> 12) ^ (byte & 15)];
    }
    return crc;
}

uint16_t wr_redis_slot(const char *key, size_t len)
{
    const char *open = memchr(key, '{', len);

    if (open != NULL) {
        size_t rest = len - (size_t)(open + 1 - key);
        const char *close = memchr(open + 1, '}', rest);
        if (close != NULL && close > open + 1)
            return crc16(open + 1, (size_t)(close - open - 1)) % WR_REDIS_SLOTS;
    }
    return crc16(key, len) % WR_REDIS_SLOTS;
}
