/* charge.c - choosing between words and lists, and the receipts of what was taken. */
#include "engine/charge.h"

#include <string.h>

#include "engine/backend.h"
#include "engine/list.h"
#include "engine/word.h"

/* A receipt: hash, the state (or the stamp) that taking left, units, class and marks. Of what was
 * taken at a store: the tag, the place, marks with the units, and the store's own two words. */
enum { R_HASH, R_LEFT, R_COST, R_MARK, R_STORE };
enum { R_TAG = R_HASH, R_PLACE = R_COST };
#define TAKEN (UINT64_C(1) << 63)
#define REMOTE (UINT64_C(1) << 62)
#define PART (UINT64_C(1) << 61)
#define UNITS_MASK (PART - 1)

static_assert(sizeof(struct weir_receipt) == 6 * 8 && WR_TAG_BYTES == 16, "");

bool wr_receipt_taken(const struct weir_receipt *receipt)
{
    return (receipt->word[R_MARK] & TAKEN) != 0;
}

int64_t wr_receipt_cost(const struct weir_receipt *receipt)
{
    return (int64_t)receipt->word[R_COST];
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

void wr_receipt_clear(struct weir_receipt *receipt)
{
    *receipt = (struct weir_receipt){{0}};
}

static void write_receipt(struct weir_receipt *receipt, const struct wr_charge *charge,
                          uint64_t left)
{
    if (receipt != NULL)
        *receipt = (struct weir_receipt){
            {charge->hash, left, (uint64_t)charge->cost, TAKEN | charge->class_id}};
}

void wr_charge_receipt(const struct wr_charge *charge, uint64_t state, struct weir_receipt *receipt)
{
    write_receipt(receipt, charge, state);
}

void wr_charge_evaluate(struct wr_arena *arena, struct wr_charge *charge, int64_t now)
{
    if (wr_limit_is_word(charge->limit))
        wr_word_evaluate(arena, charge, now);
    else
        wr_list_evaluate(arena, charge, now);
}

void wr_charge_commit(struct wr_arena *arena, struct wr_charge *charge, int64_t now,
                      struct weir_receipt *receipt)
{
    int64_t stamp;

    if (receipt != NULL)
        wr_receipt_clear(receipt);
    if (wr_limit_is_word(charge->limit)) {
        if (wr_word_commit(arena, charge, now))
            write_receipt(receipt, charge, charge->take.state);
    } else if (wr_list_commit(arena, charge, now, &stamp)) {
        write_receipt(receipt, charge, (uint64_t)stamp);
    }
}

void wr_charge_force(struct wr_arena *arena, const struct wr_charge *charge, int64_t now)
{
    if (wr_limit_is_word(charge->limit))
        wr_word_force(arena, *charge, now);
    else
        wr_list_force(arena, charge, now);
}

void wr_charge_refund(struct wr_arena *arena, const struct wr_limit *limit,
                      const struct weir_receipt *receipt, int64_t cost, int64_t now)
{
    struct wr_charge charge = {.limit = limit,
                               .hash = receipt->word[R_HASH],
                               .cost = cost,
                               .class_id = wr_receipt_class(receipt)};

    if (!wr_receipt_taken(receipt))
        return;
    if (wr_limit_is_word(limit))
        wr_word_refund(arena, charge, receipt->word[R_LEFT], now);
    else
        wr_list_refund(arena, &charge, (int64_t)receipt->word[R_LEFT], now);
}
