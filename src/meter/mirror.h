/* mirror.h - customers.map, which decisions read, brought up to the database, which people change.
 *
 * The map's mark is one more than the last line of the audit log that it has seen; 0: it is new. */
#ifndef WR_METER_MIRROR_H
#define WR_METER_MIRROR_H

#include "meter/database.h"
#include "store/customers.h"

struct wr_mirror {
    struct wr_customers *map; /* open for writing */
    uint64_t changed;         /* customers and keys that were written into the map */
    uint64_t left_out;        /* that it had no room for: keys, or plans beyond 64 */
    uint64_t recovered;       /* customers that the map had and the database had not */
    uint64_t damaged;         /* records whose id was damaged */
};

/* All of the database into the map, and out of the map what the database does not have. A million
 * customers with a key each: seconds.
 *
 * The database may be an older copy, or a new one in place of one that was lost. A customer whom
 * only the map knows is put into it, as "recovered-ID": what he used is still to be billed, and
 * whoever creates him again by his name has him back. Cells are found by numbers, so where the two
 * differ the map's number holds; unless it is only damaged (recover.c). Returns 0 or an error of
 * the database. */
int wr_mirror_all(struct wr_mirror *mirror, struct wr_database *database, int64_t now_ns);

/* What has changed since the map's mark. Idempotent, cheap where nothing has. WEIR_EAGAIN: the
 * database is behind the map, wr_mirror_all is to be called. */
int wr_mirror_changes(struct wr_mirror *mirror, struct wr_database *database);

#endif
