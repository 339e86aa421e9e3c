/* jsonbody.h - a body that is one object of plain values: the walk over it, for those who know what
 * its members mean (banjson.h, customerjson.h). */
#ifndef WR_WIRE_JSONBODY_H
#define WR_WIRE_JSONBODY_H

#include "wire/json.h"

/* One member: NULL, or what is wrong with it, a static text. An object or array as |value| is not
 * read. */
typedef const char *wr_json_body_member(void *context, struct weir_slice key,
                                        const struct wr_json_value *value);

struct wr_json_body_fault {
    const char *error;        /* a static text */
    struct weir_slice member; /* that it is about; may be empty */
};

/* Hand every member of |body| to |member|, in order; |scratch| has room for as many bytes as the
 * body. Keys and values point into both. False: |*fault| says why. */
bool wr_json_body_read(struct weir_slice body, char *scratch, wr_json_body_member *member,
                       void *context, struct wr_json_body_fault *fault);

/* Keep a string, once: ptr of what is kept is never NULL. As wr_json_body_member. */
const char *wr_json_body_text(struct weir_slice *to, const struct wr_json_value *value);

bool wr_json_body_is(struct weir_slice key, const char *name);

#endif
