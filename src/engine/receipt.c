/* receipt.c - what was taken, in words. */
#include "engine/receipt.h"

#include <string.h>

#include "engine/backend.h"
#include "engine/charge.h"

/* A receipt: hash, the state (or the stamp) that taking left, units, class and marks. Of what was
 * taken at a store: the tag, the place (of a quota, which has none, the count before), marks with
 * the units, and the store's own two words. From a cell: customer and day, -, units, marks,
 * overage. */
enum { R_HASH, R_LEFT, R_COST, R_MARK, R_STORE };
enum { R_TAG = R_HASH, R_PLACE = R_COST, R_BEFORE = R_COST, R_CELL = R_HASH, R_OVER = R_STORE };
#define TAKEN (UINT64_C(1) << 63)
#define REMOTE (UINT64_C(1) << 62)
#define PART (UINT64_C(1) << 61)
#define CELL (UINT64_C(1) << 60)
#define UNITS_MASK (CELL - 1)

static_assert(sizeof(struct weir_receipt) == 6 * sizeof(uint64_t) && WR_TAG_BYTES == 16, "");

bool wr_receipt_taken(const struct weir_receipt *receipt)
{
    return (receipt->word[R_MARK] & TAKEN) != 0;
}

int64_t wr_receipt_cost(const struct weir_receipt *receipt)
{
    return (int64_t)receipt->word[R_COST];
}

void wr_receipt_set_cost(struct weir_receipt *receipt, int64_t cost)
{
    receipt->word[R_COST] = (uint64_t)cost;
}

uint64_t wr_receipt_left(const struct weir_receipt *receipt)
{
    return receipt->word[R_LEFT];
}

uint64_t wr_receipt_hash(const struct weir_receipt *receipt)
{
    return receipt->word[R_HASH];
}

void wr_receipt_mark_part(struct weir_receipt *receipt)
{
    receipt->word[R_MARK] |= PART;
}

bool wr_receipt_is_part(const struct weir_receipt *receipt)
{
    return (receipt->word[R_MARK] & PART) != 0;
}

uint16_t wr_receipt_class(const struct weir_receipt *receipt)
{
    return (uint16_t)(receipt->word[R_MARK] & 0xffff);
}

void wr_receipt_write_remote(struct weir_receipt *receipt, const struct wr_remote_charge *charge)
{
    memcpy(&receipt->word[R_TAG], charge->tag, WR_TAG_BYTES);
    receipt->word[R_PLACE] = charge->place;
    receipt->word[R_MARK] = TAKEN | REMOTE | (uint64_t)charge->cost;
    memcpy(&receipt->word[R_STORE], charge->receipt, sizeof charge->receipt);
}

bool wr_receipt_is_remote(const struct weir_receipt *receipt)
{
    return (receipt->word[R_MARK] & REMOTE) != 0;
}

void wr_receipt_read_remote(const struct weir_receipt *receipt, struct wr_remote_charge *charge)
{
    memcpy(charge->tag, &receipt->word[R_TAG], WR_TAG_BYTES);
    charge->place = receipt->word[R_PLACE];
    charge->cost = (int64_t)(receipt->word[R_MARK] & UNITS_MASK);
    memcpy(charge->receipt, &receipt->word[R_STORE], sizeof charge->receipt);
}

void wr_receipt_set_remote_cost(struct weir_receipt *receipt, int64_t cost)
{
    receipt->word[R_MARK] = (receipt->word[R_MARK] & ~UNITS_MASK) | (uint64_t)cost;
}

void wr_receipt_set_before(struct weir_receipt *receipt, int64_t units)
{
    receipt->word[R_BEFORE] = (uint64_t)units;
}

int64_t wr_receipt_before(const struct weir_receipt *receipt)
{
    return (int64_t)receipt->word[R_BEFORE];
}

void wr_receipt_clear(struct weir_receipt *receipt)
{
    *receipt = (struct weir_receipt){{0}};
}

void wr_charge_receipt(const struct wr_charge *charge, uint64_t state, struct weir_receipt *receipt)
{
    if (receipt != NULL)
        *receipt = (struct weir_receipt){
            {charge->hash, state, (uint64_t)charge->cost, TAKEN | charge->class_id}};
}

void wr_receipt_write_cell(struct weir_receipt *receipt, uint32_t number, int32_t day,
                           int64_t units, int64_t over_units)
{
    wr_receipt_clear(receipt);
    receipt->word[R_CELL] = (uint64_t)number << 32 | (uint32_t)day;
    receipt->word[R_COST] = (uint64_t)units;
    receipt->word[R_OVER] = (uint64_t)over_units;
    receipt->word[R_MARK] = TAKEN | CELL;
}

bool wr_receipt_is_cell(const struct weir_receipt *receipt)
{
    return (receipt->word[R_MARK] & (CELL | REMOTE)) == CELL;
}

struct wr_cell_receipt wr_receipt_read_cell(const struct weir_receipt *receipt)
{
    return (struct wr_cell_receipt){.number = (uint32_t)(receipt->word[R_CELL] >> 32),
                                    .day = (int32_t)(uint32_t)receipt->word[R_CELL],
                                    .units = (int64_t)receipt->word[R_COST],
                                    .over_units = (int64_t)receipt->word[R_OVER]};
}
