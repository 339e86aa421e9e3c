/* recover.h - customers that the map knows and the database does not. Internal to src/meter. */
#ifndef WR_METER_RECOVER_H
#define WR_METER_RECOVER_H

#include "meter/database.h"
#include "store/customers.h"

#define WR_RECOVERED_PREFIX "recovered-"
#define WR_RECOVERED_IDENTITY "recovered" /* of a key of which no more than its digest is known */

/* Have every active record of |map| in |database|, under the map's number, with its keys. |*count|
 * goes up by those that were not there, |*damaged| by those whose id is damaged and left for the
 * database to say. One transaction, and none where all is well. */
int wr_recover(struct wr_customers *map, struct wr_database *database, int64_t now_ns,
               uint64_t *count, uint64_t *damaged);

#endif
