/* customerjson.c - see customerjson.h. Members are known by name: one that is misspelt is an error.
 */
#include "wire/customerjson.h"

#include <string.h>

#include "wire/json.h"

static bool is(struct weir_slice text, const char *name)
{
    return text.len == strlen(name) && memcmp(text.ptr, name, text.len) == 0;
}

static bool fail(struct wr_customer_body *out, const char *error, struct weir_slice member)
{
    out->error = error;
    out->member = member;
    return false;
}

static struct weir_slice *text_of(struct wr_customer_body *out, struct weir_slice key)
{
    const struct {
        const char *name;
        struct weir_slice *to;
    } texts[] = {{"name", &out->name},
                 {"plan", &out->plan},
                 {"tenant", &out->tenant},
                 {"trial_plan", &out->trial_plan},
                 {"trial_until", &out->trial_until},
                 {"trial_for", &out->trial_for},
                 {"reason", &out->reason},
                 {"identity", &out->identity},
                 {"value", &out->value},
                 {"prefix", &out->prefix}};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (is(key, texts[i].name))
            return texts[i].to;
    return NULL;
}

static bool read_anchor(struct wr_customer_body *out, const struct wr_json_value *value,
                        struct weir_slice key)
{
    int64_t day = 0;

    if (out->anchor >= 0)
        return fail(out, "given twice", key);
    if (value->kind != WR_JSON_NUMBER || value->text.len > 2)
        return fail(out, "expected a day of the month, 1 to 31", key);
    for (size_t i = 0; i < value->text.len; i++) {
        if (value->text.ptr[i] < '0' || value->text.ptr[i] > '9')
            return fail(out, "expected a day of the month, 1 to 31", key);
        day = day * 10 + (value->text.ptr[i] - '0');
    }
    if (day < 1 || day > 31)
        return fail(out, "expected a day of the month, 1 to 31", key);
    out->anchor = day;
    return true;
}

static bool read_flag(struct wr_customer_body *out, const struct wr_json_value *value,
                      struct weir_slice key, int8_t *to)
{
    if (*to >= 0)
        return fail(out, "given twice", key);
    if (value->kind != WR_JSON_TRUE && value->kind != WR_JSON_FALSE)
        return fail(out, "expected true or false", key);
    *to = value->kind == WR_JSON_TRUE;
    return true;
}

static bool read_member(struct wr_customer_body *out, struct wr_json *json, struct weir_slice key)
{
    struct weir_slice *text = text_of(out, key);
    struct wr_json_value value;

    if (!wr_json_read(json, &value))
        return fail(out, json->error, key);
    if (is(key, "anchor"))
        return read_anchor(out, &value, key);
    if (is(key, "partner"))
        return read_flag(out, &value, key, &out->partner);
    if (is(key, "suspended"))
        return read_flag(out, &value, key, &out->suspended);
    if (is(key, "key"))
        return read_flag(out, &value, key, &out->key);
    if (text == NULL)
        return fail(out, "no such member", key);
    if (text->ptr != NULL)
        return fail(out, "given twice", key);
    if (value.kind != WR_JSON_STRING)
        return fail(out, "expected a string", key);
    if (memchr(value.text.ptr != NULL ? value.text.ptr : "", '\0', value.text.len) != NULL)
        return fail(out, "expected a text without NUL", key);
    *text = value.text;
    if (text->ptr == NULL)
        text->ptr = "";
    return true;
}

bool wr_customer_body_read(struct wr_customer_body *out, struct weir_slice body, char *scratch)
{
    struct wr_json json = {.at = body.ptr,
                           .end = body.ptr + body.len,
                           .scratch = scratch,
                           .scratch_end = scratch + body.len,
                           .strict = true};
    const struct weir_slice nothing = {NULL, 0};
    struct weir_slice key = nothing;
    bool first = true;

    *out = (struct wr_customer_body){.anchor = -1, .partner = -1, .suspended = -1, .key = -1};
    if (!wr_json_is_utf8(body))
        return fail(out, "the body is not UTF-8", nothing);
    if (wr_json_enter(&json, '{'))
        while (wr_json_member(&json, &first, &key))
            if (!read_member(out, &json, key))
                return false;
    if (json.error != NULL || !wr_json_finish(&json))
        return fail(out, json.error != NULL ? json.error : "expected one object", nothing);
    return true;
}
