/* draft.c - adding to a draft. What is found twice is kept once. */
#include "import/draft.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "policy/policy.h"

#define TEXT_MAX 4096

const char *wr_draft_text(struct wr_draft *draft, const char *format, ...)
{
    char text[TEXT_MAX];
    const char *copy;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    copy = wr_region_text(&draft->region, text, strlen(text));
    return copy != NULL ? copy : "";
}

static void add_message(struct wr_draft *draft, enum wr_severity severity, unsigned line,
                        unsigned column, const char *format, va_list args)
{
    char text[WR_DIAG_TEXT_MAX];

    (void)vsnprintf(text, sizeof text, format, args);
    wr_diag_add(draft->diag, severity, line, column, "%s", text);
}

void wr_draft_note(struct wr_draft *draft, unsigned line, unsigned column, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add_message(draft, WR_WARNING, line, column, format, args);
    va_end(args);
}

void wr_draft_error(struct wr_draft *draft, unsigned line, unsigned column, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add_message(draft, WR_ERROR, line, column, format, args);
    va_end(args);
}

/* ---- names ----------------------------------------------------------------------------------- */

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

/* Runs of other bytes become one dash. */
const char *wr_draft_name(struct wr_draft *draft, const char *text)
{
    char name[WR_NAME_MAX - 8]; /* room for a number behind it */
    size_t len = 0;

    for (; *text != '\0' && len < sizeof name - 1; text++)
        if (is_name_char(*text))
            name[len++] = *text;
        else if (len > 0 && name[len - 1] != '-')
            name[len++] = '-';
    while (len > 0 && name[len - 1] == '-')
        len--;
    name[len] = '\0';
    return wr_draft_text(draft, "%s", len > 0 ? name : "unnamed");
}

static struct wr_draft_pair *add_pair(struct wr_draft *draft, struct wr_draft_pair **list,
                                      const char *name, const char *value)
{
    struct wr_draft_pair *pair;

    for (; *list != NULL; list = &(*list)->next)
        if (strcmp((*list)->name, name) == 0)
            return *list;
    pair = wr_region_take(&draft->region, 1, sizeof *pair);
    if (pair == NULL)
        return NULL;
    pair->name = wr_draft_text(draft, "%s", name);
    pair->value = wr_draft_text(draft, "%s", value);
    *list = pair;
    return pair;
}

void wr_draft_identity(struct wr_draft *draft, const char *name, const char *header)
{
    (void)add_pair(draft, &draft->identities, name, header);
}

static bool has_plan(const struct wr_draft *draft, const char *name, size_t *count)
{
    bool found = false;

    *count = 0;
    for (const struct wr_draft_pair *plan = draft->plans; plan != NULL; plan = plan->next) {
        found = found || strcmp(plan->name, name) == 0;
        ++*count;
    }
    return found;
}

/* The plan that is made of |source|; its name is changed to one that a plan may have, and that no
 * other has. */
static const char *add_plan(struct wr_draft *draft, const char *name, const char *origin,
                            const char *source)
{
    const char *first = wr_draft_name(draft, name), *as = first;
    const struct wr_draft_pair *plan;
    size_t count;

    for (unsigned n = 2; has_plan(draft, as, &count); n++)
        as = wr_draft_text(draft, "%s-%u", first, n);
    if (count >= WR_POLICY_PLANS_MAX) {
        wr_draft_note(draft, 0, 0, "plan %s was left out: a policy has at most %d plans", name,
                      WR_POLICY_PLANS_MAX);
        return NULL;
    }
    if (as != first)
        wr_draft_note(draft, 0, 0, "plan %s (%s) is another than plan %s: here it is called %s",
                      name, origin, first, as);
    else if (strcmp(as, name) != 0)
        wr_draft_note(draft, 0, 0, "plan \"%s\" (%s): here it is called %s", name, origin, as);
    plan = add_pair(draft, &draft->plans, as, source);
    return plan != NULL ? plan->name : NULL;
}

const char *wr_draft_find_plan(struct wr_draft *draft, const char *name, const char *origin)
{
    const char *source = wr_draft_text(draft, "%s %s", origin, name);

    for (const struct wr_draft_pair *plan = draft->plans; plan != NULL; plan = plan->next)
        if (strcmp(plan->value, source) == 0)
            return plan->name;
    return NULL;
}

