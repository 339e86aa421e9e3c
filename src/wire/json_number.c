/* json_number.c - JSON numbers as integers and as text.
 *
 * Whole numbers are exact. Those with a fraction are doubles, here as for everybody (RFC 8259
 * section 6): of today's seconds since the epoch a double resolves a quarter of a microsecond, so
 * the microsecond that was written is found by rounding, and nothing finer is there to be found.
 *
 * Rejected: to multiply the whole double (both of its parts are exact, so only the product with the
 * fraction need be rounded). */
#include "wire/json_number.h"

#include <math.h>
#include <stdio.h>

#define WHOLE_MAX 1e15 /* below, each whole double is one number only */

bool wr_json_number_ns(const json_t *value, int64_t unit_ns, int64_t step_ns, int64_t *ns)
{
    const int64_t most = INT64_MAX / unit_ns;
    double real = json_real_value(value);
    const int64_t steps_per_unit = unit_ns / step_ns;
    int64_t whole = json_integer_value(value), steps = 0;

    if (json_is_real(value)) {
        if (!(real >= 0) || real >= (double)(most - 1))
            return false;
        whole = (int64_t)real;
        steps = llround((real - (double)whole) * (double)steps_per_unit);
    }
    if (whole < 0 || whole > most)
        return false;
    *ns = whole * unit_ns + steps * step_ns;
    return true;
}

size_t wr_json_number_text(const json_t *value, char out[WR_JSON_NUMBER_MAX])
{
    double real = json_real_value(value);
    long long whole = json_integer_value(value);

    if (json_is_real(value) && (fabs(real) >= WHOLE_MAX || real != floor(real)))
        return (size_t)snprintf(out, WR_JSON_NUMBER_MAX, "%.17g", real);
    if (json_is_real(value))
        whole = (long long)real;
    return (size_t)snprintf(out, WR_JSON_NUMBER_MAX, "%lld", whole);
}
