/* print.c - a draft as a policy: what is said of it in comments, then the sections. */
#include <string.h>

#include "import/draft.h"

/* Between double quotes, as YAML and JSON have them. Input has no NUL; control characters are
 * written as numbers. */
static void print_quoted_bytes(const char *text, size_t len, FILE *out)
{
    (void)fputc('"', out);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            (void)fprintf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            (void)fprintf(out, "\\x%02x", c);
        else
            (void)fputc(c, out);
    }
    (void)fputc('"', out);
}

static void print_quoted(const char *text, FILE *out)
{
    print_quoted_bytes(text, strlen(text), out);
}

/* A comment, on one line whatever |text| holds. */
static void print_comment(const char *indent, const char *text, FILE *out)
{
    (void)fprintf(out, "%s# ", indent);
    for (; *text != '\0'; text++)
        (void)fputc((unsigned char)*text < 0x20 || *text == 0x7f ? ' ' : *text, out);
    (void)fputc('\n', out);
}

static void print_head(const struct wr_draft *draft, const char *program, FILE *out)
{
    const struct wr_diag *diag = draft->diag;

    (void)fprintf(out, "# Made by `weir import %s`", program);
    (void)fprintf(out, ". `weir check` it, `weir replay` your log with it.\n");
    if (diag->warnings > 0)
        (void)fprintf(out, "#\n# Not carried over, or not the same:\n");
    for (size_t i = 0; i < diag->kept; i++) {
        const struct wr_diag_item *item = &diag->items[i];
        char text[WR_DIAG_TEXT_MAX + WR_DIAG_FILE_MAX + 32];
        if (item->severity != WR_WARNING)
            continue;
        if (item->line > 0)
            (void)snprintf(text, sizeof text, "- line %u: %s", item->line, item->text);
        else
            (void)snprintf(text, sizeof text, "- %s", item->text);
        print_comment("", text, out);
    }
    if (diag->warnings + diag->errors > diag->kept)
        (void)fprintf(out,
                      "# - and %zu more, which were not kept: import parts of the file alone\n",
                      diag->warnings + diag->errors - diag->kept);
    (void)fputs("version: 1\n", out);
}

static void print_identity(const struct wr_draft *draft, FILE *out)
{
    if (draft->identities == NULL && draft->plans == NULL && draft->ip_from == NULL)
        return;
    (void)fputs("\nidentity:\n", out);
    if (draft->ip_from != NULL) {
        (void)fprintf(out, "  ip: {from: %s, trusted: [", draft->ip_from);
        (void)fprintf(out, "%s]}\n", draft->ip_trusted != NULL ? draft->ip_trusted : "");
    }
    for (const struct wr_draft_pair *id = draft->identities; id != NULL; id = id->next) {
        (void)fprintf(out, "  %s: {header: ", id->name);
        print_quoted(id->value, out);
        /* There, it is taken from whoever sends it; here that has to be said of all but API keys.
         */
        (void)fputs(strcmp(id->name, "api_key") == 0 ? "}\n" : ", trust: anyone}\n", out);
    }
    if (draft->plans == NULL)
        return;
    (void)fprintf(out, "  plan:\n    default: %s   # of callers of whom nothing else is known\n",
                  draft->plans->name);
    if (draft->keys != NULL)
        (void)fputs("    keys:\n", out);
    for (const struct wr_draft_pair *key = draft->keys; key != NULL; key = key->next) {
        (void)fputs("      ", out);
        print_quoted(key->name, out);
        (void)fprintf(out, ": %s\n", key->value);
    }
}

static const char *value_of(const struct wr_draft_limit *limit, const char *plan)
{
    for (const struct wr_draft_value *value = limit->values; value != NULL; value = value->next)
        if (value->plan == NULL || (plan != NULL && strcmp(value->plan, plan) == 0))
            return value->text;
    return "unlimited";
}

