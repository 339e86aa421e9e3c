/* known.h - is there anything by that name? A slip in a name is no report of nothing. */
#ifndef WR_METER_KNOWN_H
#define WR_METER_KNOWN_H

#include "meter/database.h"
#include "policy/policy.h"

/* Each: 1, 0, or an error of the database. */

/* A quota by customer of the policy, or of one before it that the ledger remembers. */
int wr_there_is_quota(struct wr_database *database, const struct wr_policy *policy,
                      const char *name);
/* A plan of the policy, or one that somebody has had since before it. */
int wr_there_is_plan(struct wr_database *database, const struct wr_policy *policy,
                     const char *name);
/* Anybody of that tenant, also if it has ended. */
int wr_there_is_tenant(struct wr_database *database, const char *name);

#endif
