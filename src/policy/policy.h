/* policy.h - a policy: read from YAML, checked, compiled, then immutable and shared by any number
 * of threads.
 *
 *   wr_policy_load   file or text -> policy, or every error with its place
 *   wr_policy_select request -> the limits it meets, with plan, cost and partition key of each
 *
 * The reference of what a person may write is docs/policy.md. */
#ifndef WR_POLICY_POLICY_H
#define WR_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algo/limit.h"
#include "base/customer.h"
#include "base/diag.h"
#include "base/ipaddr.h"
#include "weir/weir.h"

#define WR_POLICY_BYTES_MAX (4U << 20) /* of the file */
#define WR_POLICY_DEPTH_MAX 40         /* nesting of the YAML */
#define WR_POLICY_NODES_MAX 200000     /* scalars, lists and maps in it */
#define WR_POLICY_LIMITS_MAX 2000
#define WR_POLICY_PLANS_MAX 64
#define WR_POLICY_FIELDS_MAX 64 /* header fields and given keys it looks at */
#define WR_NAME_MAX 64          /* bytes of a limit's or plan's name: [A-Za-z0-9._-] */

enum wr_when_missing { WR_MISSING_IP, WR_MISSING_SKIP, WR_MISSING_DENY };

/* What a shared limit does with a request when the store is gone. */
enum wr_when_gone {
    WR_GONE_LOCAL,  /* this host's arena decides, by the limit divided by the nodes */
    WR_GONE_OPEN,   /* as if it allowed */
    WR_GONE_CLOSED, /* refused, WEIR_REASON_STORE */
};

struct wr_policy_quota;     /* quota.h */
struct wr_policy_customers; /* customers.h */

/* One limit of the policy, as the engine sees it. */
struct wr_policy_limit {
    const char *name;
    bool shadow;
    bool shared;       /* counted at the store, over all nodes; otherwise in this host's arena */
    bool leased;       /* shared, and decided from leases where there are any; otherwise strict */
    uint8_t when_gone; /* enum wr_when_gone; of shared ones */
    bool by_plan;      /* plans differ; otherwise all of by[] are equal */
    const struct wr_limit *by; /* one for each plan of the policy */
    /* What the store of a shared quota of customers decides by: by[], with all that is admitted as
     * units; NULL: by[]. See wr_policy_at_store. */
    const struct wr_limit *at_store;
    const bool *unlimited; /* for each plan: true means this limit does not apply to it */
    const struct wr_policy_quota *quota; /* quota.h; NULL: it is none */
};

/* The limit that a store decides by under |plan|. */
static inline const struct wr_limit *wr_policy_at_store(const struct wr_policy_limit *limit,
                                                        size_t plan)
{
    return limit->at_store != NULL ? &limit->at_store[plan] : &limit->by[plan];
}

/* Where something stands in the policy's file, from 1; 0: in none. */
struct wr_place {
    unsigned line, column;
};

/* Files of a TLS listener; client_ca NULL: clients need no certificate. Paths of files are absolute
 * or as seen from where the policy was opened: those in it are relative to its folder. */
struct wr_policy_tls {
    const char *certificate, *key, *client_ca;
    struct wr_place certificate_at, key_at, client_ca_at;
};

/* One address of one door of the daemon. */
struct wr_policy_listener {
    const char *door;    /* http, grpc, resp, admin */
    const char *address; /* as written */
    const char *path;    /* of a unix socket; NULL: ip and port */
    struct wr_ip ip;
    uint16_t port;                   /* 0: any that is free */
    const struct wr_policy_tls *tls; /* NULL: in clear */
    struct wr_place at;              /* its address */
};

enum wr_store_kind {
    WR_STORE_REDIS,
    WR_STORE_SENTINEL,
    WR_STORE_CLUSTER,
    WR_STORE_MEMCACHED,
    WR_STORE_RING,
};

/* Where to connect to. Names are looked up by who connects. */
struct wr_policy_address {
    const char *text; /* "10.0.0.1:6379", "[::1]:6379", "unix:/path": for people; nothing secret */
    const char *host; /* an address or a name; NULL: path */
    uint16_t port;
    const char *path; /* of a unix socket; NULL: host and port */
};

/* Where shared limits are counted. Strings are NULL where not given. */
struct wr_policy_store {
    enum wr_store_kind kind;
    /* The server; sentinels; nodes of the cluster to begin with; memcached servers; peers of the
     * ring, this node may be among them (none with dns). */
    const struct wr_policy_address *addresses;
    size_t address_count;
    const char *user, *password, *password_file; /* at most one of the last two */
    unsigned database;                           /* redis and sentinel */
    const char *master, *sentinel_password;      /* sentinel */
    struct wr_policy_address self, dns;          /* ring: where this node listens, and a name with
                                                    an address for each peer, or no host */
    bool leased;                                 /* what limits are that do not say */
    int64_t deadline_ns;                         /* of connecting and of every command */
    const char *prefix;                          /* of keys: "weir" */
    const char *secret, *secret_file;            /* goes into the hash of keys; at most one */
    unsigned nodes;                              /* to divide by before they are known; 1.. */
    enum wr_when_gone when_gone;                 /* of limits that do not say */
    const char *agent_path;                      /* unix socket of the daemon for other processes */
    bool agent_written;                          /* it stands in the policy; else the default */
    struct wr_place password_file_at, secret_file_at, agent_at;
};
#define WR_STORE_ADDRESSES_MAX 64

