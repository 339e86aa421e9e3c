/* keeper_left.c - quotas that the policy has no more, and whose files of usage are still there.
 *
 * Problem. A quota that is renamed or taken away has counted up to that moment, and others (loops
 * in a request, nginx before its own reload) count by the old policy for a while after it. All of
 * that is to be billed, also where the daemon was not running when the policy was changed.
 *
 * Idea. Any file of usage in the directory that the policy does not name is flushed as the others
 * are, for as long as the daemon runs. What it counted in is told by its name and its header, its
 * zone by the database. Nothing is told of its thresholds any more.
 *
 * Invariant: no file is kept twice, as each would take the other's dirty bits.
 *
 * Rejected: flushing once when the policy changes (what comes a moment later is lost); a quota that
 * the database does not know (its file is of another life of the directory, and its cells may be
 * other people's). */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/zone.h"
#include "meter/keeper_parts.h"

struct wr_kept *wr_keeper_kept(struct wr_keeper *keeper, size_t index)
{
    size_t count = keeper->config->quota_count;

    if (index < count)
        return &keeper->config->quota[index];
    return index - count < keeper->left_count ? &keeper->left[index - count] : NULL;
}

void wr_keeper_left_close(struct wr_keeper *keeper)
{
    for (size_t i = 0; i < keeper->left_count; i++)
        wr_kept_close(&keeper->left[i]);
    keeper->left_count = 0;
    keeper->left_known = false;
}

/* ---- which there are ------------------------------------------------------------------------ */

static bool is_kept(struct wr_keeper *keeper, const char *name)
{
    const struct wr_kept *kept;

    for (size_t i = 0; (kept = wr_keeper_kept(keeper, i)) != NULL; i++)
        if (strcmp(kept->name, name) == 0)
            return true;
    return false;
}

static void say_of(struct wr_keeper *keeper, const char *name, const char *why)
{
    char text[WR_DIAG_TEXT_MAX + 128];

    (void)snprintf(text, sizeof text, "%.100s.usage: %.*s", name, WR_DIAG_TEXT_MAX, why);
    keeper->say(keeper->context, WR_KEEPER_WARNING,
                "a quota that the policy has no more is not looked at", text);
}

/* The zone that the database has the quota in; false: it does not know it. */
static bool find_zone(struct wr_keeper *keeper, struct wr_kept *kept)
{
    const struct wr_zone *zone;
    char why[256];

    if (!wr_ledger_quota_zone(keeper->database, kept->name, kept->civil.per, kept->zone,
                              sizeof kept->zone))
        return false;
    zone = wr_zone_find(kept->zone, why, sizeof why);
    kept->civil.zone = zone != NULL ? wr_zone_id(zone) : WR_ZONE_UTC; /* days, never windows */
    return true;
}

static void add(struct wr_keeper *keeper, const char *name)
{
    struct wr_kept *kept = &keeper->left[keeper->left_count];
    struct wr_diag diag;

    if (keeper->left_count == WR_LEDGER_QUOTAS_MAX) {
        say_of(keeper, name, "there are too many of them");
        return;
    }
    *kept = (struct wr_kept){.civil = {.anchor = 1}};
    (void)snprintf(kept->name, sizeof kept->name, "%s", name);
    wr_diag_init(&diag, NULL);
    if (wr_kept_open_left(kept, keeper->config->directory, &diag) != 0) {
        say_of(keeper, name, diag.kept > 0 ? diag.items[0].text : "it cannot be opened");
    } else if (!find_zone(keeper, kept)) {
        say_of(keeper, name, "the database does not know this quota");
        wr_kept_close(kept);
    } else {
        keeper->left_count++;
        if (!wr_usage_is_restored(kept->usage))
            keeper->mirrored = false; /* it is raised to the ledger before it is written there */
    }
}

/* "NAME.usage" */
static bool name_of(const char *file, char *out, size_t size)
{
    size_t len = strlen(file), suffix = strlen(WR_USAGE_SUFFIX);

    if (len <= suffix || len - suffix >= size || strcmp(file + len - suffix, WR_USAGE_SUFFIX) != 0)
        return false;
    memcpy(out, file, len - suffix);
    out[len - suffix] = '\0';
    return true;
}

void wr_keeper_left_find(struct wr_keeper *keeper)
{
    char name[sizeof keeper->left[0].name];
    const struct dirent *entry;
    DIR *directory;

    if (keeper->left_known)
        return;
    keeper->left_known = true;
    directory = opendir(keeper->config->directory);
    while (directory != NULL && (entry = readdir(directory)) != NULL)
        if (name_of(entry->d_name, name, sizeof name) && !is_kept(keeper, name))
            add(keeper, name);
    if (directory != NULL)
        (void)closedir(directory);
}
