/* schema.h - the tables. Internal to src/meter. */
#ifndef WR_METER_SCHEMA_H
#define WR_METER_SCHEMA_H

#include "meter/database.h"

/* "weir": in the file's header, so that `file` and people know what it is. */
#define WR_SCHEMA_APPLICATION 0x77656972

/* Bring the schema to this build's, in one transaction. WEIR_EFORMAT: of another program, or newer
 * than this build. */
int wr_schema_migrate(struct wr_database *database);

/* Is there nothing in it, as in a file of no bytes? */
bool wr_schema_is_empty(struct wr_database *database);

/* Is it this build's? WEIR_EFORMAT: no. */
int wr_schema_check(struct wr_database *database);

/* ---- what the other files need of database.c besides --------------------------------------------
 */

/* Run all statements in |sql|. */
int wr_database_exec(struct wr_database *database, const char *sql);

/* A fault that is not the disk's, and one of a file that is not ours. Each returns its error. */
int wr_database_refuse(struct wr_database *database, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int wr_database_foreign(struct wr_database *database, const char *what);

/* Is a transaction open? */
bool wr_database_writing(const struct wr_database *database);

/* Is the file at the path another one than is open, or none? */
bool wr_database_moved(const struct wr_database *database);

#endif
