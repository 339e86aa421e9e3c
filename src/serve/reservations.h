/* reservations.h - answers that a client will settle or release later, by a name it was given: the
 * daemon's memory of them. A table of fixed size, striped; only reserve, settle and release come
 * here, never a check. An entry is forgotten when its time to live has passed; its places in
 * concurrency limits free themselves. */
#ifndef WR_SERVE_RESERVATIONS_H
#define WR_SERVE_RESERVATIONS_H

#include "serve/serve.h"

#define WR_RESERVATION_ID 32 /* hex digits of 128 random bits; a text of 33 bytes with its end */

struct wr_reservations;

struct wr_reservations *wr_reservations_new(size_t most);
void wr_reservations_free(struct wr_reservations *table);

/* Remember |answer|, decided under |handle| (a reference is taken), until |expires_ns|; write its
 * name to |id|. |peer|: the address of who asks, of which one (of IPv6 a /64) may have a quarter of
 * the table; NULL: no such bound. Returns 0, or WEIR_EFULL, which is logged now and then. */
int wr_reservations_put(struct wr_reservations *table, struct wr_handle *handle,
                        const struct weir_answer *answer, int64_t expires_ns, const char *peer,
                        char id[WR_RESERVATION_ID + 1]);

/* How many are remembered (some of them may have expired), and how many may be. Any thread. */
size_t wr_reservations_open(const struct wr_reservations *table);
size_t wr_reservations_most(const struct wr_reservations *table);

/* Settle, or release, what |id| names, in |loop|: at its store, what was taken there. |status|: of
 * the answer, for quotas that count only some (100..599); 0: not said. Settling an id twice, or too
 * late: WEIR_EEXPIRED; never given out: WEIR_ENOENT. Release ends it: places are freed and the id
 * is forgotten. */
int wr_reservations_settle(struct wr_reservations *table, struct wr_loop *loop, const char *id,
                           int64_t cost, int status, int64_t now_ns);
int wr_reservations_release(struct wr_reservations *table, struct wr_loop *loop, const char *id,
                            int64_t now_ns);

/* The server's table. */
struct wr_reservations *wr_server_reservations(struct wr_server *server);

#endif
