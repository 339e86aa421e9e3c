/* mirror.h - customers.map, which decisions read, brought up to the database, which people change.
 */
#ifndef WR_METER_MIRROR_H
#define WR_METER_MIRROR_H

#include "meter/database.h"

struct wr_customers; /* store/customers.h: open for writing */

struct wr_mirror {
    struct wr_customers *map;
    int64_t audit;            /* changes up to this line are in the map */
    uint64_t customers, keys; /* of the map */
    uint64_t left_out;        /* that it has no room for */
};

/* All of the database into the map, and out of the map what the database does not have. A million
 * customers with a key each: seconds. 0 or an error of the database. */
int wr_mirror_all(struct wr_mirror *mirror, struct wr_database *database);

/* What has changed since the last call. Idempotent, cheap where nothing has. */
int wr_mirror_changes(struct wr_mirror *mirror, struct wr_database *database);

#endif
