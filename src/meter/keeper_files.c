/* keeper_files.c - what is wrong with files of usage, and what is said of it: cells that are
 * damaged, files with fewer cells than there are customers, files that are older than the ledger,
 * files that were taken away while they are counted in.
 *
 * Each is said once, and all but the third are in the keeper's state for as long as they last. None
 * of them keeps anything else from being written.
 *
 * Who opens a file that was taken away makes a new one, and counts in that: a customer then has his
 * quota twice, and half of it is nowhere. Nothing here can mend it: a file without a name is given
 * none again by Linux, and other processes go on counting in what they have open. It ends when all
 * of them open the same file: at a restart, whose last flush has written what the old one has, and
 * which raises the new one to that; or at a reload, but for what is counted during it.
 *
 * Rejected: to raise the new file while both are counted in (what comes later is apart again); a
 * second name, to link the file back from (it is a name as well, and goes with rm of the folder).
 */
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "algo/civil.h"
#include "meter/customers_parts.h"
#include "meter/keeper_parts.h"

/* ---- older than the ledger ------------------------------------------------------------------- */

int wr_keeper_look_at_files(struct wr_keeper *keeper, struct wr_flush *flush)
{
    struct wr_kept *kept;
    int result = 0;

    for (size_t i = 0; result == 0 && (kept = wr_keeper_kept(keeper, i)) != NULL; i++) {
        result = wr_flush_look(flush, kept);
        if (result == 0 && kept->older)
            keeper->mirrored = false; /* rows are found by the numbers that the map has */
    }
    return result;
}

static void say_older(struct wr_keeper *keeper, const struct wr_kept *kept)
{
    char text[256];

    (void)snprintf(text, sizeof text,
                   "%.64s" WR_USAGE_SUFFIX ": what it had not is put back as the ledger has it; "
                   "what the ledger did not have yet is lost",
                   kept->name);
    keeper->say(keeper->context, WR_KEEPER_WARNING,
                "a file of usage is an older copy than the ledger was written from", text);
}

/* Somebody has removed the one that the ledger was written from, as is said where it is to have
 * more room. After an end of weir serve the ledger had all of it. */
static void say_new(struct wr_keeper *keeper, const struct wr_kept *kept)
{
    char text[256];

    (void)snprintf(text, sizeof text,
                   "%.64s" WR_USAGE_SUFFIX ": there was none; it has what the ledger has",
                   kept->name);
    keeper->say(keeper->context, WR_KEEPER_INFO, "a file of usage is new", text);
}

int wr_keeper_restore_file(struct wr_keeper *keeper, struct wr_flush *flush, struct wr_kept *kept)
{
    bool older, is_new = wr_usage_is_new(kept->usage);
    int result = wr_flush_look(flush, kept);

    older = kept->older;
    if (result == 0)
        result = wr_flush_restore(flush, kept);
    if (result == 0 && older)
        (is_new ? say_new : say_older)(keeper, kept);
    return result;
}

/* ---- damage ---------------------------------------------------------------------------------- */

static void describe(const struct wr_kept *kept, char *out, size_t size)
{
    unsigned month, day;
    int year;

    wr_civil_date(kept->damaged_day, &year, &month, &day);
    (void)snprintf(out, size,
                   "%.64s" WR_USAGE_SUFFIX ", cell %u: a window that begins on %d-%02u-%02u",
                   kept->name, kept->damaged_cell, year, month, day);
}

void wr_keeper_say_damage(struct wr_keeper *keeper)
{
    char first[WR_FAULT_TEXT_MAX] = "", text[WR_FAULT_TEXT_MAX + 128];
    struct wr_kept *kept;
    uint64_t damaged = 0;

    for (size_t i = 0; (kept = wr_keeper_kept(keeper, i)) != NULL; i++) {
        damaged += kept->damaged;
        if (kept->damaged > 0 && first[0] == '\0')
            describe(kept, first, sizeof first);
        if (kept->damaged > 0 && !kept->damage_said) {
            describe(kept, text, sizeof text);
            (void)snprintf(text + strlen(text), sizeof text - strlen(text),
                           "; what it says is not written to the ledger. Was the clock far from "
                           "right? Otherwise the file is damaged: look at its disk");
            keeper->say(keeper->context, WR_KEEPER_ERROR, "a cell of usage cannot be right", text);
        }
        kept->damage_said = kept->damaged > 0;
    }
    (void)pthread_mutex_lock(&keeper->mutex);
    keeper->state.damaged = damaged;
    memcpy(keeper->state.damage, first, sizeof keeper->state.damage);
    (void)pthread_mutex_unlock(&keeper->mutex);
}

/* ---- astray --------------------------------------------------------------------------------- */

#define RESTART                                                                                \
    ": who opens it now counts or keeps customers apart from this process, so that customers " \
    "have their quotas "                                                                       \
    "twice, and not all is in the ledger. Restart weir, then all others who count in it: "     \
    "nginx, programs with libweir"

static enum wr_mapped_named named(const struct wr_keeper_config *config, const struct wr_kept *kept)
{
    char path[sizeof config->directory + sizeof kept->name + sizeof WR_USAGE_SUFFIX];

