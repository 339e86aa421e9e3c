/* upgrade.h - customers whom a quota moves to the next plan only when somebody else says yes
 * (customers.confirm_upgrade): asked by webhook.h, answered here, each in one transaction with its
 * line of the audit log.
 *
 * A no holds for a day, or until the customer's plan is another; so does a question that nobody
 * answered until it was given up. */
#ifndef WR_METER_UPGRADE_H
#define WR_METER_UPGRADE_H

#include "base/units.h"
#include "meter/alert.h"

#define WR_UPGRADE_REST_NS WR_NS_PER_DAY /* between two questions about one customer */

/* Customer |id|, who is on plan |from|, has used a quota up and is to move to |to|: to be asked.
 * Nothing where it is being asked, or the answer was no, or none, not long ago. 0, WEIR_ENOENT, or
 * an error of the database. */
int wr_upgrade_ask(struct wr_database *database, int64_t id, const char *from, const char *to,
                   const struct wr_author *author);

/* The answer to |asked| is yes: the customer moves, if it is still on that plan. */
int wr_upgrade_confirm(struct wr_database *database, const struct wr_alert *asked,
                       const struct wr_author *author);

/* It is no, |author| says why: the customer stays. */
int wr_upgrade_refuse(struct wr_database *database, const struct wr_alert *asked,
                      const struct wr_author *author);

/* Of customers who do not wait any more (somebody has moved them) nothing is asked. */
int wr_upgrades_drop(struct wr_database *database);

#endif