const char *wr_draft_plan(struct wr_draft *draft, const char *name, const char *origin)
{
    const char *found = wr_draft_find_plan(draft, name, origin);

    return found != NULL
               ? found
               : add_plan(draft, name, origin, wr_draft_text(draft, "%s %s", origin, name));
}

const char *wr_draft_new_plan(struct wr_draft *draft, const char *name, const char *origin)
{
    return add_plan(draft, name, origin, origin);
}

/* What a pattern has a meaning of its own for, and what never stands in one as it is. */
static bool is_encoded(unsigned char c)
{
    return c <= 0x20 || c == 0x7f || strchr("%#?*{}", c) != NULL;
}

const char *wr_draft_path(struct wr_draft *draft, const char *path)
{
    char out[TEXT_MAX];
    size_t at = 0;

    for (const char *p = path; *p != '\0'; p++) {
        size_t len = *p == '/' ? strcspn(p + 1, "/") : 1;
        if (*p == '/' && ((len == 0 && p[1] == '/') || (len == 1 && p[1] == '.') ||
                          (len == 2 && p[1] == '.' && p[2] == '.')))
            return NULL;
        if (at + 4 > sizeof out)
            return NULL;
        if (is_encoded((unsigned char)*p))
            at += (size_t)snprintf(out + at, 4, "%%%02X", (unsigned char)*p);
        else
            out[at++] = *p;
    }
    out[at] = '\0';
    return wr_draft_text(draft, "%s", out);
}

void wr_draft_key(struct wr_draft *draft, const char *key, const char *plan)
{
    (void)add_pair(draft, &draft->keys, key, plan);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static bool same(const char *a, const char *b)
{
    return (a == NULL) == (b == NULL) && (a == NULL || strcmp(a, b) == 0);
}

static bool is_like(const struct wr_draft_limit *a, const struct wr_draft_limit *b)
{
    return a->kind == b->kind && a->shadow == b->shadow && a->skip_missing == b->skip_missing &&
           same(a->origin, b->origin) && same(a->by, b->by) && same(a->methods, b->methods) &&
           same(a->path, b->path) && same(a->algorithm, b->algorithm) && same(a->per, b->per);
}

static bool has_name(const struct wr_draft *draft, const char *name)
{
    for (const struct wr_draft_limit *l = draft->limits; l != NULL; l = l->next)
        if (strcmp(l->name, name) == 0)
            return true;
    return false;
}

static struct wr_draft_limit *add_limit(struct wr_draft *draft, const struct wr_draft_limit *like)
{
    struct wr_draft_limit **at = &draft->limits, *limit;
    const char *name = wr_draft_name(draft, like->name);

    while (*at != NULL)
        at = &(*at)->next;
    limit = wr_region_take(&draft->region, 1, sizeof *limit);
    if (limit == NULL)
        return NULL;
    *limit = *like;
    limit->name = name;
    for (unsigned n = 2; has_name(draft, limit->name); n++)
        limit->name = wr_draft_text(draft, "%s-%u", name, n);
    limit->origin = wr_draft_text(draft, "%s", like->origin != NULL ? like->origin : "");
    limit->values = NULL;
    limit->next = NULL;
    *at = limit;
    return limit;
}

struct wr_draft_limit *wr_draft_limit(struct wr_draft *draft, const struct wr_draft_limit *like)
{
    for (struct wr_draft_limit *limit = draft->limits; limit != NULL; limit = limit->next)
        if (is_like(limit, like))
            return limit;
    return add_limit(draft, like);
}

void wr_draft_set(struct wr_draft *draft, struct wr_draft_limit *limit, const char *plan,
                  const char *text)
{
    struct wr_draft_value **at, *value;

    if (limit == NULL || text == NULL)
        return;
    at = &limit->values;
    for (struct wr_draft_limit *other = limit; other != NULL; other = other->next) {
        if (!is_like(other, limit))
            continue;
        for (at = &other->values; *at != NULL && !same((*at)->plan, plan); at = &(*at)->next)
            ;
        if (*at != NULL && same((*at)->text, text))
            return;
        if (*at == NULL)
            break;
    }
    if (*at != NULL) {
        limit = add_limit(draft, limit);
        if (limit == NULL)
            return;
        at = &limit->values;
    }
    value = wr_region_take(&draft->region, 1, sizeof *value);
    if (value == NULL)
        return;
    *value = (struct wr_draft_value){plan, wr_draft_text(draft, "%s", text), NULL};
    *at = value;
}

void wr_draft_fini(struct wr_draft *draft)
{
    wr_region_fini(&draft->region);
}
