/* ban.c - bans at run time: what the caller gives is checked and hashed here, and what lies in the
 * arena made fit to be read. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "engine/ban.h"
#include "lib/handle.h"
#include "policy/explain.h"
#include "wire/utf8.h"

static_assert(WEIR_BAN_NAME_MAX == WR_BAN_NAME_MAX && WEIR_BAN_REASON_MAX == WR_BAN_REASON_MAX, "");

/* ---- who ----------------------------------------------------------------------------------- */

static bool is_ip(struct weir_slice identity)
{
    return identity.len == 2 && memcmp(identity.ptr, "ip", 2) == 0;
}

static bool has_identity(const struct weir *w, struct weir_slice identity)
{
    for (size_t i = 0; i < wr_policy_identity_count(w->policy); i++) {
        const char *name = wr_policy_identity(w->policy, i);
        if (strlen(name) == identity.len && memcmp(name, identity.ptr, identity.len) == 0)
            return true;
    }
    return false;
}

/* Write into |ban| whom |identity| and |value| name. Returns 0 or WEIR_EINVAL. */
static int name_caller(const struct weir *w, struct weir_slice identity, struct weir_slice value,
                       struct wr_ban *ban)
{
    struct wr_sip_key secret = wr_arena_secret(w->arena);
    bool host_bits = false;

    memset(ban, 0, sizeof *ban);
    if (is_ip(identity)) {
        ban->kind = WR_BAN_NET;
        if (!wr_net_parse(value, &ban->net, &host_bits) || host_bits)
            return WEIR_EINVAL;
        ban->hash = wr_ban_hash_net(secret, &ban->net);
        return 0;
    }
    if (identity.len == 0 || identity.len > WR_BAN_NAME_MAX || value.len == 0)
        return WEIR_EINVAL;
    ban->kind = WR_BAN_VALUE;
    ban->name_len = (uint8_t)identity.len;
    memcpy(ban->name, identity.ptr, identity.len);
    ban->hash = wr_ban_hash_value(secret, identity, value);
    return 0;
}

/* ---- texts --------------------------------------------------------------------------------- */

/* The length of the character at |text|, which has |left| bytes; 0: none that may be shown. */
static size_t character(const char *text, size_t left)
{
    return wr_utf8_seen((const unsigned char *)text, left);
}

static bool is_text(struct weir_slice text)
{
    for (size_t at = 0; at < text.len;) {
        size_t len = character(text.ptr + at, text.len - at);
        if (len == 0)
            return false;
        at += len;
    }
    return true;
}

/* Copy out a text of the arena, where other processes write: "?" for what may not be shown. */
static void copy_text(char *out, const char *text, size_t len)
{
    for (size_t at = 0; at < len;) {
        size_t shown = character(text + at, len - at);
        if (shown == 0)
            out[at] = '?';
        else
            memcpy(out + at, text + at, shown);
        at += shown == 0 ? 1 : shown;
    }
    out[len] = '\0';
}

static void write_net(char *out, size_t size, const struct wr_net *net)
{
    size_t len = wr_ip_format(&net->ip, out);
    bool v4 = wr_ip_is_v4(&net->ip) && net->prefix >= 96;

    if (net->prefix < 128)
        (void)snprintf(out + len, size - len, "/%u", v4 ? net->prefix - 96U : net->prefix);
}

static void describe(const struct wr_ban *ban, struct weir_banned *out)
{
    memset(out, 0, sizeof *out);
    out->id = ban->hash;
    out->since_ns = ban->since_ns;
    out->until_ns = ban->until_ns == WR_BAN_FOREVER ? WEIR_BAN_FOREVER : ban->until_ns;
    if (ban->kind == WR_BAN_NET) {
        memcpy(out->identity, "ip", sizeof "ip");
        write_net(out->value, sizeof out->value, &ban->net);
    } else {
        copy_text(out->identity, ban->name, ban->name_len);
    }
    copy_text(out->reason, ban->reason, ban->reason_len);
}

/* ---- the API ------------------------------------------------------------------------------- */

static bool is_moment(int64_t ns)
{
    return ns >= 0 && ns <= WR_TIME_MAX_NS;
}

/* Returns 0, WEIR_EINVAL or WEIR_ENOENT. */
static int read_order(const struct weir *w, const struct weir_ban_order *order, int64_t now,
                      struct wr_ban *ban)
{
    int result = name_caller(w, order->identity, order->value, ban);

    if (result != 0 || !is_moment(now) || order->reason.len > WR_BAN_REASON_MAX ||
        !is_text(order->reason) || !is_moment(order->until_ns) ||
        (order->until_ns != WEIR_BAN_FOREVER && order->until_ns <= now))
        return WEIR_EINVAL;
    if (ban->kind == WR_BAN_VALUE && !has_identity(w, order->identity))
        return WEIR_ENOENT;
    ban->since_ns = now;
    ban->until_ns = order->until_ns == WEIR_BAN_FOREVER ? WR_BAN_FOREVER : order->until_ns;
    ban->reason_len = (uint8_t)order->reason.len;
    if (order->reason.len > 0)
        memcpy(ban->reason, order->reason.ptr, order->reason.len);
    return 0;
}

int weir_ban(struct weir *w, const struct weir_ban_order *order, int64_t now,
             struct weir_banned *out)
{
    struct wr_ban ban;
    int result = read_order(w, order, now, &ban);

    if (result == 0)
        result = wr_ban_put(w->arena, &ban, now);
    if (out != NULL && result == 0)
        describe(&ban, out);
    else if (out != NULL)
        memset(out, 0, sizeof *out);
    return result;
}

int weir_unban(struct weir *w, struct weir_slice identity, struct weir_slice value, int64_t now)
{
    struct wr_ban ban;
    int result = is_moment(now) ? name_caller(w, identity, value, &ban) : WEIR_EINVAL;

    return result == 0 ? wr_ban_lift(w->arena, ban.hash, now) : result;
}

int weir_unban_id(struct weir *w, uint64_t id, int64_t now)
{
    return is_moment(now) ? wr_ban_lift(w->arena, id, now) : WEIR_EINVAL;
}

size_t weir_bans(const struct weir *w, int64_t now, struct weir_banned *out, size_t room)
{
    struct wr_ban ban;
    size_t count = 0;
    uint32_t at = 0;

    while (wr_ban_next(w->arena, now, &at, &ban)) {
        if (count < room)
            describe(&ban, &out[count]);
        count++;
    }
    return count;
}

size_t weir_ban_room(const struct weir *w)
{
    return wr_ban_room(w->arena);
}
