/* bans.c - bans as people write and read them.
 *
 * Ends are kept on the arena's clock, which neither steps nor stops; people give and get them by
 * the wall clock, as the distance from now. */
#include "doors/bans.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hex.h"
#include "base/ipaddr.h"
#include "base/units.h"
#include "policy/rate.h"

struct wr_ban_clock wr_ban_clock_now(const struct weir *w)
{
    return (struct wr_ban_clock){weir_now(w), wr_clock_wall().ns};
}

const char *wr_ban_end(struct weir_slice lasts, struct weir_slice until, struct wr_ban_clock clock,
                       int64_t *until_ns)
{
    int64_t ns = 0;
    size_t at;

    *until_ns = WEIR_BAN_FOREVER;
    if (lasts.ptr == NULL && until.ptr == NULL)
        return NULL;
    if (lasts.ptr != NULL) {
        if (wr_duration_parse(lasts, &ns, &at) != NULL)
            return "expected a duration such as 90s, 15m, 1h or 7d";
    } else {
        if (!wr_logtime_rfc3339(until, &ns))
            return "expected a moment such as 2026-12-01T08:00:00Z";
        ns -= clock.wall_ns;
        if (ns <= 0)
            return "expected a moment that is yet to come";
    }
    if (__builtin_add_overflow(clock.arena_ns, ns, &ns) || ns > WR_TIME_MAX_NS)
        return "expected an end before the year 2200; without one the ban has none";
    *until_ns = ns;
    return NULL;
}

void wr_ban_moment(int64_t ns, struct wr_ban_clock clock, char out[WR_LOGTIME_TEXT_MAX])
{
    int64_t wall_ns = ns - clock.arena_ns + clock.wall_ns + WR_NS_PER_MS / 2;

    if (wall_ns < 0)
        wall_ns = 0;
    (void)wr_logtime_format(wall_ns - wall_ns % WR_NS_PER_MS, out);
}

static bool is_ip(struct weir_slice identity)
{
    return identity.len == 2 && memcmp(identity.ptr, "ip", 2) == 0;
}

bool wr_ban_is_everyone(const struct weir_ban_order *order)
{
    struct wr_net net;

    return is_ip(order->identity) && memchr(order->value.ptr, '/', order->value.len) != NULL &&
           wr_net_parse(order->value, &net, NULL) &&
           net.prefix <= (wr_ip_is_v4(&net.ip) ? 96 : 0); /* of IPv4 they begin behind 96 bits */
}

const char *wr_ban_refusal(int error, const struct weir_ban_order *order)
{
    struct wr_net net;
    bool host_bits = false;

    if (error == WEIR_ENOENT)
        return "the policy has no identity of this name";
    if (error == WEIR_EFULL)
        return "the table of bans is full: lift some, or use a larger arena; nothing was changed";
    if (error == WEIR_EBUSY)
        return "another process is stopped in the middle of changing the arena; nothing was "
               "changed";
    if (error != WEIR_EINVAL)
        return weir_strerror(error);
    if (is_ip(order->identity) && !wr_net_parse(order->value, &net, &host_bits))
        return "expected an address or a network such as 192.0.2.0/24 or 2001:db8::/32";
    if (host_bits)
        return "expected a network, found bits set behind its prefix";
    if (order->value.len == 0)
        return "expected a value to ban";
    if (order->reason.len > WEIR_BAN_REASON_MAX)
        return "expected a reason of at most 120 bytes";
    return "expected a reason without control characters";
}

void wr_ban_id_write(uint64_t id, char out[WR_BAN_ID_MAX])
{
    wr_hex_write_u64(out, id);
    out[WR_HEX_U64] = '\0';
}

bool wr_ban_id_read(struct weir_slice text, uint64_t *id)
{
    *id = 0;
    return text.len == WR_HEX_U64 && wr_hex_read_u64(text.ptr, id);
}

static int newest_first(const void *a, const void *b)
{
    const struct weir_banned *x = a, *y = b;

    if (x->since_ns != y->since_ns)
        return x->since_ns < y->since_ns ? 1 : -1;
    return x->id < y->id ? -1 : x->id > y->id;
}

struct weir_banned *wr_ban_list(const struct weir *w, int64_t now, size_t *count)
{
    size_t room = weir_ban_room(w);
    struct weir_banned *list = malloc(room * sizeof *list);

    *count = 0;
    if (list == NULL)
        return NULL;
    *count = weir_bans(w, now, list, room);
    if (*count > room) /* a damaged file */
        *count = room;
    qsort(list, *count, sizeof *list, newest_first);
    return list;
}

size_t wr_ban_left_over(const struct weir *w, size_t count)
{
    size_t room = weir_ban_room(w);

    return room > count ? room - count : 0;
}

static void put_text(struct wr_page *page, const char *key, const char *text)
{
    wr_page_key(page, key);
    wr_page_name(page, text);
}

void wr_put_ban(struct wr_page *page, const struct weir_banned *ban, struct wr_ban_clock clock)
{
    char id[WR_BAN_ID_MAX], moment[WR_LOGTIME_TEXT_MAX];

    wr_ban_id_write(ban->id, id);
    wr_page_open(page, '{');
    put_text(page, "id", id);
    put_text(page, "identity", ban->identity);
    put_text(page, "value", ban->value[0] != '\0' ? ban->value : NULL);
    put_text(page, "reason", ban->reason);
    wr_ban_moment(ban->since_ns, clock, moment);
    put_text(page, "since", moment);
    if (ban->until_ns == WEIR_BAN_FOREVER) {
        put_text(page, "until", NULL);
        put_text(page, "left_ms", NULL);
    } else {
        int64_t left_ns = ban->until_ns - clock.arena_ns;
        wr_ban_moment(ban->until_ns, clock, moment);
        put_text(page, "until", moment);
        wr_page_key(page, "left_ms");
        wr_page_int(page, left_ns > 0 ? (left_ns - 1) / WR_NS_PER_MS + 1 : 0);
    }
    wr_page_close(page, '}');
}