    (void)snprintf(path, sizeof path, "%s/%s" WR_USAGE_SUFFIX, config->directory, kept->name);
    return wr_usage_named(kept->usage, path);
}

bool wr_keeper_is_astray(const struct wr_keeper_config *config, const struct wr_kept *kept)
{
    return kept->usage == NULL || named(config, kept) != WR_MAPPED_ITSELF;
}

static enum wr_mapped_named map_named(const struct wr_keeper *keeper)
{
    char path[sizeof keeper->config->directory + sizeof WR_CUSTOMERS_NAME + 1];

    if (keeper->mirror.map == NULL)
        return WR_MAPPED_ITSELF;
    (void)snprintf(path, sizeof path, "%s/" WR_CUSTOMERS_NAME, keeper->config->directory);
    return wr_customers_named(keeper->mirror.map, path);
}

void wr_keeper_let_go_of_map(struct wr_keeper *keeper)
{
    if (map_named(keeper) == WR_MAPPED_ITSELF)
        return;
    wr_customers_close(keeper->mirror.map);
    keeper->mirror.map = NULL;
    keeper->mirrored = false;
}

/* |first| gets what is said of the first one. */
static void note_astray(enum wr_mapped_named is, const char *name, const char *suffix,
                        uint64_t *count, char first[WR_FAULT_TEXT_MAX])
{
    if (is == WR_MAPPED_ITSELF)
        return;
    if ((*count)++ == 0)
        (void)snprintf(first, WR_FAULT_TEXT_MAX, "%.64s%s %s", name, suffix,
                       is == WR_MAPPED_NOTHING ? "was removed" : "was replaced by another file");
}

void wr_keeper_look_at_names(struct wr_keeper *keeper)
{
    char first[WR_FAULT_TEXT_MAX] = "", text[WR_FAULT_TEXT_MAX + sizeof RESTART];
    const struct wr_keeper_config *config = keeper->config;
    uint64_t count = 0;

    note_astray(map_named(keeper), WR_CUSTOMERS_NAME, "", &count, first);
    for (size_t i = 0; i < config->quota_count; i++)
        if (config->quota[i].usage != NULL)
            note_astray(named(config, &config->quota[i]), config->quota[i].name, WR_USAGE_SUFFIX,
                        &count, first);
    if (keeper->database != NULL && wr_database_lost_log(keeper->database)) {
        note_astray(WR_MAPPED_NOTHING, WR_DATABASE_NAME, "-wal", &count, first);
        wr_database_save_log(keeper->database); /* a kill must not lose what it has */
    }
    if (count > keeper->astray_said) {
        (void)snprintf(text, sizeof text, "%s" RESTART, first);
        keeper->say(keeper->context, WR_KEEPER_ERROR,
                    "a file of usage or of customers was taken away while it is counted in", text);
    }
    keeper->astray_said = count;
    (void)pthread_mutex_lock(&keeper->mutex);
    keeper->state.astray = count;
    memcpy(keeper->state.stray, first, sizeof keeper->state.stray);
    (void)pthread_mutex_unlock(&keeper->mutex);
}

/* ---- too small ------------------------------------------------------------------------------- */

/* The file with the fewest cells. NULL: there is no quota. */
static const struct wr_kept *smallest(const struct wr_keeper *keeper)
{
    const struct wr_kept *least = NULL;

    for (size_t i = 0; i < keeper->config->quota_count; i++)
        if (least == NULL || keeper->config->quota[i].room < least->room)
            least = &keeper->config->quota[i];
    return least;
}

static void say_uncounted(struct wr_keeper *keeper, const struct wr_kept *least, uint64_t count)
{
    char text[WR_FAULT_TEXT_MAX];

    if (count > 0 && !keeper->uncounted_said) {
        (void)snprintf(text, sizeof text,
                       "%llu customers: %.64s" WR_USAGE_SUFFIX " has room for %u; " WR_MORE_ROOM,
                       (unsigned long long)count, least->name, least->room);
        keeper->say(keeper->context, WR_KEEPER_ERROR,
                    "files of usage are full: what some customers use is not in the ledger", text);
    }
    keeper->uncounted_said = count > 0;
}

int wr_keeper_count_uncounted(struct wr_keeper *keeper, uint64_t *out)
{
    const struct wr_kept *least = smallest(keeper);
    sqlite3_stmt *statement;
    int result;

    *out = 0;
    if (least == NULL || least->room >= wr_customers_room(keeper->mirror.map))
        return 0;
    statement = wr_database_statement(
        keeper->database,
        "SELECT count(*) FROM customer WHERE number >= ?1 AND number < ?2 AND ended IS NULL");
    if (statement != NULL) {
        (void)sqlite3_bind_int64(statement, 1, least->room);
        (void)sqlite3_bind_int64(statement, 2, wr_customers_room(keeper->mirror.map));
    }
    result = wr_database_step(keeper->database, statement);
    if (result < 0)
        return result;
    *out = (uint64_t)sqlite3_column_int64(statement, 0);
    (void)sqlite3_reset(statement);
    say_uncounted(keeper, least, *out);
    return 0;
}
