/* ledger.h - what was used, from the cells of this host into the database.
 *
 * A row is what one customer has used of one quota in one window, as this node counted it: an
 * absolute value, so that writing it twice is writing it once. A batch is a transaction with a
 * number; each row says which one wrote it last. Over nodes, rows are added up.
 *
 * Units that were given back lower a row. Of a window of several days, usage_day has what each
 * civil day added: those rows add up to the window's to the unit; which side of midnight a unit is
 * on is known as well as flushes are frequent. */
#ifndef WR_METER_LEDGER_H
#define WR_METER_LEDGER_H

#include "meter/database.h"

#define WR_LEDGER_BATCH 4096U /* cells of a transaction: tens of milliseconds */
#define WR_LEDGER_QUOTAS_MAX 64U
/* One window of one cell. */
struct wr_ledger_entry {
    int64_t customer;
    uint32_t number; /* the customer's, of rows that were read */
    int64_t quota;   /* wr_ledger_quota */
    int32_t window;  /* its first civil day */
    int32_t day;     /* the civil day that what is new is put down to */
    bool daily;      /* the window is a day: it has no rows of usage_day */
    uint64_t used;   /* units, overage included */
    uint64_t over;   /* of them beyond the limit */
};

/* The row of this node, which the database is named by: made where there is none. */
int wr_ledger_node(struct wr_database *database, int64_t now_ns, int64_t *out);

/* The row of a quota: made where there is none. Another period makes another quota of the same
 * name. Another zone does not: windows go by the same days, which begin at other moments now. */
int wr_ledger_quota(struct wr_database *database, const char *name, uint8_t per, const char *zone,
                    int64_t *out);

/* The zone of a quota that the database knows; false: it does not. */
bool wr_ledger_quota_zone(struct wr_database *database, const char *name, uint8_t per, char *out,
                          size_t size);

/* A batch is a transaction: begin, put, end. Each returns 0 or an error of the database, after
 * which nothing of the batch is written; wr_ledger_put also WEIR_EAGAIN: there is no such customer,
 * and the batch goes on without it. */
struct wr_ledger_batch {
    struct wr_database *database;
    int64_t node, id;
    uint64_t rows;
};
int wr_ledger_begin(struct wr_ledger_batch *batch, struct wr_database *database, int64_t node,
                    int64_t now_ns);
int wr_ledger_put(struct wr_ledger_batch *batch, const struct wr_ledger_entry *entry);
int wr_ledger_end(struct wr_ledger_batch *batch);
/* This batch is of |quota|: what wr_ledger_marked gives from its end on, 0 before the first. */
int wr_ledger_mark(struct wr_ledger_batch *batch, int64_t quota);
int wr_ledger_marked(struct wr_database *database, int64_t quota, int64_t *out);
void wr_ledger_abandon(struct wr_ledger_batch *batch);

/* Each row of |node| and |quota| with a window that begins on |since| or later, the older windows
 * first. */
int wr_ledger_each(struct wr_database *database, int64_t node, int64_t quota, int32_t since,
                   bool (*each)(void *context, const struct wr_ledger_entry *entry), void *context);

#endif
