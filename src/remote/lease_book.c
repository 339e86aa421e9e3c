/* lease_book.c - see lease_book.h.
 *
 * Problem. A caller comes in a spell and goes: what it leaves of its last lease is void in the
 * arena after a second, and used at the store for the rest of the window. Of a quota that is sold
 * by the month, each spell costs the customer some of what he has paid for.
 *
 * Idea. Every lease is written down with its end. Shortly before that what is left is taken out of
 * the arena and given back, and once more when it is over: a request that was under way may have
 * put back what it did not need, and this may come late. As that is nobody's request, nobody waits
 * for it. A key that is busy has spent its lease by then, and has another: that one stays until its
 * own end, unless it lies with a rest of the first, under the first one's.
 *
 * Invariants:
 *   1. What is given back was taken out of the arena first (lease_collect.c): each unit once. What
 *      is lost on its way to the store stays counted there.
 *   2. A row's units are of one window, that of its receipt, as a lease ends with its window. So
 *      what comes late is of a window that is over, where giving back does nothing.
 *   3. Who loses his row has not asked lately (lease_size.c, invariant 4): he gives back at once.
 *   4. A lease that came before another ended is due at both ends, and what is taken at the first
 * is what ends then: a key that is busy is not asked for more often than its leases last.
 *   5. The clock may be set back, but no lease ends later than WR_LEASE_TTL_MAX_NS from now.
 *
 * Rejected: a heap of ends (a busy key would move in it with each lease; a look at all rows is 32
 * KiB, and is due about as often as a lease lasts); giving back as soon as a key is silent (it has
 * half a second to come back, and would pay a question for that). */
#include "remote/lease_book.h"

#include "algo/lease.h"

#define LEAD_PART 16 /* so much of a lease is left when its rest is taken out */

static void note(struct wr_lease_book *book, uint64_t i, int64_t due_ns)
{
    book->due_ns[i] = due_ns;
    if (due_ns != 0 && (book->first_ns == 0 || due_ns < book->first_ns))
        book->first_ns = due_ns;
}

static void give(const struct wr_lease_entry *row, int64_t end_ns, const struct wr_lease_giving *to)
{
    int64_t units =
        wr_engine_lease_collect(to->engine, row->key, row->since_ns, end_ns, to->now_ns);

    if (units > 0)
        to->give(to->context, &row->charge, units);
}

/* Shortly before it ends. */
static int64_t due_of(const struct wr_lease_entry *row)
{
    return row->end_ns - (row->end_ns - row->since_ns) / LEAD_PART;
}

void wr_lease_book_add(struct wr_lease_book *book, uint64_t key,
                       const struct wr_remote_charge *charge, int64_t asked_ns,
                       const struct wr_lease_giving *to)
{
    uint64_t i = key % WR_LEASE_ROWS;
    struct wr_lease_entry *row = &book->row[i];
    int64_t end_ns = asked_ns + wr_min_i64(charge->lease_ns, WR_LEASE_TTL_MAX_NS);
    struct wr_lease_entry lease = {.key = key,
                                   .charge = *charge,
                                   .since_ns = to->now_ns,
                                   .end_ns = end_ns,
                                   .until_ns = end_ns};
    int64_t due_ns = due_of(&lease);

    if (book->due_ns[i] != 0 && row->key != key) {
        give(row, row->end_ns, to);
    } else if (book->due_ns[i] > to->now_ns && book->due_ns[i] < due_ns) {
        due_ns = book->due_ns[i];
        lease.until_ns = row->until_ns;
    }
    *row = lease;
    note(book, i, due_ns);
}

static bool is_ahead(int64_t moment_ns, int64_t now_ns)
{
    return moment_ns > now_ns && moment_ns - now_ns <= 2 * WR_LEASE_TTL_MAX_NS;
}

/* Give back what is left of what is due in |row|. Returns when it is due next; 0: never. */
static int64_t settle(struct wr_lease_entry *row, const struct wr_lease_giving *to)
{
    bool is_over = !is_ahead(row->end_ns, to->now_ns);
    int64_t until_ns = row->until_ns;

    give(row, is_over ? row->end_ns : until_ns, to);
    row->until_ns = row->end_ns;
    if (is_over)
        return 0;
    if (until_ns < row->end_ns && is_ahead(due_of(row), to->now_ns))
        return due_of(row);
    return row->end_ns;
}

void wr_lease_book_due(struct wr_lease_book *book, const struct wr_lease_giving *to)
{
    book->first_ns = 0;
    for (uint64_t i = 0; i < WR_LEASE_ROWS; i++) {
        int64_t due_ns = book->due_ns[i];

        if (due_ns != 0 && !is_ahead(due_ns, to->now_ns))
            due_ns = settle(&book->row[i], to);
        note(book, i, due_ns);
    }
}

void wr_lease_book_return(struct wr_lease_book *book, const struct wr_lease_giving *to)
{
    for (uint64_t i = 0; i < WR_LEASE_ROWS; i++) {
        if (book->due_ns[i] != 0)
            give(&book->row[i], book->row[i].end_ns, to);
        book->due_ns[i] = 0;
    }
    book->first_ns = 0;
}
