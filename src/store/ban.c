/* ban.c - the table of bans.
 *
 * Problem. Every decision of every process asks it, nearly always of an empty table; few ever
 * change it. A process may be killed while it does, and what it had acknowledged must hold.
 *
 * Idea. A hash table of cells {fingerprint and record, end} with linear probing, each cell changed
 * by one 16-byte compare-and-swap: that is all a decision reads, but for the record's full hash,
 * which confirms a match. What people read lies in records, which are written before a cell names
 * them and not touched while one does. A change of a ban takes a fresh record and turns its cell
 * over to it. Changes happen inside the gate, one at a time.
 *
 * Invariants.
 *   1. A cell changes as a whole; between any two steps of a change, the old ban or the new one is
 *      in force, and a kill there leaves nothing to mend: a record that no cell names is free.
 *   2. A ban lies in its run: no cell between where its hash starts and it was never used (word 0).
 *      Nothing is ever moved, so who walks a run meets every ban that is in it all the while. A
 *      cell without a ban becomes one never used only when the next one is.
 *   3. The summary never knows less than the table: it grows before a ban is put, and shrinks after
 *      one is lifted.
 *   4. A run has at most WR_BAN_PROBES_MAX cells: a ban that would need more is refused.
 *
 * Rejected: buckets of eight (one is full when the table is half full); moving bans back when one
 * before them goes (who walks the run meanwhile misses them); chains (a kill half-way through a
 * change of a link needs a repair that decisions would wait for). */
#include "store/ban.h"

#include <string.h>

#include "store/ban_cells.h"
#include "store/claim.h"
#include "store/crash_point.h"

static_assert(WR_BANS_MAX == WR_CLASS_MASK + 1, "a cell names any record");
static_assert(sizeof((struct wr_ban_summary){0}.prefixes) == WR_BAN_PREFIX_WORDS * sizeof(uint64_t),
              "");

/* ---- reading ------------------------------------------------------------------------------- */

/* Does |cell| hold |hash|? |seen|: what was in it then. The end was the caller's when the word is
 * the same before and after all else was read. */
static bool holds(const struct wr_arena *arena, const struct wr_slot *cell, uint64_t hash,
                  struct wr_slot *seen)
{
    for (int i = 0; i < WR_BAN_READ_TRIES && wr_slot_same_key(seen->word, hash); i++) {
        const struct wr_ban_record *record = wr_ban_record_of(arena, seen->word);
        bool same = record != NULL && WR_LOAD(&record->hash) == hash;
        uint64_t again;

        seen->state = WR_LOAD(&cell->state);
        again = WR_LOAD(&cell->word);
        if (again == seen->word)
            return same;
        seen->word = again;
    }
    return false;
}

struct wr_slot *wr_ban_find(const struct wr_arena *arena, uint64_t hash, int64_t now_ns,
                            struct wr_slot *seen)
{
    uint32_t start = wr_ban_start(arena, hash), probes = wr_ban_probes(arena);

    for (uint32_t i = 0; i < probes; i++) {
        struct wr_slot *cell = wr_ban_cell(arena, start, i);

        seen->word = WR_LOAD(&cell->word);
        if (seen->word == 0)
            break;
        if (holds(arena, cell, hash, seen) && wr_ban_is_live(seen->state, now_ns))
            return cell;
    }
    *seen = (struct wr_slot){0, 0};
    return NULL;
}

int64_t wr_ban_until(const struct wr_arena *arena, uint64_t hash, int64_t now_ns)
{
    struct wr_slot seen;

    return wr_ban_find(arena, hash, now_ns, &seen) != NULL ? (int64_t)seen.state : 0;
}

/* Copy out a record. False: it is being written, is not of |hash_word|'s caller, or is damaged. */
static bool read_record(const struct wr_ban_record *record, uint64_t hash_word, uint64_t *hash,
                        struct wr_ban_text *text)
{
    uint64_t words[WR_BAN_TEXT_WORDS], sequence = WR_LOAD(&record->sequence);

    *hash = WR_LOAD(&record->hash);
    for (size_t i = 0; i < WR_BAN_TEXT_WORDS; i++)
        words[i] = WR_LOAD(&record->text[i]);
    memcpy(text, words, sizeof *text);
    return (sequence & 1) != 0 && WR_LOAD(&record->sequence) == sequence &&
           wr_slot_same_key(hash_word, *hash) && text->prefix <= 128 &&
           text->name_len <= WR_BAN_NAME_MAX && text->reason_len <= WR_BAN_REASON_MAX &&
           (text->kind == WR_BAN_NET || text->kind == WR_BAN_VALUE);
}

bool wr_ban_read(const struct wr_arena *arena, const struct wr_slot *cell, int64_t now_ns,
                 struct wr_ban *out)
{
    struct wr_ban_text text;

