/* flush.c - batches of cells into rows.
 *
 * Problem. Cells change all the time, under loops and other processes; a batch takes milliseconds,
 * and may fail when it is committed.
 *
 * Idea. A cell's bit is cleared, then the cell is read, then its rows are written, in a batch that
 * is committed at its end; if that fails, all its bits are set again. What was written last is
 * remembered as a hash of the cell, so that looking at all cells costs reading them, and a cell
 * that went up and down again costs nothing.
 *
 * Invariants:
 *   1. A change is in the database, or its bit is set, or it differs from its hash: the scan finds
 *      it. Bits and hashes are hints about what to look at; rows are absolute.
 *   2. A hash is stored after the commit of what it is of.
 *   3. A file of usage has the number of its last batch from before that is committed
 *      (flush_restore.c).
 *   4. A window that cannot be (usage.h) is damage: counted, said, and never written.
 *   5. A window that was deleted as too old (expire.h) is not written again, nor are its thresholds
 *      told.
 *   6. The file says that bits are being taken while a change may be neither in the database nor
 *      have its bit: in a batch, and until all cells have been compared with a database that was
 *      opened anew, by one who may have been killed in a batch. So whoever looks on
 *      (verify_cells.c) can tell what is not written yet from what is wrong.
 *   7. The customer of a cell is whom the map has under its number; one who ended is found in the
 *      database. */
#include "meter/flush.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <sqlite3.h>

#include "base/units.h"
#include "meter/expire.h"
#include "meter/schema.h"

/* ---- the file ------------------------------------------------------------------------------- */

static int open_kept(struct wr_kept *kept, const char *directory, struct wr_usage_options options,
                     struct wr_diag *diag)
{
    char path[4096];
    int result;

