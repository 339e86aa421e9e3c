/* compiled.h - what a policy is once it is compiled: written by the readers, read by select. */
#ifndef WR_POLICY_COMPILED_H
#define WR_POLICY_COMPILED_H

#include "base/ipaddr.h"
#include "policy/envoy.h"
#include "policy/match.h"
#include "policy/netset.h"
#include "policy/policy.h"
#include "policy/region.h"
#include "policy/table.h"

#define WR_IDENTITIES_MAX 31 /* named identities: each has up to two fields */
#define WR_METHODS_MAX 63    /* distinct methods named in a policy */
#define WR_PREFIXES_MAX 4    /* distinct IPv6 prefix lengths: room in struct wr_selection */
#define WR_HOPS_MAX 64       /* entries of a forwarding header that are walked */

/* A set of methods: a bit for each method that the policy names, the highest for all others. */
#define WR_METHODS_ALL UINT64_MAX
#define WR_METHOD_OTHER (UINT64_C(1) << 63)

enum wr_from { WR_FROM_PEER, WR_FROM_XFF, WR_FROM_FORWARDED, WR_FROM_SINGLE };

/* How the client's address is found. */
struct wr_client_rule {
    enum wr_from from;
    int field;     /* of the header; -1 with WR_FROM_PEER */
    unsigned hops; /* > 0: this many entries from the right, whoever they are */
    struct wr_netset trusted;
};

/* A value that tells callers apart: an API key, a user. */
struct wr_identity {
    const char *name;
    int header; /* field; -1: none */
    int given;  /* field of the value that the host program gives */
    bool trust_anyone;
};

enum wr_part_source { WR_BY_IP, WR_BY_ROUTE, WR_BY_METHOD, WR_BY_IDENTITY, WR_BY_CUSTOMER };

struct wr_part_rule {
    uint8_t source;   /* enum wr_part_source */
    uint8_t identity; /* with WR_BY_IDENTITY */
};

/* The side of a limit that select looks at. */
struct wr_rule {
    uint64_t methods;
    const bool *unlimited; /* for each plan */
    uint8_t when_missing;  /* enum wr_when_missing */
    uint8_t prefix;        /* index in prefixes[] */
    uint8_t parts;
    struct wr_part_rule part[WEIR_KEY_PARTS_MAX];
};

struct wr_cost_rule {
    uint64_t methods;
    uint64_t plans; /* a bit for each plan it is for */
    int64_t cost;
};

/* Tags of |values|: which kind of look-up an entry belongs to. */
#define WR_TAG_PLAN_NAME 0U /* name -> plan */
#define WR_TAG_PLAN_KEY 1U  /* API key -> plan */
#define WR_TAG_BANNED 2U    /* + identity: value -> banned */

struct wr_policy {
    struct wr_region region; /* all memory of the policy but itself */
    struct wr_policy_settings settings;

    struct wr_policy_limit *limits;
    struct wr_rule *rules; /* one for each limit */
    uint16_t *pathless;    /* limits without a path, ascending */
    struct wr_cost_rule *costs;
    uint32_t *pathless_costs; /* ascending */
    size_t common_cost_count; /* costs for all plans; those of single plans come after them, and
                                 count before them */
    size_t limit_count, pathless_count, cost_count, pathless_cost_count;

    const char *plans[WR_POLICY_PLANS_MAX];
    size_t plan_count;
    unsigned default_plan;
    int8_t upgrades[WR_POLICY_PLANS_MAX]; /* the plan that each is upgraded to; -1 */
    uint64_t listing_plans; /* a bit for each plan that has but the routes that it lists */
    int plan_field;         /* header that names the plan, believed from trusted peers; -1 */
    int key_identity;       /* index of api_key where some keys have a plan of their own; -1 */

    const char *fields[WR_POLICY_FIELDS_MAX];
    enum weir_field_kind field_kinds[WR_POLICY_FIELDS_MAX];
    size_t field_count;

    struct wr_client_rule client;
    struct wr_identity identities[WR_IDENTITIES_MAX];
    size_t identity_count;
    uint8_t prefixes[WR_PREFIXES_MAX]; /* the first is that of identity.ip */
    size_t prefix_count;

    struct weir_slice methods[WR_METHODS_MAX];
    size_t method_count;

    struct wr_tree tree;
    struct wr_table values;
    struct wr_netset banned;
    uint32_t banned_identities; /* bit: some value of this identity is banned */

    struct wr_envoy *envoy; /* or NULL */
};

/* select.c: the bit of |method| in a set of methods. */
uint64_t wr_method_bit(const struct wr_policy *policy, struct weir_slice method);

#endif
