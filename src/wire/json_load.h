/* json_load.h - one object of JSON, as servers log it -> jansson's tree, or the place that is
 * wrong. */
#ifndef WR_WIRE_JSON_LOAD_H
#define WR_WIRE_JSON_LOAD_H

#include <jansson.h>
#include <stdbool.h>

#include "weir/weir.h"

struct wr_json_error {
    char reason[JSON_ERROR_TEXT_LENGTH + 16];
    size_t at; /* offset of the last byte that was taken; the length, where it ends too early */
};

/* The tree of |text|, for the caller to json_decref. |*mended|: its strings may hold characters
 * that stand for bytes (json_mend.h). NULL: |*error| says why and where. */
json_t *wr_json_load(struct weir_slice text, bool *mended, struct wr_json_error *error);

/* Where in |text|, which could be loaded, the value of the first member called |name| is; NULL: not
 * to be found. */
const char *wr_json_locate(struct weir_slice text, const char *name);

#endif
