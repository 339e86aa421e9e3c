/* roster.h - customers as a file: read whole, every error with its line, then made so in one
 * transaction.
 *
 *   version: 1
 *   customers:
 *     - name: acme
 *       plan: pro
 *       tenant: acme-group             # the rest may be left out
 *       partner: true
 *       suspended: false
 *       anchor: 15                     # day of the month its months begin on
 *       trial: {plan: enterprise, until: 2026-12-31}      # the day's end in UTC; or a moment
 *       keys:
 *         - {identity: api_key, sha256: 64 hexadecimal digits, hint: x7Qa}   # `weir customer hash`
 *         - {identity: user, value: alice}                                   # what is no secret
 *
 * The file speaks for the customers in it, and for those that it once had: who is taken out of it
 * is ended. Customers made by hand are left alone; naming one in the file takes it over. */
#ifndef WR_METER_ROSTER_H
#define WR_METER_ROSTER_H

#include "base/diag.h"
#include "meter/customers.h"

struct wr_roster;

/* Of the file: a quarter of a million customers with a key each. While it is read, some hundred
 * bytes of memory a value. */
#define WR_ROSTER_BYTES_MAX (128U << 20)
#define WR_ROSTER_NODES_MAX 4000000U

/* Names that a roster may use: of the policy. */
struct wr_roster_names {
    const char *const *plans;
    size_t plan_count;
    const char *const *identities; /* customers.by */
    size_t identity_count;
};

/* Read the file at |path|, or |len| bytes of |text|. On errors |*out| is NULL and |diag| has them.
 * Returns 0, WEIR_EPOLICY, WEIR_EIO, WEIR_ENOMEM. */
int wr_roster_load(struct wr_roster **out, const char *path, const struct wr_roster_names *names,
                   struct wr_diag *diag);
int wr_roster_load_text(struct wr_roster **out, const char *text, size_t len,
                        const struct wr_roster_names *names, struct wr_diag *diag);
void wr_roster_free(struct wr_roster *roster);

/* Which of its keys lead to somebody else, who would keep them? Those are errors in |diag|. Are
 * most of those that the file had gone from it? That is a warning: a file that was cut off between
 * two customers is as good as any. Only reads; wr_roster_apply finds the rest. 0 or an error of the
 * database. */
int wr_roster_check(const struct wr_roster *roster, struct wr_database *database,
                    struct wr_diag *diag);

struct wr_roster_done {
    uint64_t created, changed, ended; /* customers */
    uint64_t before;                  /* that the file had */
};

/* Did one reading end so many of |before| that the file may not be whole? */
bool wr_roster_ends_most(uint64_t ended, uint64_t before);

/* Make the database so, in one transaction: all or nothing. What was so before has no line in the
 * audit log. |diag| gets what only the database can say (a key that leads to somebody else), with
 * its line. Returns 0, WEIR_EPOLICY, WEIR_EFULL, or an error of the database. */
int wr_roster_apply(const struct wr_roster *roster, struct wr_database *database, uint32_t room,
                    const struct wr_author *author, struct wr_diag *diag,
                    struct wr_roster_done *done);

#endif