/* One value for all, or a map with one for each plan. */
static void print_values(const struct wr_draft *draft, const struct wr_draft_limit *limit,
                         FILE *out)
{
    if (limit->values == NULL || limit->values->plan == NULL) {
        (void)fputs(value_of(limit, NULL), out);
        return;
    }
    (void)fputc('{', out);
    for (const struct wr_draft_pair *plan = draft->plans; plan != NULL; plan = plan->next)
        (void)fprintf(out, "%s: %s%s", plan->name, value_of(limit, plan->name),
                      plan->next != NULL ? ", " : "");
    (void)fputc('}', out);
}

static void print_paths(const char *path, FILE *out)
{
    bool several = strchr(path, '\n') != NULL;

    (void)fputs(several ? "path: [" : "path: ", out);
    for (;;) {
        size_t len = strcspn(path, "\n");
        print_quoted_bytes(path, len, out);
        if (path[len] == '\0')
            break;
        (void)fputs(", ", out);
        path += len + 1;
    }
    if (several)
        (void)fputc(']', out);
}

static void print_match(const struct wr_draft_limit *limit, FILE *out)
{
    if (limit->methods == NULL && limit->path == NULL)
        return;
    (void)fputs("    match: {", out);
    if (limit->methods != NULL)
        (void)fprintf(out, "method: [%s]%s", limit->methods, limit->path != NULL ? ", " : "");
    if (limit->path != NULL)
        print_paths(limit->path, out);
    (void)fputs("}\n", out);
}

static bool is_identity(const struct wr_draft *draft, const char *by)
{
    for (const struct wr_draft_pair *id = draft->identities; id != NULL; id = id->next)
        if (strcmp(id->name, by) == 0)
            return true;
    return false;
}

static void print_limit(const struct wr_draft *draft, const struct wr_draft_limit *limit, FILE *out)
{
    static const char *const keys[] = {
        [WR_DRAFT_RATE] = "rate: ", [WR_DRAFT_CONCURRENT] = "concurrent: ", [WR_DRAFT_QUOTA] = ""};

    if (limit->origin[0] != '\0')
        print_comment("  ", limit->origin, out);
    (void)fprintf(out, "  - name: %s\n", limit->name);
    print_match(limit, out);
    if (limit->by[0] != '\0')
        (void)fprintf(out, "    by: [%s]\n", limit->by);
    if (limit->skip_missing)
        (void)fputs("    when_missing: skip\n", out);
    else if (limit->kind == WR_DRAFT_QUOTA && is_identity(draft, limit->by)) /* not the default */
        (void)fputs("    when_missing: ip\n", out);
    if (limit->kind == WR_DRAFT_QUOTA)
        (void)fputs("    quota: {limit: ", out);
    (void)fprintf(out, "%s%s", limit->kind == WR_DRAFT_QUOTA ? "" : "    ", keys[limit->kind]);
    print_values(draft, limit, out);
    if (limit->kind == WR_DRAFT_QUOTA)
        (void)fprintf(out, ", per: %s}", limit->per);
    (void)fputc('\n', out);
    if (limit->algorithm != NULL)
        (void)fprintf(out, "    algorithm: %s\n", limit->algorithm);
    if (limit->shadow)
        (void)fputs("    mode: shadow\n", out);
}

bool wr_draft_print(const struct wr_draft *draft, const char *program, FILE *out)
{
    print_head(draft, program, out);
    print_identity(draft, out);
    if (draft->status != 0)
        (void)fprintf(out, "\nanswers: {status: %d}\n", draft->status);
    if (draft->envoy_file != NULL) {
        (void)fputs("\nlisten: {grpc: 127.0.0.1:8081}\nenvoy_ratelimit: [", out);
        print_quoted(draft->envoy_file, out);
        (void)fputs("]\n", out);
    }
    if (draft->limits != NULL)
        (void)fputs("\nlimits:\n", out);
    for (const struct wr_draft_limit *limit = draft->limits; limit != NULL; limit = limit->next)
        print_limit(draft, limit, out);
    return fflush(out) == 0 && ferror(out) == 0;
}
