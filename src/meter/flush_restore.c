/* flush_restore.c - from the ledger back into cells: after a power loss, and where somebody has put
 * an older copy of a file of usage in its place, or has removed it.
 *
 * Problem. Rows are absolute. Cells that have less than the ledger would take it down, silently.
 *
 * Idea. What has less for a reason (units were given back) is told from what has lost something by
 * the file's header: it says in which boot of the machine it was last brought up to the ledger, and
 * the number of the last batch that was written from it. That number is set before the batch is
 * committed, so the file that the ledger was written from never has a lower one than the ledger,
 * wherever somebody is killed. A file with a lower one is older, and so are its counts.
 *
 * Rejected: setting the number after the commit (a kill in between looks like a copy that is one
 * batch older, and one of the two would be told wrong). */
#include "base/units.h"
#include "meter/flush.h"

/* Days of windows that a cell may still hold, and one more. */
#define RESTORED_DAYS 6
#define RESTORED_WEEKS_DAYS 42
#define RESTORED_MONTHS_DAYS 160

int wr_flush_look(struct wr_flush *flush, struct wr_kept *kept)
{
    int64_t batch;
    int result = kept->looked ? 0 : wr_flush_find_row(flush, kept);

    if (result != 0 || kept->looked)
        return result;
    result = wr_ledger_marked(flush->database, kept->row, &batch);
    kept->looked = result == 0;
    kept->older = result == 0 && wr_usage_batch(kept->usage) < (uint64_t)batch;
    return result;
}

struct raising {
    const struct wr_kept *kept;
    int32_t today;
};

static bool raise_cell(void *context, const struct wr_ledger_entry *entry)
{
    const struct raising *raising = context;
    const struct wr_usage_window window = {entry->window, entry->used, entry->over};

    if (entry->number < raising->kept->room)
        wr_usage_raise(raising->kept->usage, entry->number, &window, raising->today);
    return true;
}

int wr_flush_restore(struct wr_flush *flush, struct wr_kept *kept)
{
    static const int32_t days[] = {[WR_PER_DAY] = RESTORED_DAYS,
                                   [WR_PER_WEEK] = RESTORED_WEEKS_DAYS,
                                   [WR_PER_MONTH] = RESTORED_MONTHS_DAYS};
    int32_t today = wr_civil_day(&kept->civil, flush->now_ns);
    struct raising raising = {kept, today};
    int64_t batch = 0;
    int result = wr_flush_look(flush, kept);

    if (result != 0 || (wr_usage_is_restored(kept->usage) && !kept->older))
        return result;
    result = wr_ledger_marked(flush->database, kept->row, &batch);
    if (result == 0)
        result = wr_ledger_each(flush->database, flush->node, kept->row,
                                today - days[kept->civil.per], raise_cell, &raising);
    if (result != 0)
        return result;
    kept->older = false;
    wr_usage_set_batch(kept->usage, (uint64_t)batch);
    wr_usage_set_restored(kept->usage);
    return 0;
}
