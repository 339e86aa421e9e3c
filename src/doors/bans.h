/* bans.h - bans as people write and read them, for the admin door and the command line: how long in
 * words, moments by the wall clock, a list in order. */
#ifndef WR_DOORS_BANS_H
#define WR_DOORS_BANS_H

#include "doors/page.h"
#include "wire/logtime.h"

/* One moment on both clocks. The arena's is steady and may differ from the wall's. */
struct wr_ban_clock {
    int64_t arena_ns, wall_ns;
};
struct wr_ban_clock wr_ban_clock_now(const struct weir *w);

/* When a ban ends that |lasts| so long ("1h") or is |until| a moment (RFC 3339); ptr NULL: not
 * given; neither: never. Returns NULL, or a static text that says what is wrong. */
const char *wr_ban_end(struct weir_slice lasts, struct weir_slice until, struct wr_ban_clock clock,
                       int64_t *until_ns);

/* A moment of the arena's clock by the wall's, to the ms, in UTC. */
void wr_ban_moment(int64_t ns, struct wr_ban_clock clock, char out[WR_LOGTIME_TEXT_MAX]);

/* What is wrong with an order that weir_ban refused: a static text. */
/* Would it ban every caller: a network that is all addresses? To be asked for by name. */
bool wr_ban_is_everyone(const struct weir_ban_order *order);

const char *wr_ban_refusal(int error, const struct weir_ban_order *order);

#define WR_BAN_ID_MAX 17 /* 16 hexadecimal digits, terminated */
void wr_ban_id_write(uint64_t id, char out[WR_BAN_ID_MAX]);
bool wr_ban_id_read(struct weir_slice text, uint64_t *id);

/* All bans in force, those made last first; for the caller to free(). NULL: out of memory. */
struct weir_banned *wr_ban_list(const struct weir *w, int64_t now, size_t *count);

/* How many more there can be where there are |count|. */
size_t wr_ban_left_over(const struct weir *w, size_t count);

/* {"id":…,"identity":…,"value":…,"reason":…,"since":…,"until":…,"left_ms":…}; value is null where
 * it is not kept, until and left_ms are where there is no end. */
void wr_put_ban(struct wr_page *page, const struct weir_banned *ban, struct wr_ban_clock clock);

#endif
