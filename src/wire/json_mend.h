/* json_mend.h - what servers log as JSON although it is none -> JSON, without losing a byte.
 *
 * RFC 8259 has no word for bytes that are not UTF-8, yet callers send them and servers log them: as
 * they are, or (nginx without escape=json) as \xNN. Inside strings each such byte becomes a
 * character that stands for it, to be turned back after parsing; half of a surrogate pair becomes
 * U+FFFD. */
#ifndef WR_WIRE_JSON_MEND_H
#define WR_WIRE_JSON_MEND_H

#include <stdbool.h>
#include <stddef.h>

#include "weir/weir.h"

/* |text| mended, |*len| bytes of it, for the caller to free. NULL: there is nothing to mend, or no
 * memory. */
char *wr_json_mend(struct weir_slice text, size_t *len);

/* Where in |text| the byte comes from that is the |at|th of what was mended. */
size_t wr_json_mend_origin(struct weir_slice text, size_t at);

/* Does the parsed string |text| of a mended line hold a character that stands for a byte? */
bool wr_json_mend_stands(struct weir_slice text);

/* Write |text| with those bytes back in their place; never longer. Returns the length. */
size_t wr_json_mend_undo(struct weir_slice text, char *out);

#endif