    memset(out, 0, sizeof *out);
    for (int i = 0; i < WR_BAN_READ_TRIES; i++) {
        uint64_t word = WR_LOAD(&cell->word), state = WR_LOAD(&cell->state);
        const struct wr_ban_record *record = wr_ban_record_of(arena, word);
        bool read = record != NULL && read_record(record, word, &out->hash, &text);

        if (WR_LOAD(&cell->word) != word)
            continue;
        if (!read || !wr_ban_is_live(state, now_ns))
            return false;
        out->until_ns = (int64_t)state;
        out->since_ns = text.since_ns;
        out->kind = text.kind;
        memcpy(out->net.ip.bytes, text.ip, sizeof text.ip);
        out->net.prefix = text.prefix;
        out->name_len = text.name_len;
        out->reason_len = text.reason_len;
        memcpy(out->name, text.name, sizeof out->name);
        memcpy(out->reason, text.reason, sizeof out->reason);
        return true;
    }
    return false;
}

bool wr_ban_get(const struct wr_arena *arena, uint64_t hash, int64_t now_ns, struct wr_ban *out)
{
    struct wr_slot seen;
    const struct wr_slot *cell = wr_ban_find(arena, hash, now_ns, &seen);

    memset(out, 0, sizeof *out);
    return cell != NULL && wr_ban_read(arena, cell, now_ns, out) && out->hash == hash;
}

bool wr_ban_next(const struct wr_arena *arena, int64_t now_ns, uint32_t *at, struct wr_ban *out)
{
    while (*at < wr_ban_cell_count(arena))
        if (wr_ban_read(arena, &arena->ban_cells[(*at)++], now_ns, out))
            return true;
    memset(out, 0, sizeof *out);
    return false;
}

/* One record is spare, for changes; number 0 is never used. */
size_t wr_ban_room(const struct wr_arena *arena)
{
    return arena->ban_count - 2;
}

/* ---- inside the gate ----------------------------------------------------------------------- */

/* What is in the table. */
struct survey {
    struct wr_ban_summary summary;
    uint64_t named[WR_BANS_MAX / 64]; /* bit: some cell names this record */
};

static void note(struct wr_ban_summary *summary, uint8_t kind, uint8_t prefix)
{
    summary->count++;
    if (kind == WR_BAN_VALUE)
        summary->values = 1;
    else
        summary->prefixes[prefix / 64] |= UINT64_C(1) << (prefix % 64);
}

/* Look at all cells; forget bans that have ended by |ended_ns|. */
static void take_survey(struct wr_arena *arena, int64_t ended_ns, struct survey *survey)
{
    memset(survey, 0, sizeof *survey);
    for (uint32_t i = 0; i < wr_ban_cell_count(arena); i++) {
        struct wr_slot *cell = &arena->ban_cells[i];
        const struct wr_slot seen = {WR_LOAD(&cell->word), WR_LOAD(&cell->state)};
        uint64_t number = seen.word & WR_CLASS_MASK;
        struct wr_ban ban;

        if (seen.word == 0 || seen.state == 0)
            continue;
        if (!wr_ban_is_live(seen.state, ended_ns)) {
            (void)wr_ban_set(cell, &seen, seen.word, 0);
            WR_CRASH_POINT("ban: ended one forgotten");
            continue;
        }
        survey->named[number / 64] |= UINT64_C(1) << (number % 64);
        if (wr_ban_read(arena, cell, ended_ns, &ban))
            note(&survey->summary, ban.kind, ban.net.prefix);
        else
            survey->summary.count++; /* damaged: for the checker */
    }
}

static void shorten_runs_once(struct wr_arena *arena)
{
    for (uint32_t i = wr_ban_cell_count(arena); i-- > 0;) {
        struct wr_slot *cell = wr_ban_cell(arena, i, 0);
        const struct wr_slot seen = {WR_LOAD(&cell->word), WR_LOAD(&cell->state)};

        if (seen.word != 0 && seen.state == 0 && WR_LOAD(&wr_ban_cell(arena, i, 1)->word) == 0) {
            (void)wr_ban_set(cell, &seen, 0, 0);
            WR_CRASH_POINT("ban: run shortened");
        }
    }
}

/* Cells without a ban at the end of a run were as good as never used. Twice around, as a run may
 * lie across the end. */
static void shorten_runs(struct wr_arena *arena)
{
    shorten_runs_once(arena);
    shorten_runs_once(arena);
}

static void write_summary(struct wr_arena *arena, const struct wr_ban_summary *summary)
{
    struct wr_ban_summary *to = &arena->header->bans;

    WR_STORE(&to->values, summary->values);
    for (unsigned i = 0; i < WR_BAN_PREFIX_WORDS; i++)
        WR_STORE(&to->prefixes[i], summary->prefixes[i]);
    WR_CRASH_POINT("ban: half a summary");
    WR_STORE(&to->count, summary->count);
}

void wr_ban_summarise(struct wr_arena *arena)
{
    struct survey survey;

    take_survey(arena, WR_BAN_EVER, &survey);
    write_summary(arena, &survey.summary);
}

/* A record that no cell names; 0: none. */
static uint32_t free_record(const struct wr_arena *arena, const struct survey *survey)
{
    for (uint32_t number = 1; number < arena->ban_count; number++)
        if ((survey->named[number / 64] >> (number % 64) & 1) == 0)
            return number;
    return 0;
}

