/* json_whole.h - whole numbers as JSON writes them: 20, 2e1, 20.0 and 200.0e-1 are one. */
#ifndef WR_WIRE_JSON_WHOLE_H
#define WR_WIRE_JSON_WHOLE_H

#include <stdint.h>

#include "weir/weir.h"

enum wr_json_whole { WR_JSON_IS_WHOLE, WR_JSON_NOT_WHOLE, WR_JSON_TOO_LARGE };

/* The number |text|, exactly; 0 to |most|. Some writers give every number a point (RFC 8259 knows
 * no integers), and proto3's JSON takes those too. Not a number, below 0 or with a fraction: not
 * whole. |*out| is 0 then. */
enum wr_json_whole wr_json_whole(struct weir_slice text, uint64_t most, uint64_t *out);

#endif
