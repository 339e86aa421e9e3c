/* account.h - quotas of customers that are shared with other hosts: the store decides, and what
 * this host let through is counted in its cells besides, refusing nothing. So the ledgers of all
 * nodes add up to what was used. */
#ifndef WR_ENGINE_ACCOUNT_H
#define WR_ENGINE_ACCOUNT_H

#include "engine/engine.h"

/* |answer| lets its request pass. */
void wr_account_pass(const struct wr_engine *engine, const struct weir_answer *answer);

/* Its true cost was |cost|; answer->cost_units is what was counted. */
void wr_account_settle(const struct wr_engine *engine, const struct weir_answer *answer,
                       int64_t cost);

/* It had |status|: quotas that do not count such never counted it. */
void wr_account_ended(const struct wr_engine *engine, struct weir_answer *answer, int status);

/* Would that change anything? */
bool wr_account_awaits(const struct wr_engine *engine, const struct weir_answer *answer);

#endif
