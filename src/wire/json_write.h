/* json_write.h - any bytes as a JSON string. */
#ifndef WR_WIRE_JSON_WRITE_H
#define WR_WIRE_JSON_WRITE_H

#include <stdbool.h>
#include <stddef.h>

#include "weir/weir.h"

/* Is all of |bytes| UTF-8? */
bool wr_json_is_utf8(struct weir_slice bytes);

/* Write |bytes| as a JSON string with its quotes: control characters, quote and backslash escaped,
 * what is not UTF-8 replaced by U+FFFD. Returns its length, which may be more than |size|; nothing
 * is written beyond |size|, and no terminator. At most 6 bytes for each of |bytes|, and 2. */
size_t wr_json_write_string(char *out, size_t size, struct weir_slice bytes);

#endif
