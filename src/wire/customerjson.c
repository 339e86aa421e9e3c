/* customerjson.c - see customerjson.h. Members are known by name: one that is misspelt is an error.
 */
#include "wire/customerjson.h"

#include <string.h>

#include "wire/jsonbody.h"

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
        if (wr_json_body_is(key, texts[i].name))
            return texts[i].to;
    return NULL;
}

static const char *read_anchor(struct wr_customer_body *out, const struct wr_json_value *value)
{
    static const char *const wanted = "expected a day of the month, 1 to 31, or null";
    int64_t day = 0;

    if (out->anchor >= 0)
        return "given twice";
    if (value->kind == WR_JSON_NULL) {
        out->anchor = 0;
        return NULL;
    }
    if (value->kind != WR_JSON_NUMBER || value->text.len > 2)
        return wanted;
    for (size_t i = 0; i < value->text.len; i++) {
        if (value->text.ptr[i] < '0' || value->text.ptr[i] > '9')
            return wanted;
        day = day * 10 + (value->text.ptr[i] - '0');
    }
    if (day < 1 || day > 31)
        return wanted;
    out->anchor = day;
    return NULL;
}

static const char *read_flag(int8_t *to, const struct wr_json_value *value)
{
    if (*to >= 0)
        return "given twice";
    if (value->kind != WR_JSON_TRUE && value->kind != WR_JSON_FALSE)
        return "expected true or false";
    *to = (int8_t)(value->kind == WR_JSON_TRUE ? 1 : 0);
    return NULL;
}

static const char *read_member(void *context, struct weir_slice key,
                               const struct wr_json_value *value)
{
    struct wr_customer_body *out = context;
    struct weir_slice *text = text_of(out, key);

    if (wr_json_body_is(key, "anchor"))
        return read_anchor(out, value);
    if (wr_json_body_is(key, "partner"))
        return read_flag(&out->partner, value);
    if (wr_json_body_is(key, "suspended"))
        return read_flag(&out->suspended, value);
    if (wr_json_body_is(key, "key"))
        return read_flag(&out->key, value);
    if (wr_json_body_is(key, "ended"))
        return read_flag(&out->ended, value);
    if (text == NULL)
        return "no such member";
    if (value->text.len > 0 && memchr(value->text.ptr, '\0', value->text.len) != NULL)
        return "expected a text without NUL";
    return wr_json_body_text(text, value);
}

bool wr_customer_body_read(struct wr_customer_body *out, struct weir_slice body, char *scratch)
{
    struct wr_json_body_fault fault;

    *out = (struct wr_customer_body){
        .anchor = -1, .partner = -1, .suspended = -1, .key = -1, .ended = -1};
    if (wr_json_body_read(body, scratch, read_member, out, &fault))
        return true;
    out->error = fault.error;
    out->member = fault.member;
    return false;
}
