/* ban.c - is the caller banned in the arena?
 *
 * He is known by his address, as identity.ip finds it, in every network of a length in use, and by
 * the value he has of each identity. All are asked, since of several bans the one that ends last
 * counts. The hash has parts of kinds of its own, so that a listed hash is no slot's. */
#include "engine/ban.h"

#include <string.h>

#include "base/arith.h"
#include "engine/bound.h"
#include "policy/explain.h"

enum { PART_NET = 0xb0, PART_NAME = 0xb1, PART_VALUE = 0xb2 };

uint64_t wr_ban_hash_net(struct wr_sip_key secret, const struct wr_net *net)
{
    struct wr_sip sip = wr_sip_init(secret);
    unsigned char bytes[sizeof net->ip.bytes + 1];

    memcpy(bytes, net->ip.bytes, sizeof net->ip.bytes);
    bytes[sizeof net->ip.bytes] = net->prefix;
    wr_sip_part(&sip, PART_NET, bytes, sizeof bytes);
    return wr_sip_finish(sip);
}

uint64_t wr_ban_hash_value(struct wr_sip_key secret, struct weir_slice identity,
                           struct weir_slice value)
{
    struct wr_sip sip = wr_sip_init(secret);

    wr_sip_part(&sip, PART_NAME, identity.ptr, identity.len);
    wr_sip_part(&sip, PART_VALUE, value.ptr, value.len);
    return wr_sip_finish(sip);
}

/* The first |prefix| bits of |ip|. */
static struct wr_net net_of(const struct wr_ip *ip, unsigned prefix)
{
    struct wr_net net = {*ip, (uint8_t)prefix};
    unsigned whole = prefix / 8;

    if (whole < sizeof net.ip.bytes) {
        net.ip.bytes[whole] &= (uint8_t)(0xff00U >> (prefix % 8));
        memset(net.ip.bytes + whole + 1, 0, sizeof net.ip.bytes - whole - 1);
    }
    return net;
}

/* Until when is |ip| banned, by any network that holds it? 0: it is not. */
static int64_t net_until(const struct wr_engine *engine, struct wr_sip_key secret,
                         const struct wr_ip *ip, int64_t now)
{
    int64_t until_ns = 0;

    for (unsigned word = 0; word < WR_BAN_PREFIX_WORDS; word++) {
        uint64_t bits = wr_ban_prefixes(engine->arena, word);
        for (; bits != 0; bits &= bits - 1) {
            unsigned prefix = word * 64 + (unsigned)__builtin_ctzll(bits);
            struct wr_net net;
            if (prefix > 128) /* a damaged file */
                break;
            if (wr_ip_is_v4(ip) && prefix > 0 && prefix < 96)
                continue; /* as wr_net_contains */
            net = net_of(ip, prefix);
            until_ns = wr_max_i64(until_ns,
                                  wr_ban_until(engine->arena, wr_ban_hash_net(secret, &net), now));
        }
    }
    return until_ns;
}

static int64_t value_until(const struct wr_engine *engine, const struct weir_request *request,
                           const struct wr_selection *selection, struct wr_sip_key secret,
                           int64_t now)
{
    int64_t until_ns = 0;

    for (size_t i = 0; i < wr_policy_identity_count(engine->policy); i++) {
        struct weir_slice value = wr_policy_believed(engine->policy, request, selection, i);
        const char *name = wr_policy_identity(engine->policy, i);
        struct weir_slice identity = {name, strlen(name)};
        if (value.len > 0)
            until_ns =
                wr_max_i64(until_ns, wr_ban_until(engine->arena,
                                                  wr_ban_hash_value(secret, identity, value), now));
    }
    return until_ns;
}

int64_t wr_ban_left(const struct wr_engine *engine, const struct weir_request *request,
                    const struct wr_selection *selection, int64_t now)
{
    struct wr_sip_key secret = wr_arena_secret(engine->arena);
    int64_t until_ns = 0;

    if (!selection->client_is_host)
        until_ns = net_until(engine, secret, &selection->client, now);
    if (wr_ban_any_value(engine->arena))
        until_ns = wr_max_i64(until_ns, value_until(engine, request, selection, secret, now));
    if (until_ns == 0)
        return 0;
    return until_ns == WR_BAN_FOREVER ? WEIR_NEVER : until_ns - now;
}
