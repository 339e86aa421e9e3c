/* charge.c - choosing between words and lists, and the receipts of what was taken. */
#include "engine/charge.h"

#include "engine/list.h"
#include "engine/word.h"

/* A receipt: hash, the state (or the stamp) that taking left, units, class and a mark. */
enum { R_HASH, R_LEFT, R_COST, R_MARK };
#define TAKEN (UINT64_C(1) << 63)

bool wr_receipt_taken(const struct weir_receipt *receipt)
{
    return (receipt->word[R_MARK] & TAKEN) != 0;
}

int64_t wr_receipt_cost(const struct weir_receipt *receipt)
{
    return (int64_t)receipt->word[R_COST];
}

uint64_t wr_receipt_hash(const struct weir_receipt *receipt)
{
    return receipt->word[R_HASH];
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
                               .class_id = (uint16_t)(receipt->word[R_MARK] & 0xffff)};

    if (!wr_receipt_taken(receipt))
        return;
    if (wr_limit_is_word(limit))
        wr_word_refund(arena, charge, receipt->word[R_LEFT], now);
    else
        wr_list_refund(arena, &charge, (int64_t)receipt->word[R_LEFT], now);
}
