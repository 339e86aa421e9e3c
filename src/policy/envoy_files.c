/* envoy_files.c - the section `envoy_ratelimit`: which files, and how they are meant.
 *
 *   envoy_ratelimit: [shop.yaml, limits/]                 as in the reference's config folder
 *   envoy_ratelimit: {files: [..], count_over_limit: true, windows: epoch, ..}
 *
 * Problem. These files are written for another program; they must be taken as they are, and an
 * error in one of them must be told with its own name, line and column.
 *
 * Invariants:
 *   1. Paths are relative to the policy's folder; only ordinary files of bounded size are opened,
 * so that loading cannot hang on a FIFO.
 *   2. A folder's files are read in the order of their names: what the first wildcard of a domain
 * is does not depend on the file system. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "policy/envoy_read.h"

struct files {
    struct wr_loader *ld;
    struct wr_envoy *envoy;
    const struct wr_yaml *at; /* where the policy names what is read now */
    size_t count;
};

/* ---- options ----------------------------------------------------------------------------- */

struct reading {
    struct wr_envoy_options options;
    const struct wr_yaml *files;
};

static void on_files(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)ld;
    ((struct reading *)into)->files = value;
}

static void on_windows(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    static const char *const choices[] = {"calendar", "epoch"};
    size_t choice;

    if (wr_read_choice(ld, value, "windows", choices, 2, &choice))
        ((struct reading *)into)->options.epoch_windows = choice == 1;
}

#define BOOL_READER(name, member)                                                   \
    static void name(struct wr_loader *ld, const struct wr_yaml *value, void *into) \
    {                                                                               \
        bool set;                                                                   \
        if (wr_read_bool(ld, value, #member, &set))                                 \
            ((struct reading *)into)->options.member = set;                         \
    }
BOOL_READER(on_count_over_limit, count_over_limit)
BOOL_READER(on_merge_domains, merge_domains)
BOOL_READER(on_shadow_mode, shadow_mode)
BOOL_READER(on_headers, headers)

static bool read_options(struct wr_loader *ld, const struct wr_yaml *node, struct reading *out)
{
    static const struct wr_key keys[] = {
        {"files", on_files},
        {"count_over_limit", on_count_over_limit},
        {"windows", on_windows},
        {"merge_domains", on_merge_domains},
        {"shadow_mode", on_shadow_mode},
        {"headers", on_headers},
    };
    static const struct wr_map_spec spec = {"envoy_ratelimit", keys, sizeof keys / sizeof keys[0],
                                            false};

    if (node->kind != WR_YAML_MAP) {
        out->files = node;
        return true;
    }
    if (!wr_read_map(ld, node, &spec, out))
        return false;
    if (out->files == NULL)
        wr_error(ld, node, "envoy_ratelimit: expected files, a list of files or folders");
    return out->files != NULL;
}

/* ---- files ------------------------------------------------------------------------------- */

static void read_file(struct files *f, const char *path)
{
    struct wr_diag *diag = f->ld->diag;
    char *text = NULL;
    size_t len = 0;

    if (f->count++ == WR_ENVOY_FILES_MAX) {
        wr_error(f->ld, f->at, "envoy_ratelimit: expected at most %d files, found more",
                 WR_ENVOY_FILES_MAX);
        return;
    }
    if (f->count > WR_ENVOY_FILES_MAX)
        return;
    diag->another = path;
    if (wr_read_policy_file(path, diag, &text, &len) == 0)
        wr_envoy_read_text(f->ld, f->envoy, text, len);
    free(text);
    diag->another = NULL;
}

static int is_configuration(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');

    return entry->d_name[0] != '.' && dot != NULL &&
           (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void read_named(struct files *f, const char *path, bool in_folder);

static void read_folder(struct files *f, const char *path)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, is_configuration, by_name);

    if (count <= 0)
        wr_error(f->ld, f->at, "envoy_ratelimit: expected files named *.yaml in the folder %s, %s",
                 path, count < 0 ? strerror(errno) : "found none");
    for (int i = 0; i < count; i++) {
        size_t size = strlen(path) + strlen(entries[i]->d_name) + 2;
        char *inside = wr_region_take(f->ld->scratch, size, 1);
        if (inside != NULL) {
            (void)snprintf(inside, size, "%s/%s", path, entries[i]->d_name);
            read_named(f, inside, true);
        }
        free(entries[i]);
    }
    free(entries);
}

static void read_named(struct files *f, const char *path, bool in_folder)
{
    struct stat st;

    if (stat(path, &st) != 0)
        wr_error(f->ld, f->at, "envoy_ratelimit: expected a file or folder, found %s: %s", path,
                 strerror(errno));
    else if (S_ISREG(st.st_mode))
        read_file(f, path);
    else if (S_ISDIR(st.st_mode) && !in_folder)
        read_folder(f, path);
    else if (!in_folder)
        wr_error(f->ld, f->at, "envoy_ratelimit: expected a file or folder, found neither: %s",
                 path);
}

static void read_files(struct files *f, const struct wr_yaml *list)
{
    if (list->kind == WR_YAML_MAP || (list->kind == WR_YAML_LIST && list->count == 0)) {
        wr_error(f->ld, list, "envoy_ratelimit: expected a list of files or folders, found %s",
                 wr_found_kind(list));
        return;
    }
    for (const struct wr_yaml *item = wr_first_item(list); item != NULL;
         item = wr_next_item(list, item)) {
        const char *path;
        if (!wr_is_text(item)) {
            wr_error(f->ld, item, "envoy_ratelimit: expected a file or folder, found %s",
                     wr_found_kind(item));
            continue;
        }
        f->at = item;
        path = wr_path_of(f->ld, item->text, f->ld->scratch);
        if (path != NULL)
            read_named(f, path, false);
    }
}

void wr_read_envoy(struct wr_loader *ld)
{
    const struct wr_yaml *node = ld->sections[WR_SECTION_ENVOY];
    struct reading reading = {0};
    struct files f = {.ld = ld};

    if (node == NULL)
        return;
    if (ld->path == NULL) {
        wr_error(ld, node,
                 "envoy_ratelimit: expected a policy in a file, whose folder its files "
                 "are looked for in");
        return;
    }
    if (!read_options(ld, node, &reading))
        return;
    f.envoy = wr_region_take(ld->region, 1, sizeof *f.envoy);
    if (f.envoy == NULL)
        return;
    f.envoy->options = reading.options;
    f.envoy->table.secret = ld->policy->values.secret;
    ld->policy->envoy = f.envoy;
    read_files(&f, reading.files);
}
