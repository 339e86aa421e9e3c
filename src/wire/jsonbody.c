/* jsonbody.c - see jsonbody.h. What is no object, is not UTF-8 or goes on behind its end is refused
 * as a whole; nothing is guessed. */
#include "wire/jsonbody.h"

#include <string.h>

static bool fail(struct wr_json_body_fault *out, const char *error, struct weir_slice member)
{
    *out = (struct wr_json_body_fault){error, member};
    return false;
}

bool wr_json_body_read(struct weir_slice body, char *scratch, wr_json_body_member *member,
                       void *context, struct wr_json_body_fault *fault)
{
    struct wr_json json = {.at = body.ptr,
                           .end = body.ptr + body.len,
                           .scratch = scratch,
                           .scratch_end = scratch + body.len,
                           .strict = true};
    const struct weir_slice nothing = {NULL, 0};
    struct weir_slice key = nothing;
    struct wr_json_value value;
    bool first = true;

    *fault = (struct wr_json_body_fault){NULL, nothing};
    if (!wr_json_is_utf8(body))
        return fail(fault, "the body is not UTF-8", nothing);
    if (wr_json_enter(&json, '{')) {
        while (wr_json_member(&json, &first, &key)) {
            const char *error =
                wr_json_read(&json, &value) ? member(context, key, &value) : json.error;
            if (error != NULL)
                return fail(fault, error, key);
            if ((value.kind == WR_JSON_OBJECT || value.kind == WR_JSON_ARRAY) &&
                !wr_json_skip(&json))
                break;
        }
    }
    if (json.error != NULL || !wr_json_finish(&json))
        return fail(fault, json.error != NULL ? json.error : "expected one object", nothing);
    return true;
}

const char *wr_json_body_text(struct weir_slice *to, const struct wr_json_value *value)
{
    if (to->ptr != NULL)
        return "given twice";
    if (value->kind != WR_JSON_STRING)
        return "expected a string";
    *to = value->text;
    if (to->ptr == NULL)
        to->ptr = "";
    return NULL;
}

bool wr_json_body_is(struct weir_slice key, const char *name)
{
    return key.len == strlen(name) && memcmp(key.ptr, name, key.len) == 0;
}
