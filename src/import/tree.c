/* tree.c - what readers of JSON and YAML share. JSON is read as the YAML it is, so that every
 * message has a line and a column. */
#include "import/draft.h"

#include <string.h>

#include "policy/rate.h"

const struct wr_yaml *wr_import_tree(struct wr_draft *draft, const char *text, size_t len)
{
    const struct wr_yaml *root = NULL;

    if (!wr_yaml_parse(&root, text, len, &draft->region, draft->diag))
        return NULL;
    if (root == NULL)
        wr_draft_error(draft, 0, 0, "expected a configuration, found nothing");
    return root;
}

const struct wr_yaml *wr_import_member(const struct wr_yaml *map, const char *name)
{
    if (map == NULL || map->kind != WR_YAML_MAP)
        return NULL;
    for (const struct wr_yaml *value = map->first; value != NULL; value = value->next)
        if (strcmp(value->key->text, name) == 0)
            return value;
    return NULL;
}

const char *wr_import_word(const struct wr_yaml *map, const char *name, const char *otherwise)
{
    const struct wr_yaml *value = wr_import_member(map, name);

    if (value == NULL || value->kind != WR_YAML_SCALAR || value->len == 0 ||
        (value->plain && (strcmp(value->text, "null") == 0 || strcmp(value->text, "~") == 0)))
        return otherwise;
    return value->text;
}

bool wr_import_number(struct wr_draft *draft, const struct wr_yaml *map, const char *name,
                      int64_t *out)
{
    const char *text = wr_import_word(map, name, NULL);
    const struct wr_yaml *value = wr_import_member(map, name);
    bool negative = text != NULL && text[0] == '-';
    size_t at;

    *out = 0;
    if (text == NULL)
        return false;
    if (wr_count_parse((struct weir_slice){text + negative, strlen(text + negative)},
                       INT64_C(1000000000000000), out, &at) != NULL) {
        wr_draft_note(draft, value->line, value->column,
                      "%s: expected a whole number, found \"%s\"", name, text);
        return false;
    }
    if (negative)
        *out = -*out;
    return true;
}

/* Is |word| among the words of |list|, between blanks? */
static bool is_among(const char *list, const char *word)
{
    size_t len = strlen(word);

    while (*list != '\0') {
        size_t next = strcspn(list, " ");
        if (next == len && memcmp(list, word, len) == 0)
            return true;
        list += next;
        list += strspn(list, " ");
    }
    return false;
}

const struct wr_yaml *wr_import_first(const struct wr_yaml *map, const char *name)
{
    const struct wr_yaml *list = wr_import_member(map, name);

    return list != NULL && list->kind == WR_YAML_LIST ? list->first : NULL;
}

bool wr_import_empty(const struct wr_yaml *value)
{
    if (value == NULL)
        return true;
    if (value->kind != WR_YAML_SCALAR)
        return value->count == 0;
    return value->len == 0 ||
           (value->plain && (strcmp(value->text, "null") == 0 || strcmp(value->text, "~") == 0));
}

void wr_import_rest(struct wr_draft *draft, const char *what, const struct wr_yaml *map,
                    const char *known, const char *harmless)
{
    if (map == NULL || map->kind != WR_YAML_MAP)
        return;
    for (const struct wr_yaml *value = map->first; value != NULL; value = value->next) {
        const char *name = value->key->text;
        if (!is_among(known, name) && !is_among(harmless, name) && !wr_import_empty(value))
            wr_draft_note(draft, value->key->line, value->key->column, "%s: %s: not carried over",
                          what, name);
    }
}
