/* json_number.h - JSON numbers as integers and as text. */
#ifndef WR_WIRE_JSON_NUMBER_H
#define WR_WIRE_JSON_NUMBER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WR_JSON_NUMBER_MAX 32 /* bytes of text */

/* The number |value| times |unit_ns|, what has a fraction being rounded to a multiple of |step_ns|,
 * a divisor of the unit. False where it is negative or does not fit; |*ns| is written on success.
 */
bool wr_json_number_ns(const json_t *value, int64_t unit_ns, int64_t step_ns, int64_t *ns);

/* The number |value| as text, not terminated; whole ones without a point. Returns the length. */
size_t wr_json_number_text(const json_t *value, char out[WR_JSON_NUMBER_MAX]);

#endif
