/* customers_parts.h - what the files about customers share. Internal to src/meter. */
#ifndef WR_METER_CUSTOMERS_PARTS_H
#define WR_METER_CUSTOMERS_PARTS_H

#include "meter/customers.h"
#include "meter/schema.h"

/* A transaction, unless the caller has one: then it is the caller's to end. */
struct wr_own {
    struct wr_database *database;
    bool begun;
};
int wr_own_begin(struct wr_own *own, struct wr_database *database);
/* |result| 0: commit; otherwise roll back. Returns |result|, or why the commit failed. */
int wr_own_end(struct wr_own *own, int result);

/* What to do where there is no room. */
#define WR_MORE_ROOM                                                                         \
    "raise customers.room, end weir serve, remove customers.map and the files *.usage, and " \
    "start it: they are made anew from the database"

/* Refuse a customer, as numbers go to |room|. WEIR_EFULL. */
int wr_room_refuse_customer(struct wr_database *database, uint32_t room);

/* Has |customer| a place in the map? 0, or WEIR_EFULL. */
int wr_room_for_customer(struct wr_database *database, const struct wr_customer *customer);

/* Would that key of |customer| find room in the map? 0, WEIR_EFULL, or an error. */
int wr_room_for_key(struct wr_database *database, int64_t customer,
                    const unsigned char digest[WR_CUSTOMER_DIGEST_BYTES]);

/* Is |text| 1..|max| bytes of UTF-8 without blanks at its ends, and without what is
 * unseen (wire/utf8.h)? */
bool wr_is_label(const char *text, size_t max);

/* Is it a name as plans and identities have? */
bool wr_is_plain_name(const char *text);

struct wr_audit_line {
    const char *what;
    int64_t customer;
    const char *before, *after; /* NULL: there is none */
};
/* Within a transaction. WEIR_EINVAL: the author cannot be one. */
int wr_audit_add(struct wr_database *database, const struct wr_author *author,
                 const struct wr_audit_line *line);

/* "2026-12-31T23:59:59Z" of |moment_ns|. */
#define WR_MOMENT_TEXT 32
void wr_moment_text(int64_t moment_ns, char out[WR_MOMENT_TEXT]);

/* "15"; "" of none. */
void wr_anchor_text(int anchor, char *out, size_t size);

/* The columns of wr_customer_row, for a SELECT from customer AS c. */
#define WR_CUSTOMER_COLUMNS                                                             \
    "c.id, c.number, c.name, c.tenant, c.plan, c.trial_plan, c.trial_until, c.anchor, " \
    "c.partner, c.suspended, c.file_entry IS NOT NULL, c.wants_upgrade, c.created, c.ended"
void wr_customer_row(struct sqlite3_stmt *statement, struct wr_customer *out);

/* Of wr_customer_key_row, for a SELECT from key. */
#define WR_KEY_COLUMNS "digest, customer, identity, hint, created, revoked"
void wr_customer_key_row(struct sqlite3_stmt *statement, struct wr_customer_key *out);

/* All keys of a customer. Within a transaction. */
int wr_customer_revoke_keys(struct wr_database *database, int64_t id,
                            const struct wr_author *author);

#endif
