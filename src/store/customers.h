/* customers.h - who the customers of a host are, as decisions see them: a mapped file that every
 * process of the host opens and one, the daemon, changes. Keys lead to customers, customers have a
 * plan. Valid after SIGKILL of any process at any instant. Byte by byte: docs/formats/customers.md.
 *
 * What people call a customer, names and history, is in a database elsewhere; nothing here is the
 * only copy of anything but a wish to be upgraded. */
#ifndef WR_STORE_CUSTOMERS_H
#define WR_STORE_CUSTOMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/customer.h"
#include "base/diag.h"
#include "base/sha256.h"
#include "base/siphash.h"
#include "store/mapped.h"
#include "weir/weir.h"

struct wr_customers; /* one process's handle; needs nothing after fork */

#define WR_CUSTOMERS_NAME "customers.map"  /* in the directory of customers */
#define WR_CUSTOMERS_ROOM_LIMIT (1U << 24) /* a word of the file names a customer by 24 bits */
#define WR_CUSTOMER_DIGEST_BYTES 16
#define WR_CUSTOMER_PLANS 64
#define WR_CUSTOMER_PLAN_BYTES 64 /* of a plan's name, without an end */

struct wr_customers_options {
    const char *path;
    uint32_t room;   /* customers of a new file, 1..WR_CUSTOMERS_ROOM_LIMIT; a file that is there is
                        used as it is, with a warning where this differs and is not 0 */
    bool must_exist; /* do not create */
    bool writer;     /* to change it: one process at a time */
};

/* Open or create: made whole, its blocks reserved, mode 0660. A file that does not fit or is
 * damaged is refused, and |diag|, which may be NULL, says what to do.
 *
 * Owns:    |*out| is the caller's, to be closed; NULL on error.
 * Bounds:  no scan: milliseconds, whatever the room; memory as pages are touched.
 * Returns: 0, WEIR_ENOENT (must_exist, and there is none), WEIR_EIO, WEIR_EFORMAT, WEIR_ECORRUPT,
 * WEIR_ENOMEM, WEIR_EINVAL (a room out of range), WEIR_EBUSY (another process is the writer). */
int wr_customers_open(struct wr_customers **out, const struct wr_customers_options *options,
                      struct wr_diag *diag);
void wr_customers_close(struct wr_customers *map); /* NULL is allowed */

uint32_t wr_customers_room(const struct wr_customers *map); /* numbers are below it */
uint64_t wr_customers_bytes(const struct wr_customers *map);

/* What has the file's name at |path| now? */
enum wr_mapped_named wr_customers_named(const struct wr_customers *map, const char *path);

/* ---- on the path of a decision -------------------------------------------------------------
 *
 * Any number of threads and processes; no allocation, no lock, no system call. */

/* What all keys of one identity begin with. */
struct wr_customers_identity {
    struct wr_sip sip;
    struct wr_sha256 sha;
};
void wr_customers_identity(const struct wr_customers *map, struct weir_slice name,
                           struct wr_customers_identity *out);

/* The hash of |value| under the file's secret, for those below; and start fetching what says whom
 * it leads to. */
uint64_t wr_customers_hash(const struct wr_customers_identity *identity, struct weir_slice value);
void wr_customers_prefetch(const struct wr_customers *map, uint64_t hash);

/* Whose key it may be, for fetching what he needs while it is being found out; and start fetching
 * his record. UINT32_MAX: nobody's that is known. To be asked a while after prefetch, or at once.
 */
uint32_t wr_customers_guess(const struct wr_customers *map, uint64_t hash);

/* Whose key |value| is, |hash| its hash, |guess| what was guessed; and start fetching his record.
 * False: nobody's. The record alone where the guess is right; a SHA-256 (0.4 us) for a key that was
 * not found before. */
bool wr_customers_find(struct wr_customers *map, const struct wr_customers_identity *identity,
                       struct weir_slice value, uint64_t hash, uint32_t guess, uint32_t *number);

struct wr_customer_record {
    int64_t id;         /* of its row; the same on all nodes */
    uint8_t plan;       /* in the file's table of plans; until |until_ns| */
    uint8_t plan_after; /* from then on */
    uint8_t anchor;     /* day of the month its months begin on, 1..31; 0: as the quota says */
    uint8_t flags;      /* enum wr_customer_flag */
    int64_t until_ns;   /* INT64_MAX: for ever */
};

