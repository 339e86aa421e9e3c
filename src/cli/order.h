/* order.h - requests of a log, put into the order of their times within a bounded window. */
#ifndef WR_CLI_ORDER_H
#define WR_CLI_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/weir.h"
#include "wire/accesslog.h"

#define WR_ORDER_ITEMS_MAX ((size_t)1 << 20)   /* requests held back at a time */
#define WR_ORDER_BYTES_MAX ((size_t)256 << 20) /* and their memory */

/* One request waiting for its turn, with all that it points to. */
struct wr_item {
    struct weir_request request;
    int64_t time_ns; /* as logged */
    int64_t duration_ns;
    uint64_t line;
    uint32_t source; /* index of its file */
    int status;
    bool late; /* came after later ones had been given out */
    uint64_t sequence;
    struct wr_block *block;
    struct weir_slice fields[]; /* request.field_count of them */
};

struct wr_order;

/* |window_ns|: how much later than an item the latest one must be before it is given out. */
struct wr_order *wr_order_new(int64_t window_ns, size_t field_count);
void wr_order_free(struct wr_order *order);

/* Put in a copy of |record|. False when out of memory. */
bool wr_order_push(struct wr_order *order, const struct wr_log_record *record, uint64_t line,
                   uint32_t source);

/* The next item in the order of (time, arrival), or NULL: none is due yet. With |flush|, all are
 * due. To be given back with wr_order_done. */
struct wr_item *wr_order_pop(struct wr_order *order, bool flush);
void wr_order_done(struct wr_order *order, struct wr_item *item);

#endif
