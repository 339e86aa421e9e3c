/* banjson.c - the body of a ban.
 *
 * Who is named by one member, whose name is that of the identity; so what is not for, until, reason
 * or confirm names a caller, and a misspelt one is a second caller or an identity that the policy
 * has not: an error either way. Every member at most once, each a string. */
#include "wire/banjson.h"

#include <string.h>

#include "wire/jsonbody.h"

static const char *read_member(void *context, struct weir_slice key,
                               const struct wr_json_value *value)
{
    struct wr_ban_body *out = context;
    struct weir_slice *to = wr_json_body_is(key, "for")       ? &out->lasts
                            : wr_json_body_is(key, "until")   ? &out->until
                            : wr_json_body_is(key, "reason")  ? &out->reason
                            : wr_json_body_is(key, "confirm") ? &out->confirm
                                                              : &out->value;
    const char *error;

    if (to == &out->value && out->identity.ptr != NULL)
        return "expected one caller a ban, found a second";
    error = wr_json_body_text(to, value);
    if (error == NULL && to == &out->value)
        out->identity = key;
    return error;
}

bool wr_ban_body_read(struct wr_ban_body *out, struct weir_slice body, char *scratch)
{
    struct wr_json_body_fault fault;

    memset(out, 0, sizeof *out);
    if (!wr_json_body_read(body, scratch, read_member, out, &fault)) {
        out->error = fault.error;
        out->member = fault.member;
    } else if (out->identity.ptr == NULL) {
        out->error = "expected a caller: \"ip\", or the name of an identity";
    } else if (out->lasts.ptr != NULL && out->until.ptr != NULL) {
        out->error = "expected one of for and until, found both";
    }
    return out->error == NULL;
}
