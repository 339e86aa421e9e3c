/* json_whole.c - whole numbers as JSON writes them, without a floating point number between.
 *
 * digits [. digits] [e [+-] digits]: all digits are one whole number, times a power of ten. Zeros
 * at its end are part of the power. If that is negative then, the number has a fraction. */
#include "wire/json_whole.h"

#include <stdbool.h>
#include <string.h>

#define EXPONENT_MAX 100000 /* further ones are the same: too large, or a fraction */

struct decimal {
    uint64_t digits;
    int64_t exponent;
    int64_t zeros; /* at the end of what was read, not in |digits| yet */
    bool any, too_large;
};

static void add_digit(struct decimal *d, unsigned digit)
{
    d->any = true;
    if (digit == 0 && d->digits > 0)
        d->zeros++;
    if (digit == 0)
        return;
    for (; d->zeros >= 0 && !d->too_large; d->zeros--)
        d->too_large = __builtin_mul_overflow(d->digits, 10U, &d->digits);
    d->zeros = 0;
    d->too_large = d->too_large || __builtin_add_overflow(d->digits, digit, &d->digits);
}

/* Digits from |at| on; how many. */
static size_t read_digits(struct weir_slice text, size_t at, struct decimal *d)
{
    size_t count = 0;

    for (; at + count < text.len; count++) {
        char c = text.ptr[at + count];
        if (c < '0' || c > '9')
            break;
        add_digit(d, (unsigned)(c - '0'));
    }
    return count;
}

/* The exponent that |text| goes on with at |*at|. False: it is none. */
static bool read_exponent(struct weir_slice text, size_t *at, int64_t *out)
{
    bool negative;
    size_t start;

    *out = 0;
    if (*at == text.len || (text.ptr[*at] != 'e' && text.ptr[*at] != 'E'))
        return true;
    ++*at;
    negative = *at < text.len && text.ptr[*at] == '-';
    if (*at < text.len && (text.ptr[*at] == '-' || text.ptr[*at] == '+'))
        ++*at;
    start = *at;
    for (; *at < text.len && text.ptr[*at] >= '0' && text.ptr[*at] <= '9'; ++*at)
        if (*out < EXPONENT_MAX)
            *out = *out * 10 + (text.ptr[*at] - '0');
    if (negative)
        *out = -*out;
    return *at > start;
}

enum wr_json_whole wr_json_whole(struct weir_slice text, uint64_t most, uint64_t *out)
{
    struct decimal d = {0};
    size_t at = 0, fraction = 0;
    int64_t exponent;

    *out = 0;
    at = read_digits(text, 0, &d);
    if (at == 0)
        return WR_JSON_NOT_WHOLE;
    if (at < text.len && text.ptr[at] == '.') {
        fraction = read_digits(text, at + 1, &d);
        if (fraction == 0)
            return WR_JSON_NOT_WHOLE;
        at += 1 + fraction;
    }
    if (!read_exponent(text, &at, &exponent) || at != text.len)
        return WR_JSON_NOT_WHOLE;
    if (d.digits == 0 && !d.too_large)
        return WR_JSON_IS_WHOLE;
    exponent += d.zeros - (int64_t)fraction;
    if (exponent < 0)
        return WR_JSON_NOT_WHOLE;
    for (; exponent > 0 && !d.too_large; exponent--)
        d.too_large = __builtin_mul_overflow(d.digits, 10U, &d.digits);
    if (d.too_large || d.digits > most)
        return WR_JSON_TOO_LARGE;
    *out = d.digits;
    return WR_JSON_IS_WHOLE;
}
