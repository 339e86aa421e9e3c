/* banjson.c - the body of a ban.
 *
 * Who is named by one member, whose name is that of the identity; so what is not for, until, reason
 * or confirm names a caller, and a misspelt one is a second caller or an identity that the policy
 * has not: an error either way. Every member at most once, each a string. */
#include "wire/banjson.h"

#include <string.h>

#include "wire/json.h"

static bool is(struct weir_slice text, const char *name)
{
    return text.len == strlen(name) && memcmp(text.ptr, name, text.len) == 0;
}

static bool fail(struct wr_ban_body *out, const char *error, struct weir_slice member)
{
    out->error = error;
    out->member = member;
    return false;
}

static bool read_member(struct wr_ban_body *out, struct wr_json *json, struct weir_slice key)
{
    struct weir_slice *to = is(key, "for")       ? &out->lasts
                            : is(key, "until")   ? &out->until
                            : is(key, "reason")  ? &out->reason
                            : is(key, "confirm") ? &out->confirm
                                                 : &out->value;
    struct wr_json_value value;

    if (to == &out->value && out->identity.ptr != NULL)
        return fail(out, "expected one caller a ban, found a second", key);
    if (to->ptr != NULL)
        return fail(out, "given twice", key);
    if (!wr_json_read(json, &value))
        return fail(out, json->error, key);
    if (value.kind != WR_JSON_STRING)
        return fail(out, "expected a string", key);
    *to = value.text;
    if (to->ptr == NULL)
        to->ptr = "";
    if (to == &out->value)
        out->identity = key;
    return true;
}

bool wr_ban_body_read(struct wr_ban_body *out, struct weir_slice body, char *scratch)
{
    struct wr_json json = {.at = body.ptr,
                           .end = body.ptr + body.len,
                           .scratch = scratch,
                           .scratch_end = scratch + body.len,
                           .strict = true};
    const struct weir_slice nothing = {NULL, 0};
    struct weir_slice key = nothing;
    bool first = true;

    memset(out, 0, sizeof *out);
    if (!wr_json_is_utf8(body))
        return fail(out, "the body is not UTF-8", nothing);
    if (wr_json_enter(&json, '{'))
        while (wr_json_member(&json, &first, &key))
            if (!read_member(out, &json, key))
                return false;
    if (json.error != NULL || !wr_json_finish(&json))
        return fail(out, json.error != NULL ? json.error : "expected one object", nothing);
    if (out->identity.ptr == NULL)
        return fail(out, "expected a caller: \"ip\", or the name of an identity", nothing);
    if (out->lasts.ptr != NULL && out->until.ptr != NULL)
        return fail(out, "expected one of for and until, found both", nothing);
    return true;
}
