/* lease_book.h - which leases a node was granted, and by what their rest goes back to the store.
 *
 * Pure: time is passed in, and so is who gives back. A table belongs to one event loop, as those of
 * lease_size.h, and has a row for each key that can lease there. */
#ifndef WR_REMOTE_LEASE_BOOK_H
#define WR_REMOTE_LEASE_BOOK_H

#include "engine/shared.h"
#include "remote/lease_size.h"

struct wr_lease_entry {
    uint64_t key;                   /* wr_engine_lease_key; 0: none */
    struct wr_remote_charge charge; /* as the store answered it */
    int64_t since_ns, end_ns;       /* when it came; when it is over, at the latest */
    int64_t until_ns;               /* the end of what is due next: its own, or of one before it */
};

/* One key a row. All zeros at first. */
struct wr_lease_book {
    int64_t due_ns[WR_LEASE_ROWS]; /* 0: the row is empty */
    int64_t first_ns;              /* no row is due before; 0: all are empty */
    struct wr_lease_entry row[WR_LEASE_ROWS];
};

/* To the store, with units that lie in the arena no more. */
typedef void wr_lease_give_fn(void *context, const struct wr_remote_charge *charge, int64_t units);

struct wr_lease_giving {
    struct wr_engine *engine;
    int64_t now_ns;
    wr_lease_give_fn *give;
    void *context;
};

/* |charge|, asked at |asked_ns| and granted, lies in the arena as the lease |key|. Whoever is in
 * its row gives back what he has left. What |charge| points to stays while it is here. */
void wr_lease_book_add(struct wr_lease_book *book, uint64_t key,
                       const struct wr_remote_charge *charge, int64_t asked_ns,
                       const struct wr_lease_giving *to);

/* Give back what is left of the leases that are about to end, or have. Afterwards first_ns is when
 * to come again. */
void wr_lease_book_due(struct wr_lease_book *book, const struct wr_lease_giving *to);

/* Give back what is left of all of them; the book is empty then. */
void wr_lease_book_return(struct wr_lease_book *book, const struct wr_lease_giving *to);

#endif
