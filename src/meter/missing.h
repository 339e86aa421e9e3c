/* missing.h - a database that is not there: may one be made? */
#ifndef WR_METER_MISSING_H
#define WR_METER_MISSING_H

#include "meter/database.h"

/* May a database be made in |directory| without being asked to? Not where customers.map has seen
 * one: then it was lost, and an empty one in its place would say that nobody ever was a customer.
 */
bool wr_database_may_begin(const char *directory);

/* What to do when it is missing, |path|, and may not be made. Returns WEIR_ENOENT. */
int wr_fault_set_missing(struct wr_fault *fault, const char *path);

#endif
