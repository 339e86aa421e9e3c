/* ledger.c - see ledger.h. To spend what ends first leaves most for later: where that fails, every
 * other way would have failed. */
#include "ledger.h"

#include <stddef.h>

static void forget_ended(struct ledger *ledger, int64_t now_ns)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < ledger->count; i++)
        if (ledger->row[i].end_ns > now_ns && ledger->row[i].units > 0)
            ledger->row[kept++] = ledger->row[i];
    ledger->count = kept;
}

void ledger_add(struct ledger *ledger, struct granted granted, int64_t now_ns)
{
    ledger->turns++;
    ledger->left += granted.units;
    forget_ended(ledger, now_ns);
    if (ledger->count < LEDGER_ROWS) {
        ledger->row[ledger->count++] = granted;
        return;
    }
    /* Together with the last one, under the later end: generous. */
    ledger->row[LEDGER_ROWS - 1].units += granted.units;
    if (granted.end_ns > ledger->row[LEDGER_ROWS - 1].end_ns)
        ledger->row[LEDGER_ROWS - 1].end_ns = granted.end_ns;
}

static struct granted *first(struct ledger *ledger)
{
    struct granted *first = NULL;

    for (unsigned i = 0; i < ledger->count; i++)
        if (ledger->row[i].units > 0 && (first == NULL || ledger->row[i].end_ns < first->end_ns))
            first = &ledger->row[i];
    return first;
}

static void note(struct spent *spent, struct granted piece)
{
    struct granted *last = spent->count > 0 ? &spent->piece[spent->count - 1] : NULL;

    if (spent->count < PIECES) {
        spent->piece[spent->count++] = piece;
    } else {
        last->units += piece.units;
        last->end_ns = piece.end_ns; /* the later */
    }
}

bool ledger_spend(struct ledger *ledger, int64_t units, int64_t now_ns, struct spent *spent)
{
    forget_ended(ledger, now_ns);
    spent->count = 0;
    spent->at_ns = now_ns;
    spent->turn = ++ledger->turns;
    while (units > 0) {
        struct granted *from = first(ledger), piece;
        if (from == NULL)
            return false;
        piece = *from;
        if (piece.units > units)
            piece.units = units;
        from->units -= piece.units;
        units -= piece.units;
        ledger->left -= piece.units;
        note(spent, piece);
    }
    return true;
}

bool ledger_return(struct ledger *ledger, int64_t units, int64_t now_ns)
{
    int64_t live = ledger_units(ledger, now_ns);
    struct spent spent;

    (void)ledger_spend(ledger, units < live ? units : live, now_ns, &spent);
    ledger->left -= units < live ? 0 : units - live;
    return ledger->left >= 0;
}

int64_t ledger_units(const struct ledger *ledger, int64_t now_ns)
{
    int64_t units = 0;

    for (unsigned i = 0; i < ledger->count; i++)
        if (ledger->row[i].end_ns > now_ns)
            units += ledger->row[i].units;
    return units;
}