    (void)snprintf(path, sizeof path, "%s/%s.usage", directory, kept->name);
    options.path = path;
    options.name = kept->name;
    result = wr_usage_open(&kept->usage, &options, diag);
    if (result != 0)
        return result;
    kept->civil.per = wr_usage_per(kept->usage);
    kept->room = wr_usage_room(kept->usage);
    /* Pages as they are touched: a room for millions that has a thousand costs what a thousand do.
     */
    kept->written = mmap(NULL, kept->room * sizeof *kept->written, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (kept->written == MAP_FAILED) {
        kept->written = NULL;
        wr_kept_close(kept);
        return WEIR_ENOMEM;
    }
    kept->scanning = true;
    kept->compared = false;
    kept->looked = kept->older = false;
    return 0;
}

int wr_kept_open(struct wr_kept *kept, const char *directory, uint32_t room, struct wr_diag *diag)
{
    struct wr_usage_options options = {.room = room, .per = kept->civil.per};

    return open_kept(kept, directory, options, diag);
}

int wr_kept_open_left(struct wr_kept *kept, const char *directory, struct wr_diag *diag)
{
    struct wr_usage_options options = {.per = WR_USAGE_PER_ANY, .must_exist = true};
    int result = open_kept(kept, directory, options, diag);

    if (result != 0 || (kept->civil.per >= WR_PER_DAY && kept->civil.per <= WR_PER_MONTH))
        return result;
    wr_kept_close(kept);
    return WEIR_EFORMAT;
}

void wr_kept_close(struct wr_kept *kept)
{
    wr_usage_close(kept->usage);
    if (kept->written != NULL)
        (void)munmap(kept->written, kept->room * sizeof *kept->written);
    kept->usage = NULL;
    kept->written = NULL;
}

void wr_kept_forget(struct wr_kept *kept)
{
    kept->row = 0;
    (void)madvise(kept->written, kept->room * sizeof *kept->written, MADV_DONTNEED);
    kept->scanning = true;
    kept->scan_at = 0;
    kept->compared = false;
    kept->looked = false;
    wr_usage_taking_begin(kept->usage);
}

/* ---- a cell --------------------------------------------------------------------------------- */

struct cell {
    uint32_t number;
    unsigned count;
    struct wr_usage_window window[WR_USAGE_WINDOWS];
    bool damaged;        /* in it was a window that cannot be, which is left out */
    int32_t damaged_day; /* that it says to begin on */
    uint64_t hash;       /* not 0 */
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash ^= value;
    hash *= UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* Leave out what cannot be. */
static void sift(const struct wr_kept *kept, int32_t today, struct cell *cell)
{
    unsigned count = 0;

    for (unsigned i = 0; i < cell->count; i++) {
        if (wr_usage_can_begin(kept->usage, cell->window[i].day, today)) {
            cell->window[count++] = cell->window[i];
            continue;
        }
        cell->damaged = true;
        cell->damaged_day = cell->window[i].day;
    }
    cell->count = count;
}

static void read_cell(const struct wr_kept *kept, uint32_t number, int64_t now_ns, struct cell *out)
{
    *out = (struct cell){.number = number};
    out->count = wr_usage_read(kept->usage, number, out->window);
    sift(kept, (int32_t)(now_ns / WR_NS_PER_DAY), out);
    out->hash = 1;
    for (unsigned i = 0; i < out->count; i++) {
        out->hash = mix(out->hash, (uint64_t)(uint32_t)out->window[i].day);
        out->hash = mix(out->hash, out->window[i].units);
        out->hash = mix(out->hash, out->window[i].over);
    }
    if (out->hash == 0 || out->hash == UINT64_MAX)
        out->hash = 1;
}

/* Whose a cell is. */
struct owner {
    int64_t id;
    uint8_t anchor;
    int plan;   /* by its place in the policy; -1: he has ended */
    bool moves; /* to the next plan, which what is beyond this one was admitted by */
};

static unsigned plan_of(const struct wr_flush *flush, const struct wr_customer_record *record)
{
    char name[WR_CUSTOMER_PLAN_BYTES + 1];

    if (wr_customers_plan_name(flush->map, wr_customer_plan_of(record, flush->now_ns), name))
        for (size_t i = 0; i < flush->plan_count; i++)
            if (strcmp(flush->plan[i], name) == 0)
                return (unsigned)i;
    return flush->default_plan;
}

/* 0, WEIR_ENOENT (nobody's), or an error. */
static int find_owner(struct wr_flush *flush, uint32_t number, struct owner *out)
{
    struct wr_customer_record record;
    sqlite3_stmt *statement;
    int result;

    *out = (struct owner){.plan = -1};
    if (wr_customers_get(flush->map, number, &record)) {
        *out = (struct owner){record.id, record.anchor, (int)plan_of(flush, &record),
                              (record.flags & WR_CUSTOMER_WANTS_UPGRADE) != 0};
        return 0;
    }
    statement =
        wr_database_statement(flush->database, "SELECT id, anchor FROM customer WHERE number = ?1");
    if (statement != NULL)
        (void)sqlite3_bind_int64(statement, 1, number);
    result = wr_database_step(flush->database, statement);
    if (result != 1)
        return result == 0 ? WEIR_ENOENT : result;
    out->id = sqlite3_column_int64(statement, 0);
    out->anchor = (uint8_t)sqlite3_column_int(statement, 1);
    (void)sqlite3_reset(statement);
    return 0;
}

/* The day that what is new in the window of |first| is put down to: today, but within the window.
 */
static int32_t day_of(const struct wr_kept *kept, uint8_t anchor, int32_t first, int64_t now_ns)
{
    struct wr_civil civil = kept->civil;
    struct wr_civil_window window;
    int32_t today, last;

    if (civil.per == WR_PER_DAY)
        return first;
    if (kept->anchor_by_customer && anchor != 0)
        civil.anchor = anchor;
    today = wr_civil_day(&civil, now_ns);
    if (today <= first)
        return first;
    if (today <= first + (civil.per == WR_PER_WEEK ? 6 : 26))
        return today;
    window = wr_civil_window(&civil, wr_civil_index(&civil, first));
    last = wr_civil_day(&civil, window.end_ns - 1);
    return today < last ? today : last > first ? last : first;
}

/* Thresholds that |entry| has reached. Of windows that are over only where that is news: the plan
 * may be another since. */
static int judge(struct wr_flush *flush, const struct wr_kept *kept, const struct owner *owner,
                 const struct wr_ledger_entry *entry, bool news)
{
    struct wr_civil civil = kept->civil;
    struct wr_civil_window window;
    struct wr_alert_mark mark;

    if (kept->alert.count == 0 || owner->plan < 0)
        return 0;
    if (kept->anchor_by_customer && owner->anchor != 0)
        civil.anchor = owner->anchor;
    window = wr_civil_window(&civil, wr_civil_index(&civil, entry->window));
    if (!news && window.end_ns <= flush->now_ns)
        return 0;
    mark = (struct wr_alert_mark){.customer = entry->customer,
                                  .quota = entry->quota,
                                  .quota_name = kept->name,
                                  .plan = flush->plan[owner->plan],
                                  .limit = kept->alert.limit[owner->plan],
                                  .per = kept->civil.per,
                                  .hooked = flush->hooked,
                                  .window = entry->window,
                                  .starts_ns = window.start_ns,
                                  .ends_ns = window.end_ns,
                                  .used = entry->used,
                                  .now_ns = flush->now_ns};
    if (owner->moves && mark.limit >= 0)
        mark.used = wr_min_u64(mark.used, (uint64_t)mark.limit);
    return wr_alert_judge(flush->database, &kept->alert, &mark);
}

static int put_cell(struct wr_flush *flush, struct wr_ledger_batch *batch,
                    const struct wr_kept *kept, const struct cell *cell)
{
    struct wr_ledger_entry entry = {.quota = kept->row, .daily = kept->civil.per == WR_PER_DAY};
    struct owner owner;
    int result = find_owner(flush, cell->number, &owner);

    entry.customer = owner.id;
    for (unsigned i = 0; result == 0 && i < cell->count; i++) {
        uint64_t rows = batch->rows;
        entry.window = cell->window[i].day;
        if (wr_expire_is_gone(entry.window, kept->since, flush->now_ns))
            continue;
        entry.day = day_of(kept, owner.anchor, entry.window, flush->now_ns);
        entry.used = cell->window[i].units;
        entry.over = cell->window[i].over;
        result = wr_ledger_put(batch, &entry);
        if (result == 0)
            result = judge(flush, kept, &owner, &entry, batch->rows != rows);
    }
    return result;
}

/* ---- a batch -------------------------------------------------------------------------------- */

#define NOBODYS UINT64_MAX /* in place of a hash: the scan will see it again */

struct batch {
    unsigned count;
    uint32_t number[WR_LEDGER_BATCH];
    uint64_t hash[WR_LEDGER_BATCH];
};

/* |result| 0: commit. Invariant 3. */
static int end_batch(struct wr_kept *kept, struct wr_ledger_batch *ledger, int result)
{
    if (result == 0)
        result = wr_ledger_mark(ledger, kept->row);
    if (result == 0) {
        wr_usage_set_batch(kept->usage, (uint64_t)ledger->id);
        return wr_ledger_end(ledger);
    }
    wr_ledger_abandon(ledger);
    return result;
}

/* Write |batch|'s cells: hashes are set of those that were. */
static int put_cells(struct wr_flush *flush, struct wr_kept *kept, struct batch *batch,
                     uint64_t *rows)
{
    struct wr_ledger_batch ledger;
    struct cell cell;
    int result = wr_ledger_begin(&ledger, flush->database, flush->node, flush->now_ns);

    if (result != 0)
        return result;
    for (unsigned i = 0; result == 0 && i < batch->count; i++) {
        read_cell(kept, batch->number[i], flush->now_ns, &cell);
        batch->hash[i] = cell.hash;
        result = put_cell(flush, &ledger, kept, &cell);
        if (result == WEIR_EAGAIN || result == WEIR_ENOENT) {
            flush->stranger = flush->stranger || result == WEIR_EAGAIN;
            batch->hash[i] = result == WEIR_EAGAIN ? 0 : NOBODYS;
            result = 0;
        }
    }
    *rows = ledger.rows;
    return end_batch(kept, &ledger, result);
}

static int write_batch(struct wr_flush *flush, struct wr_kept *kept, struct batch *batch)
{
    uint64_t rows = 0;
    int result = batch->count > 0 ? put_cells(flush, kept, batch, &rows) : 0;

    for (unsigned i = 0; i < batch->count; i++) {
        if (result == 0 && batch->hash[i] == NOBODYS)
            continue;
        if (result == 0 && batch->hash[i] != 0)
            kept->written[batch->number[i]] = batch->hash[i];
        else
            wr_usage_mark(kept->usage, batch->number[i]);
    }
    if (result == 0 && batch->count > 0) {
        flush->batches++;
        flush->rows += rows;
    }
    return result;
}

/* Scanning, all cells are seen; otherwise it is enough to know of one. */
static void note_damage(struct wr_kept *kept, const struct cell *cell, bool scan)
{
    if (!cell->damaged)
        return;
    if ((scan && kept->damaged_at == 0) || (!scan && kept->damaged == 0)) {
        kept->damaged_cell = cell->number;
        kept->damaged_day = cell->damaged_day;
    }
    if (scan)
        kept->damaged_at++;
    else if (kept->damaged == 0)
        kept->damaged = 1;
}

/* The next cell to be written: one that has changed, or, scanning, one that differs. */
static bool next_cell(const struct wr_flush *flush, struct wr_kept *kept, bool scan, uint32_t *at,
                      uint32_t *number)
{
    struct cell cell;
    bool more;

    do {
        more = scan ? wr_usage_known_next(kept->usage, at, number)
                    : wr_usage_dirty_next(kept->usage, at, number);
        if (!more)
            return false;
        read_cell(kept, *number, flush->now_ns, &cell);
        note_damage(kept, &cell, scan);
    } while (*number >= kept->room || cell.hash == kept->written[*number]);
    return true;
}

static int write_cells(struct wr_flush *flush, struct wr_kept *kept, bool scan, uint32_t *at,
                       unsigned batches)
{
    struct batch *batch = malloc(sizeof *batch);
    bool more = true;
    int result = 0;

    if (batch == NULL)
        return wr_database_refuse(flush->database, WEIR_ENOMEM, "out of memory");
    wr_usage_taking_begin(kept->usage);
    for (unsigned i = 0; result == 0 && more && i < batches; i++) {
        batch->count = 0;
        while (batch->count < WR_LEDGER_BATCH &&
               (more = next_cell(flush, kept, scan, at, &batch->number[batch->count])))
            batch->count++;
        result = write_batch(flush, kept, batch);
    }
    if (kept->compared)
        wr_usage_taking_end(kept->usage);
    free(batch);
    return result == 0 && more ? 1 : result;
}

int wr_flush_find_row(struct wr_flush *flush, struct wr_kept *kept)
{
    int64_t row;
    int result;

    if (kept->row != 0)
        return 0;
    result = wr_ledger_quota(flush->database, kept->name, kept->civil.per, kept->zone, &row);
    if (result == 0)
        result = wr_expire_since(flush->database, row, &kept->since);
    if (result == 0)
        kept->row = row;
    return result;
}

int wr_flush_changes(struct wr_flush *flush, struct wr_kept *kept, unsigned batches)
{
    uint32_t at = 0;
    int result = wr_flush_find_row(flush, kept);

    if (result == 0)
        result = write_cells(flush, kept, false, &at, batches);
    if (result == 0)
        wr_usage_set_flushed(kept->usage, (int32_t)(flush->now_ns / WR_NS_PER_DAY));
    return result;
}

int wr_flush_one(struct wr_flush *flush, struct wr_kept *kept, uint32_t number)
{
    int result = wr_flush_find_row(flush, kept);
    struct wr_ledger_batch batch;
    struct cell cell;

    if (result == 0 && number < kept->room)
        result = wr_ledger_begin(&batch, flush->database, flush->node, flush->now_ns);
    if (result != 0 || number >= kept->room)
        return result;
    read_cell(kept, number, flush->now_ns, &cell);
    result = end_batch(kept, &batch, put_cell(flush, &batch, kept, &cell));
    return result == WEIR_EAGAIN || result == WEIR_ENOENT ? 0 : result;
}

int wr_flush_scan(struct wr_flush *flush, struct wr_kept *kept, unsigned batches)
{
    int result = kept->scanning ? wr_flush_find_row(flush, kept) : 0;

    if (result != 0 || !kept->scanning)
        return result;
    result = write_cells(flush, kept, true, &kept->scan_at, batches);
    if (result == 1)
        return 1;
    if (result == 0) {
        kept->damaged = kept->damaged_at;
        kept->compared = true;
        wr_usage_taking_end(kept->usage);
    }
    kept->damaged_at = 0;
    kept->scan_at = 0;
    kept->scanning = result != 0; /* what failed is begun anew */
    return result;
}

uint64_t wr_kept_waiting(const struct wr_kept *kept, int64_t now_ns)
{
    uint32_t at = 0, number;
    uint64_t count = 0;
    struct cell cell;

    while (wr_usage_known_next(kept->usage, &at, &number)) {
        read_cell(kept, number, now_ns, &cell);
        count += number < kept->room && cell.hash != kept->written[number];
    }
    return count;
}
