/* lease_book.c - see lease_book.h.
 *
 * Problem. A caller comes in a spell and goes: what it leaves of its last lease is void in the
 * arena after a second, and used at the store for the rest of the window. Of a quota that is sold
 * by the month, each spell costs the customer some of what he has paid for.
 *
 * Idea. Every lease is written down with its end. Shortly before that what is left is taken out of
 * the arena and given back, and once more when it is over: a request that was under way may have
 * put back what it did not need, and this may come late. As that is nobody's request, nobody waits
 * for it; a key that is busy has spent its lease by then, and its row says the next one's end.
 *
 * Invariants:
 *   1. What is given back was taken out of the arena first (lease_collect.c): each unit once. What
 *      is lost on its way to the store stays counted there.
 *   2. A row's units are of one window, that of its receipt, as a lease ends with its window. So
 *      what comes late is of a window that is over, where giving back does nothing.
 *   3. Who loses his row has not asked lately (lease_size.c, invariant 4): he gives back at once.
 *   4. The clock may be set back, but no lease ends later than WR_LEASE_TTL_MAX_NS from now.
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

static void give(const struct wr_lease_entry *row, const struct wr_lease_giving *to)
{
    int64_t units =
        wr_engine_lease_collect(to->engine, row->key, row->since_ns, row->end_ns, to->now_ns);

    if (units > 0)
        to->give(to->context, &row->charge, units);
}

void wr_lease_book_add(struct wr_lease_book *book, uint64_t key,
                       const struct wr_remote_charge *charge, int64_t asked_ns,
                       const struct wr_lease_giving *to)
{
    uint64_t i = key % WR_LEASE_ROWS;
    struct wr_lease_entry *row = &book->row[i];
    int64_t lasts_ns = wr_min_i64(charge->lease_ns, WR_LEASE_TTL_MAX_NS);
    int64_t due_ns = asked_ns + lasts_ns - lasts_ns / LEAD_PART;

    if (book->due_ns[i] != 0 && row->key != key)
        give(row, to);
    else if (book->due_ns[i] > to->now_ns) /* they lie together, until the earlier end */
        due_ns = wr_min_i64(due_ns, book->due_ns[i]);
    *row = (struct wr_lease_entry){
        .key = key, .charge = *charge, .since_ns = to->now_ns, .end_ns = asked_ns + lasts_ns};
    note(book, i, due_ns);
}

static bool is_ahead(int64_t moment_ns, int64_t now_ns)
{
    return moment_ns > now_ns && moment_ns - now_ns <= 2 * WR_LEASE_TTL_MAX_NS;
}

void wr_lease_book_due(struct wr_lease_book *book, const struct wr_lease_giving *to)
{
    book->first_ns = 0;
    for (uint64_t i = 0; i < WR_LEASE_ROWS; i++) {
        const struct wr_lease_entry *row = &book->row[i];
        int64_t due_ns = book->due_ns[i];

        if (due_ns != 0 && !is_ahead(due_ns, to->now_ns)) {
            give(row, to);
            due_ns = is_ahead(row->end_ns, to->now_ns) ? row->end_ns : 0;
        }
        note(book, i, due_ns);
    }
}

void wr_lease_book_return(struct wr_lease_book *book, const struct wr_lease_giving *to)
{
    for (uint64_t i = 0; i < WR_LEASE_ROWS; i++) {
        if (book->due_ns[i] != 0)
            give(&book->row[i], to);
        book->due_ns[i] = 0;
    }
    book->first_ns = 0;
}
