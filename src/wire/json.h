/* json.h - JSON without a tree: a cursor that reads one object in one pass.
 *
 * Reading is for the bodies of the HTTP door (checkjson.c); access logs are read by jansson.
 * Strings are slices of the body, numbers stay text. |strict| takes neither the escape \xNN nor
 * half of a surrogate pair; for bytes that are not UTF-8 there is wr_json_is_utf8. */
#ifndef WR_WIRE_JSON_H
#define WR_WIRE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/weir.h"
#include "wire/json_write.h"

#define WR_JSON_DEPTH_MAX 64 /* of values that are passed over */

enum wr_json_kind {
    WR_JSON_NULL,
    WR_JSON_TRUE,
    WR_JSON_FALSE,
    WR_JSON_NUMBER, /* text: as it stands */
    WR_JSON_STRING, /* text: decoded */
    WR_JSON_OBJECT, /* not read yet: enter it or skip it */
    WR_JSON_ARRAY,
};

/* A cursor over |at|..|end|. Decoded strings go to |scratch|..|scratch_end|. After the first error
 * every call answers false and |at| stays where it happened. */
struct wr_json {
    const char *at;
    const char *end;
    char *scratch;
    char *scratch_end;
    const char *error; /* NULL, or a static text */
    bool strict;
};

struct wr_json_value {
    enum wr_json_kind kind;
    struct weir_slice text; /* of numbers and strings; otherwise empty */
};

/* Read the value at the cursor; of an object or array only the kind, the cursor staying before it.
 */
bool wr_json_read(struct wr_json *json, struct wr_json_value *out);

/* Go into the object or array at the cursor. */
bool wr_json_enter(struct wr_json *json, char open);

/* The next member (|key| is written, the cursor is at its value) or item of the container; false at
 * its end or on an error. |first| starts true and belongs to the loop. */
bool wr_json_member(struct wr_json *json, bool *first, struct weir_slice *key);
bool wr_json_item(struct wr_json *json, bool *first);

/* Pass over the value at the cursor, whatever it holds, checking it. */
bool wr_json_skip(struct wr_json *json);

/* Nothing but blanks may be left. */
bool wr_json_finish(struct wr_json *json);

#endif