/* What the policy says besides limits. All strings are terminated and live as long as the policy;
 * NULL where not given. */
struct wr_policy_settings {
    const char *arena_path;
    uint64_t arena_bytes;
    struct wr_place arena_bytes_at;
    unsigned arena_log_percent; /* share of the arena for lists, 1..90 */
    int status;                 /* of refusals: 429 */
    int ban_status;             /* of banned callers: 429 */
    unsigned header_families;   /* WEIR_HEADERS_* */
    bool skip_options;          /* OPTIONS requests are not counted: true */
    bool cors_expose;           /* send Access-Control-Expose-Headers */
    const char *documentation_url;
    const char *upgrade_url;
    const struct wr_policy_listener *listeners;
    size_t listener_count;
    const char *admin_token, *admin_token_file; /* at most one */
    /* At most one; none: the resp door asks for none. */
    const char *resp_password, *resp_password_file;
    struct wr_place admin_token_file_at, resp_password_file_at;
    unsigned threads; /* loops of the daemon; 0: one a core */
    int64_t idle_ns;  /* silence that ends a connection; 0: the door's */
    int64_t stall_ns; /* how long half a message may stand, either way; 0: the door's */
    unsigned log_refused_per_second; /* lines of a loop; 0: none */
    uint64_t unsent_bytes_max; /* of a loop: with more, who does not read is not read either */
    int64_t drain_ns;          /* how long SIGTERM waits for what is in flight */
    const struct wr_policy_store *store;         /* NULL: nothing is shared */
    const struct wr_policy_customers *customers; /* customers.h; NULL: none */
};

struct wr_policy;

/* Compile the |len| bytes at |text|, or the file at diag->file. On errors |*out| is NULL and |diag|
 * has all of them; on success |diag| may hold warnings. Returns: 0, WEIR_EPOLICY, WEIR_EIO,
 * WEIR_ENOMEM. */
int wr_policy_load_text(struct wr_policy **out, const char *text, size_t len, struct wr_diag *diag);
int wr_policy_load(struct wr_policy **out, const char *path, struct wr_diag *diag);
void wr_policy_free(struct wr_policy *policy);

const struct wr_policy_settings *wr_policy_settings(const struct wr_policy *policy);
size_t wr_policy_limit_count(const struct wr_policy *policy);
const struct wr_policy_limit *wr_policy_limit(const struct wr_policy *policy, size_t index);
size_t wr_policy_plan_count(
    const struct wr_policy *policy); /* at least 1: "default" where none is named */
const char *wr_policy_plan(const struct wr_policy *policy, size_t index);
unsigned wr_policy_default_plan(const struct wr_policy *policy);
/* The plan that |plan| is upgraded to; -1: to none. Following it comes to an end. */
int wr_policy_upgrade(const struct wr_policy *policy, size_t plan);
/* Leading bits of an IPv6 address by which identity.ip tells callers apart; see
 * selection.masked[0]. */
unsigned wr_policy_ipv6_prefix(const struct wr_policy *policy);
size_t wr_policy_field_count(const struct wr_policy *policy);
const char *wr_policy_field(const struct wr_policy *policy, size_t index,
                            enum weir_field_kind *kind);
/* Is the field a header field of several entries, which may come in several lines? */
bool wr_policy_is_list(const struct wr_policy *policy, size_t field);
/* Is the field a value of an identity that has no header, and that some limit counts by? */
bool wr_policy_only_given(const struct wr_policy *policy, size_t field);

/* ---- in words, for summaries --------------------------------------------------------------- */

/* Each writes a terminated text into |out|, cut at |size|; an empty one where there is none. */
void wr_policy_describe_keys(const struct wr_policy *policy, size_t index, char *out, size_t size);
void wr_policy_describe_rate(const struct wr_policy *policy, size_t index, size_t plan, char *out,
                             size_t size);

/* "shared, leased; store gone: 1/3 of it here". Empty for a limit that is not shared. */
void wr_policy_describe_shared(const struct wr_policy *policy, size_t index, char *out,
                               size_t size);
/* "by api_key; room for 65536 in /run/weir/arena.customers; the ledger at most 1s behind, windows
 * kept for 400d". Empty without customers. */
