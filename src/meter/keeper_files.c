/* keeper_files.c - what is wrong with files of usage, and what is said of it: cells that are
 * damaged, files with fewer cells than there are customers, files that are older than the ledger.
 *
 * Each is said once, and the first two are in the keeper's state for as long as they last. None of
 * them keeps anything else from being written. */
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