static void write_record(struct wr_ban_record *record, const struct wr_ban *ban)
{
    struct wr_ban_text text;
    uint64_t words[WR_BAN_TEXT_WORDS];

    memset(&text, 0, sizeof text);
    text.since_ns = ban->since_ns;
    memcpy(text.ip, ban->net.ip.bytes, sizeof text.ip);
    text.kind = ban->kind;
    text.prefix = ban->net.prefix;
    text.name_len = ban->name_len;
    text.reason_len = ban->reason_len;
    memcpy(text.name, ban->name, ban->name_len);
    memcpy(text.reason, ban->reason, ban->reason_len);
    memcpy(words, &text, sizeof words);
    /* Even meanwhile, and a full barrier: nobody takes a new word for one of the old record. */
    (void)__atomic_fetch_and(&record->sequence, ~UINT64_C(1), __ATOMIC_SEQ_CST);
    WR_STORE(&record->hash, ban->hash);
    WR_CRASH_POINT("ban: half a record");
    for (size_t i = 0; i < WR_BAN_TEXT_WORDS; i++)
        WR_STORE(&record->text[i], words[i]);
    WR_STORE(&record->sequence, (WR_LOAD(&record->sequence) | 1) + 2);
    WR_CRASH_POINT("ban: record written");
}

struct wr_slot *wr_ban_vacancy(const struct wr_arena *arena, uint64_t hash, int64_t now_ns)
{
    uint32_t start = wr_ban_start(arena, hash), probes = wr_ban_probes(arena);

    for (uint32_t i = 0; i < probes; i++) {
        struct wr_slot *cell = wr_ban_cell(arena, start, i);
        if (WR_LOAD(&cell->word) == 0 || !wr_ban_is_live(WR_LOAD(&cell->state), now_ns))
            return cell;
    }
    return NULL;
}

static int put(struct wr_arena *arena, const struct wr_ban *ban, int64_t now_ns)
{
    struct survey survey;
    struct wr_slot *cell, seen;
    uint32_t number;

    take_survey(arena, now_ns, &survey);
    shorten_runs(arena);
    write_summary(arena, &survey.summary);
    cell = wr_ban_find(arena, ban->hash, now_ns, &seen);
    if (cell == NULL && survey.summary.count >= wr_ban_room(arena))
        return WEIR_EFULL;
    if (cell == NULL) {
        cell = wr_ban_vacancy(arena, ban->hash, now_ns);
        if (cell == NULL)
            return WEIR_EFULL;
        seen = (struct wr_slot){WR_LOAD(&cell->word), WR_LOAD(&cell->state)};
    }
    number = free_record(arena, &survey);
    if (number == 0)
        return WEIR_EFULL;
    write_record(&arena->ban_records[number], ban);
    note(&survey.summary, ban->kind, ban->net.prefix);
    write_summary(arena, &survey.summary);
    if (!wr_ban_set(cell, &seen, wr_slot_word(ban->hash, (uint16_t)number),
                    (uint64_t)ban->until_ns))
        return WEIR_EBUSY; /* somebody writes outside of the gate */
    WR_CRASH_POINT("ban: cell changed");
    return 0;
}

static int lift(struct wr_arena *arena, uint64_t hash, int64_t now_ns)
{
    struct survey survey;
    struct wr_slot seen, *cell = wr_ban_find(arena, hash, now_ns, &seen);

    if (cell == NULL)
        return WEIR_ENOENT;
    if (!wr_ban_set(cell, &seen, seen.word, 0))
        return WEIR_EBUSY;
    WR_CRASH_POINT("lift: cell changed");
    take_survey(arena, now_ns, &survey);
    shorten_runs(arena);
    write_summary(arena, &survey.summary);
    return 0;
}

/* ---- changing ------------------------------------------------------------------------------ */

/* A child needs its own claim first: a lock on its parent's open file keeps nobody out. */
static int enter(struct wr_arena *arena)
{
    if (arena->read_only)
        return WEIR_EINVAL;
    if (wr_claim_owner(arena) == 0)
        return WEIR_EFULL;
    return wr_gate_enter(arena);
}

static bool is_sane(const struct wr_ban *ban, int64_t now_ns)
{
    return ban->until_ns > now_ns && ban->until_ns > 0 && ban->net.prefix <= 128 &&
           ban->name_len <= WR_BAN_NAME_MAX && ban->reason_len <= WR_BAN_REASON_MAX &&
           (ban->kind == WR_BAN_NET || ban->kind == WR_BAN_VALUE);
}

int wr_ban_put(struct wr_arena *arena, const struct wr_ban *ban, int64_t now_ns)
{
    int rc = is_sane(ban, now_ns) ? enter(arena) : WEIR_EINVAL;

    if (rc != 0)
        return rc;
    rc = put(arena, ban, now_ns);
    wr_gate_leave(arena);
    return rc;
}

int wr_ban_lift(struct wr_arena *arena, uint64_t hash, int64_t now_ns)
{
    int rc = enter(arena);

    if (rc != 0)
        return rc;
    rc = lift(arena, hash, now_ns);
    wr_gate_leave(arena);
    return rc;
}