/* Copy out customer |number|. False, and |*out| all zeros: there is none (not ACTIVE), or his
 * record is damaged. */
bool wr_customers_get(const struct wr_customers *map, uint32_t number,
                      struct wr_customer_record *out);

/* The plan that holds at |now_ns|. */
static inline uint8_t wr_customer_plan_of(const struct wr_customer_record *record, int64_t now_ns)
{
    return now_ns < record->until_ns ? record->plan : record->plan_after;
}

/* Customer |number|, seen on |plan|, is to be upgraded: the flag, and wr_customers_wanting_next of
 * the writer. Nothing where another plan holds at |now_ns|: somebody has moved him since, and what
 * was used up was of the plan before. A wish that is there is said again. */
void wr_customers_want(struct wr_customers *map, uint32_t number, uint8_t plan, int64_t now_ns);

/* Name |index| of the table of plans, terminated, into |out|; false: there is none. Names are never
 * changed or taken away. */
bool wr_customers_plan_name(const struct wr_customers *map, unsigned index,
                            char out[WR_CUSTOMER_PLAN_BYTES + 1]);
unsigned wr_customers_plan_count(const struct wr_customers *map);

/* ---- changing: the writer ------------------------------------------------------------------
 *
 * One thread at a time. When one of these returns 0, every process obeys it from its next decision
 * on, whatever happens to this one. A handle that is no writer gets WEIR_EINVAL. */

/* The number of the plan called |name|, added if there is none. WEIR_EFULL, WEIR_EINVAL (too long).
 */
int wr_customers_plan(struct wr_customers *map, const char *name);

/* Make customer |number| what |record| says; without WR_CUSTOMER_ACTIVE: no customer. The wish to
 * be upgraded is kept unless |met|: then it is as in |record|. 0 or WEIR_EINVAL (number, plan). */
int wr_customers_set(struct wr_customers *map, uint32_t number,
                     const struct wr_customer_record *record, bool met);

/* The key with |digest| leads to customer |number|, whoever it led to. 0, WEIR_EINVAL, WEIR_EFULL:
 * there is room for about twice as many keys as customers. */
int wr_customers_key_set(struct wr_customers *map,
                         const unsigned char digest[WR_CUSTOMER_DIGEST_BYTES], uint32_t number);
/* Would it find room, now? For anybody; and how many keys there can ever be. */
bool wr_customers_key_fits(const struct wr_customers *map,
                           const unsigned char digest[WR_CUSTOMER_DIGEST_BYTES]);
uint32_t wr_customers_key_room(const struct wr_customers *map);
/* It leads nowhere. 0, WEIR_ENOENT. */
int wr_customers_key_drop(struct wr_customers *map,
                          const unsigned char digest[WR_CUSTOMER_DIGEST_BYTES]);

/* The next customer who wants to be upgraded, taken out of the list; false: no more. |*at| starts
 * at 0 and belongs to the loop. His flag stays until wr_customers_set. */
bool wr_customers_wanting_next(struct wr_customers *map, uint32_t *at, uint32_t *number);

/* What the writer knows the file by: 0 in a new one. For it to see what it has missed. */
uint64_t wr_customers_mark(const struct wr_customers *map);
int wr_customers_set_mark(struct wr_customers *map, uint64_t mark);

/* ---- looking -------------------------------------------------------------------------------- */

/* SHA-256 of the identity's length (4 bytes, little endian), its name and the value: its first 16
 * bytes are the digest of a key. */
void wr_customer_digest(struct weir_slice identity, struct weir_slice value,
                        unsigned char out[WR_SHA256_BYTES]);

/* Whose key that is; false: nobody's. */
bool wr_customers_key_get(const struct wr_customers *map,
                          const unsigned char digest[WR_CUSTOMER_DIGEST_BYTES], uint32_t *number);

/* The next key, in no particular order; false: no more. |*at| starts at 0. */
bool wr_customers_key_next(const struct wr_customers *map, uint32_t *at,
                           unsigned char digest[WR_CUSTOMER_DIGEST_BYTES], uint32_t *number);

#endif