void wr_policy_describe_customers(const struct wr_policy *policy, char *out, size_t size);
/* "free (default) -> pro". */
void wr_policy_describe_plan(const struct wr_policy *policy, size_t plan, char *out, size_t size);
/* "redis 10.0.0.1:6379; deadline 20ms". Empty without a store. Nothing secret. */
void wr_policy_describe_store(const struct wr_policy *policy, char *out, size_t size);

/* About how many slots its arena has; it is meant for a quarter to a half as many live keys. */
uint64_t wr_policy_slots(const struct wr_policy *policy);

/* ---- selecting --------------------------------------------------------------------------- */

/* The kinds of the parts of a key; parts of different kinds are never equal. */
enum wr_part_kind {
    WR_PART_VALUE = 0,    /* a value as it stands: a user, an API key, a method, a route */
    WR_PART_IP = 1,       /* 16 bytes of struct wr_ip, masked */
    WR_PART_HOST = 2,     /* a peer that is no address: a host name in a log */
    WR_PART_FALLBACK = 3, /* the address (16 bytes) that stands in for a missing value */
    WR_PART_FALLBACK_HOST = 4,
    WR_PART_CUSTOMER = 5, /* 8 bytes: the id of a customer */
};

struct wr_key_part {
    struct weir_slice bytes;
    uint8_t kind; /* enum wr_part_kind */
};

struct wr_selected {
    uint16_t limit;
    bool deny_missing; /* a part is missing and the limit says deny */
    uint8_t parts;
    struct wr_key_part part[WEIR_KEY_PARTS_MAX];
};

/* Who said which plan it is: in order of precedence GIVEN, CUSTOMER, KEY, HEADER, DEFAULT. */
enum wr_plan_from {
    WR_PLAN_DEFAULT,
    WR_PLAN_GIVEN,
    WR_PLAN_KEY,
    WR_PLAN_HEADER,
    WR_PLAN_CUSTOMER,
};

/* How select finds customers: the policy knows no store. */
struct wr_customer_finder {
    /* |value| (len > 0) may be that of customers.by[0], if it turns out to be believed: time to
     * start fetching what it leads to. NULL: nothing to do. */
    void (*expect)(void *context, struct weir_slice value);
    /* The customer that |value| (len > 0) of the identity customers.by[|by|] leads to. False: there
     * is none that is active; |*out| is then zeros. */
    bool (*find)(void *context, unsigned by, struct weir_slice value, struct wr_customer_seen *out);
    /* The index in the policy of the plan that customers call |file_plan|; -1: it has no such. */
    int (*plan)(void *context, unsigned file_plan);
    void *context;
};

/* What a request meets. In the caller's memory, about 3 KiB; parts point into it, into the request
 * and into the policy, so it must not be moved. */
struct wr_selection {
    unsigned plan;
    uint8_t plan_from;   /* enum wr_plan_from */
    int32_t cost_rule;   /* the cost that matches, see wr_policy_cost_rule; -1: none */
    int64_t cost;        /* the request's own, that rule's, or 1 */
    bool banned;         /* the caller is, or its customer is suspended */
    bool plan_excludes;  /* the plan excludes the route: refused, WEIR_REASON_PLAN */
    int16_t plan_wanted; /* then: the next plan on the way up that has it; -1: none has */
    bool customer_known; /* then: */
    struct wr_customer_seen customer;
    bool over_max; /* more than WEIR_LIMITS_MAX limits match: the first ones are taken */
    uint16_t count;
    struct wr_ip client; /* after walking back through trusted proxies */
    bool peer_trusted;   /* the peer is an address in identity.ip.trusted */
    bool client_is_host; /* the peer is no address; then: */
    struct weir_slice client_host;
    const char *route;                            /* the pattern that matched best, or "" */
    struct wr_selected selected[WEIR_LIMITS_MAX]; /* in the order of the file */
    struct wr_ip masked[4]; /* the client under each prefix length in use, first identity.ip's */
};

/* Which limits does |request| meet, and by which key? Pure; no allocation; cost grows with the
 * segments of the path and the limits that match, not with the limits there are. Unlimited ones are
 * left out. */
void wr_policy_select(const struct wr_policy *policy, const struct weir_request *request,
                      struct wr_selection *out);

/* The same with customers, which are looked up where the policy has the section `customers`.
 * Without a finder (NULL) all callers are unknown. The plan of a customer that wants to be upgraded
 * is the next one already, but where the upgrade is to be confirmed. */
void wr_policy_select_with(const struct wr_policy *policy, const struct weir_request *request,
                           const struct wr_customer_finder *finder, struct wr_selection *out);

/* The value that is believed of identity |index| (explain.h) in |request|, for which |selection|
 * was made; len 0: none. */
struct weir_slice wr_policy_believed(const struct wr_policy *policy,
                                     const struct weir_request *request,
                                     const struct wr_selection *selection, size_t index);

/* May |peer| (an address as text, with or without a port) tell whose request it passes on, and what
 * it was? Those in identity.ip.trusted may. */
bool wr_policy_trusts(const struct wr_policy *policy, struct weir_slice peer);

#endif
