/* charge.c - choosing between words and lists. */
#include "engine/charge.h"

#include "engine/list.h"
#include "engine/word.h"

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
            wr_charge_receipt(charge, charge->take.state, receipt);
    } else if (wr_list_commit(arena, charge, now, &stamp)) {
        wr_charge_receipt(charge, (uint64_t)stamp, receipt);
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
                               .hash = wr_receipt_hash(receipt),
                               .cost = cost,
                               .class_id = wr_receipt_class(receipt)};

    if (!wr_receipt_taken(receipt))
        return;
    if (wr_limit_is_word(limit))
        wr_word_refund(arena, charge, wr_receipt_left(receipt), now);
    else
        wr_list_refund(arena, &charge, (int64_t)wr_receipt_left(receipt), now);
}
