/* roster_read.c - scalars and maps of the customers' file. No message quotes a value, unless it is
 * a name: a key may be beside it. */
#include "meter/roster_read.h"

#include <stdlib.h>
#include <string.h>

#include "meter/customers_parts.h"

/* ---- scalars -------------------------------------------------------------------------------- */

bool wr_roster_text(struct wr_roster_reader *reader, const struct wr_yaml *value, size_t max,
                    const char **out)
{
    if (value->kind != WR_YAML_SCALAR || !wr_is_label(value->text, max)) {
        WR_ROSTER_FAIL(reader, value,
                       "expected text of 1 to %zu bytes, without control and format characters, "
                       "and without blanks at its ends",
                       max);
        return false;
    }
    *out = wr_region_text(&reader->roster->region, value->text, value->len);
    return *out != NULL;
}

/* One of |names|. */
bool wr_roster_known(struct wr_roster_reader *reader, const struct wr_yaml *value, const char *what,
                     const char *const *names, size_t count, const char **out)
{
    for (size_t i = 0; value->kind == WR_YAML_SCALAR && i < count; i++)
        if (strcmp(names[i], value->text) == 0)
            return wr_roster_text(reader, value, WR_CUSTOMER_PLAN_MAX, out);
    WR_ROSTER_FAIL(reader, value, "expected %s of the policy, found %s", what,
                   value->kind == WR_YAML_SCALAR && wr_is_plain_name(value->text)
                       ? value->text
                       : "something else");
    return false;
}

void wr_roster_bool(struct wr_roster_reader *reader, const struct wr_yaml *value, bool *out)
{
    bool yes = value->kind == WR_YAML_SCALAR && strcmp(value->text, "true") == 0;

    if (!yes && (value->kind != WR_YAML_SCALAR || strcmp(value->text, "false") != 0))
        WR_ROSTER_FAIL(reader, value, "expected true or false");
    *out = yes;
}

void wr_roster_anchor(struct wr_roster_reader *reader, const struct wr_yaml *value, int64_t *out)
{
    char *end = NULL;
    long number = value->kind == WR_YAML_SCALAR ? strtol(value->text, &end, 10) : 0;

    if (number < 1 || number > 31 || end == NULL || *end != '\0')
        WR_ROSTER_FAIL(reader, value, "expected a day of the month, 1 to 31");
    else
        *out = number;
}

/* ---- maps ----------------------------------------------------------------------------------- */

bool wr_roster_map(struct wr_roster_reader *reader, const struct wr_yaml *node, const char *what,
                   const struct wr_roster_field *fields, void *into)
{
    size_t errors = reader->diag->errors;

    if (node->kind != WR_YAML_MAP) {
        WR_ROSTER_FAIL(reader, node, "expected a map: %s", what);
        return false;
    }
    for (const struct wr_yaml *value = node->first; value != NULL; value = value->next) {
        const struct wr_roster_field *field = fields;
        while (field->name != NULL && strcmp(field->name, value->key->text) != 0)
            field++;
        if (field->name != NULL)
            field->read(reader, value, into);
        else
            WR_ROSTER_FAIL(reader, value->key, "unknown key in %s", what);
    }
    return reader->diag->errors == errors;
}
