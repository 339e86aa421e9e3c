/* flush.h - the cells of one quota into the ledger, and back after a power loss. Internal to
 * src/meter; the keeper's thread calls it. */
#ifndef WR_METER_FLUSH_H
#define WR_METER_FLUSH_H

#include "algo/civil.h"
#include "meter/alert.h"
#include "meter/ledger.h"
#include "store/customers.h"
#include "store/usage.h"

/* A quota that is kept. */
struct wr_kept {
    char name[65];
    char zone[65]; /* as the policy has it */
    struct wr_civil civil;
    bool anchor_by_customer;
    struct wr_alert_rule alert;
    struct wr_usage *usage; /* open */
    int64_t row;            /* in the database that is open; 0: not looked up */
    int32_t since;          /* with |row|: windows that begin before it were deleted (expire.h) */
    uint64_t *written;      /* for each cell a hash of what was last written; 0: nothing */
    uint32_t room;          /* of |written| */
    uint32_t scan_at;       /* where the scan is */
    bool scanning;
    bool compared;       /* all cells have been looked at since the database was opened */
    bool looked;         /* whether |older| is so */
    bool older;          /* than the ledger that is open: its cells are to be raised */
    uint64_t damaged;    /* cells with a window that cannot be, as of the last look at all */
    uint64_t damaged_at; /* as the present look goes */
    uint32_t damaged_cell;
    int32_t damaged_day; /* of the first of them */
    bool damage_said;
};

/* |kept| has its name, zone, civil, anchor: open its file in |directory|, or make it with |room|
 * cells. Returns as wr_usage_open. */
int wr_kept_open(struct wr_kept *kept, const char *directory, uint32_t room, struct wr_diag *diag);
/* The same of a file that is there, whatever its windows are: |kept| has its name only. */
int wr_kept_open_left(struct wr_kept *kept, const char *directory, struct wr_diag *diag);
void wr_kept_close(struct wr_kept *kept);

/* Another database: nothing is known to be written in it, all is to be looked at. */
void wr_kept_forget(struct wr_kept *kept);

struct wr_flush {
    struct wr_database *database;
    const struct wr_customers *map;
    int64_t node, now_ns;
    /* Plans by their place in the policy, for limits that alerts are of. */
    const char (*plan)[WR_NAME_MAX + 1];
    size_t plan_count;
    unsigned default_plan;
    bool hooked;            /* alerts are to be sent */
    uint64_t batches, rows; /* go up */
    bool stranger;          /* a cell of a customer whom the database does not know */
};

/* The quota's row in the database, looked up once: kept->row, kept->since. 0 or an error of the
 * database. */
int wr_flush_find_row(struct wr_flush *flush, struct wr_kept *kept);

/* Write the cells that have changed, at most |batches| batches of them. What could not be written
 * is said again. Returns 0: all; 1: there may be more; or an error of the database. */
int wr_flush_changes(struct wr_flush *flush, struct wr_kept *kept, unsigned batches);

/* Write the cell of customer |number| now, whether it has changed or not: his plan is about to, and
 * what he reached of it is to be told. 0 or an error of the database. */
int wr_flush_one(struct wr_flush *flush, struct wr_kept *kept, uint32_t number);

/* Go on looking at all cells, begun by kept->scanning: whoever was killed between a change and
 * saying so has left one that nobody says. Returns as wr_flush_changes. */
int wr_flush_scan(struct wr_flush *flush, struct wr_kept *kept, unsigned batches);

/* Cells that differ from what was last written. */
uint64_t wr_kept_waiting(const struct wr_kept *kept, int64_t now_ns);

/* Is the file an older copy of what the ledger that is open was written from? kept->older says so;
 * looked at once a database. */
int wr_flush_look(struct wr_flush *flush, struct wr_kept *kept);

/* Raise the cells to what the ledger has of them, unless that was done in this boot and the file is
 * not older. */
int wr_flush_restore(struct wr_flush *flush, struct wr_kept *kept);

#endif
