/* receipt.h - what was taken, from where, in the opaque words of a struct weir_receipt: so that it
 * can be given back exactly. All zeros: nothing was taken. */
#ifndef WR_ENGINE_RECEIPT_H
#define WR_ENGINE_RECEIPT_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/weir.h"

struct wr_charge;
struct wr_remote_charge;

/* A receipt for charge->cost units that left |state| (of a word), for giving back what was taken by
 * others. */
void wr_charge_receipt(const struct wr_charge *charge, uint64_t state,
                       struct weir_receipt *receipt);

/* Mark the receipt of a charge against a part of a limit (part.h): its class says of which. */
void wr_receipt_mark_part(struct weir_receipt *receipt);
bool wr_receipt_is_part(const struct weir_receipt *receipt);
uint16_t wr_receipt_class(const struct weir_receipt *receipt);

/* What was taken at a store: |charge| says how to give it back. */
void wr_receipt_write_remote(struct weir_receipt *receipt, const struct wr_remote_charge *charge);
bool wr_receipt_is_remote(const struct weir_receipt *receipt);
/* Fills tag, cost, place and receipt of |charge|. */
void wr_receipt_read_remote(const struct weir_receipt *receipt, struct wr_remote_charge *charge);
void wr_receipt_set_remote_cost(struct weir_receipt *receipt, int64_t cost); /* settled */

/* Of a quota's units taken at a store: how many others had been counted before them. */
void wr_receipt_set_before(struct weir_receipt *receipt, int64_t units);
int64_t wr_receipt_before(const struct weir_receipt *receipt);

/* What a receipt says. */
bool wr_receipt_taken(const struct weir_receipt *receipt);
int64_t wr_receipt_cost(const struct weir_receipt *receipt);
void wr_receipt_set_cost(struct weir_receipt *receipt, int64_t cost); /* settled */
uint64_t wr_receipt_left(const struct weir_receipt *receipt);         /* the state, or the stamp */
uint64_t wr_receipt_hash(const struct weir_receipt *receipt);
void wr_receipt_clear(struct weir_receipt *receipt);

/* What was taken from a quota's cell. */
struct wr_cell_receipt {
    uint32_t number; /* of the customer */
    int32_t day;     /* of the window */
    int64_t units;   /* taken, those beyond the limit included: */
    int64_t over_units;
};
void wr_receipt_write_cell(struct weir_receipt *receipt, uint32_t number, int32_t day,
                           int64_t units, int64_t over_units);
bool wr_receipt_is_cell(const struct weir_receipt *receipt);
struct wr_cell_receipt wr_receipt_read_cell(const struct weir_receipt *receipt);

#endif
