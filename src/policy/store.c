/* store.c - the section `store`: where shared limits are counted, and how.
 *
 * Only `weir serve` connects anywhere; the gateway and libweir need to know which limits are shared
 * and where the daemon's socket is; replay reads past it all.
 *
 * Invariants:
 *   1. A store has exactly one kind, and all that its kind needs.
 *   2. No message quotes a password, a secret, or a text that may hold one. */
#include <arpa/inet.h>
#include <string.h>

#include "base/units.h"
#include "policy/loader.h"
#include "policy/rate.h"

#define DEADLINE_DEFAULT_NS (20 * WR_NS_PER_MS)
#define DEADLINE_MAX_NS (10 * WR_NS_PER_S)
#define DEADLINE_LONG_NS WR_NS_PER_S
#define NODES_MAX 10000
#define DATABASES_MAX 65535
#define SECRET_BYTES_GOOD 16
#define AGENT_DEFAULT "/run/weir/agent.sock"

struct reading {
    struct wr_policy_store *store;
    const struct wr_yaml *kind;     /* redis, memcached or ring */
    const struct wr_yaml *server;   /* the key that says which of redis */
    const struct wr_yaml *database; /* as a key of its own */
    const struct wr_yaml *password, *secret;
    const struct wr_yaml *self;
};

/* ---- values ------------------------------------------------------------------------------ */

static void read_secret_text(struct wr_loader *ld, const struct wr_yaml *value, const char *what,
                             const char **out)
{
    if (!wr_is_text(value))
        wr_error(ld, value, "%s: expected a text, found %s", what, wr_found_kind(value));
    else
        *out = wr_keep(ld, value);
}

/* At most one of a pair such as password and password_file. */
static void only_one(struct wr_loader *ld, const struct wr_yaml *value, const struct wr_yaml **seen,
                     const char *pair)
{
    if (*seen != NULL)
        wr_error(ld, value->key, "expected %s, found both", pair);
    *seen = value;
}

static void read_user(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)wr_read_text(ld, value, "the user's name", &((struct reading *)into)->store->user);
}

static void read_password(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct reading *reading = into;

    only_one(ld, value, &reading->password, "password or password_file");
    read_secret_text(ld, value, "password", &reading->store->password);
}

static void read_password_file(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct reading *reading = into;

    only_one(ld, value, &reading->password, "password or password_file");
    (void)wr_read_file(ld, value, "the path of a file with the store's password",
                       &reading->store->password_file, &reading->store->password_file_at);
}

static void read_database(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct reading *reading = into;
    int64_t database;

    reading->database = value;
    if (wr_read_int(ld, value, "database", 0, DATABASES_MAX, &database))
        reading->store->database = (unsigned)database;
}

/* A list of addresses, or one. */
static void read_addresses(struct wr_loader *ld, const struct wr_yaml *value, const char *what,
                           bool socket, struct wr_policy_store *store)
{
    struct wr_policy_address *all;
    size_t count = 0;

    if (value->kind == WR_YAML_MAP || (value->kind == WR_YAML_LIST && value->count == 0)) {
        wr_error(ld, value, "%s: expected a list of addresses, found %s", what,
                 value->kind == WR_YAML_MAP ? "a map" : "an empty one");
        return;
    }
    all = wr_region_take(ld->region, WR_STORE_ADDRESSES_MAX, sizeof *all);
    for (const struct wr_yaml *item = wr_first_item(value); item != NULL && all != NULL;
         item = wr_next_item(value, item)) {
        if (count == WR_STORE_ADDRESSES_MAX) {
            wr_error(ld, item, "%s: expected at most %d addresses, found more", what,
                     WR_STORE_ADDRESSES_MAX);
            return;
        }
        if (!wr_read_store_address(ld, item, what, socket, &all[count]))
            continue;
        for (size_t i = 0; i < count; i++)
            if (strcmp(all[i].text, all[count].text) == 0)
                wr_error(ld, item, "%s: expected each address once, found %s again", what,
                         all[i].text);
        count++;
    }
    store->addresses = all;
    store->address_count = all != NULL ? count : 0;
}

/* ---- redis ------------------------------------------------------------------------------- */

/* url, sentinel and cluster exclude each other. */
static void set_server(struct wr_loader *ld, const struct wr_yaml *value, struct reading *reading,
                       enum wr_store_kind kind)
{
    only_one(ld, value, &reading->server, "url, sentinel or cluster");
    reading->store->kind = kind;
}

static void read_url(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct reading *reading = into;
    struct wr_policy_store of_url = {0};

    set_server(ld, value, reading, WR_STORE_REDIS);
    if (!wr_read_store_url(ld, value, &of_url))
        return;
    reading->store->addresses = of_url.addresses;
    reading->store->address_count = of_url.address_count;
    /* What is said beside the URL goes before what it says. */
    if (reading->store->user == NULL)
        reading->store->user = of_url.user;
    if (reading->database == NULL)
        reading->store->database = of_url.database;
    if (of_url.password == NULL)
        return;
    only_one(ld, value, &reading->password, "one password, in url or beside it");
    reading->store->password = of_url.password;
}

static void read_master(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)wr_read_text(ld, value, "the name that the sentinels know the master by",
                       &((struct reading *)into)->store->master);
}

static void read_sentinels(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    read_addresses(ld, value, "nodes", false, ((struct reading *)into)->store);
}

static void read_sentinel_password(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    read_secret_text(ld, value, "password", &((struct reading *)into)->store->sentinel_password);
}

static void read_sentinel(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    static const struct wr_key keys[] = {
        {"master", read_master}, {"nodes", read_sentinels}, {"password", read_sentinel_password}};
    static const struct wr_map_spec spec = {"sentinel", keys, sizeof keys / sizeof keys[0], true};
    struct reading *reading = into;
    size_t before = ld->diag->errors;

    set_server(ld, value, reading, WR_STORE_SENTINEL);
    if (!wr_read_map(ld, value, &spec, reading) || ld->diag->errors != before)
        return;
    if (reading->store->master == NULL || reading->store->address_count == 0)
        wr_error(ld, value, "sentinel: expected master and nodes, found no %s",
                 reading->store->master == NULL ? "master" : "nodes");
}

static void read_cluster(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct reading *reading = into;

    set_server(ld, value, reading, WR_STORE_CLUSTER);
    read_addresses(ld, value, "cluster", false, reading->store);
}

static void set_kind(struct wr_loader *ld, const struct wr_yaml *value, struct reading *reading,
                     enum wr_store_kind kind)
{
    only_one(ld, value, &reading->kind, "redis, memcached or ring");
    reading->store->kind = kind;
}

static void read_redis(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    static const struct wr_key keys[] = {
        {"url", read_url},           {"sentinel", read_sentinel},
        {"cluster", read_cluster},   {"user", read_user},
        {"password", read_password}, {"password_file", read_password_file},
        {"database", read_database},
    };
    static const struct wr_map_spec spec = {"redis", keys, sizeof keys / sizeof keys[0], true};
    struct reading *reading = into;

    set_kind(ld, value, reading, WR_STORE_REDIS);
    if (!wr_read_map(ld, value, &spec, reading))
        return;
    if (reading->server == NULL)
        wr_error(ld, value, "redis: expected url, sentinel or cluster, found none");
    if (reading->store->kind == WR_STORE_CLUSTER && reading->database != NULL)
        wr_error(ld, reading->database, "database: expected none, as a cluster has only 0");
    if (reading->store->user != NULL && reading->password == NULL)
        wr_error(ld, value, "redis: expected a password for the user, found none");
}

/* ---- memcached, ring --------------------------------------------------------------------- */

static void read_servers(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    read_addresses(ld, value, "servers", true, ((struct reading *)into)->store);
}

static void read_memcached(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    static const struct wr_key keys[] = {{"servers", read_servers}};
    static const struct wr_map_spec spec = {"memcached", keys, 1, false};
    struct reading *reading = into;
    size_t before = ld->diag->errors;

    set_kind(ld, value, reading, WR_STORE_MEMCACHED);
    if (!wr_read_map(ld, value, &spec, reading) || ld->diag->errors != before)
        return;
    if (reading->store->address_count == 0)
        wr_error(ld, value, "memcached: expected servers, found none");
    else
        wr_warning(ld, value->key,
                   "memcached forgets what it must when it is full and all when it restarts, and "
                   "has no clock of its own: limits may then let more through; redis and ring do "
                   "not");
}

static void read_self(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct reading *reading = into;

    reading->self = value;
    (void)wr_read_store_address(ld, value, "self", false, &reading->store->self);
}

static void read_peers(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    read_addresses(ld, value, "peers", false, ((struct reading *)into)->store);
}

static void read_dns(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)wr_read_store_address(ld, value, "dns", false, &((struct reading *)into)->store->dns);
}

/* This node and its peers, each once. */
static unsigned count_ring(const struct wr_policy_store *store)
{
    unsigned count = (unsigned)store->address_count + 1;

    for (size_t i = 0; i < store->address_count && store->self.text != NULL; i++)
        if (strcmp(store->addresses[i].text, store->self.text) == 0)
            count--;
    return count;
}

static bool is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 ||
           strcmp(host, "localhost") == 0;
}

static bool is_any(const char *host)
{
    struct in6_addr six;
    struct in_addr four;

    if (inet_pton(AF_INET, host, &four) == 1)
        return four.s_addr == INADDR_ANY;
    return inet_pton(AF_INET6, host, &six) == 1 && IN6_IS_ADDR_UNSPECIFIED(&six);
}

/* self is this node's name to the others: they must be able to reach it. */
static void check_self(struct wr_loader *ld, const struct reading *reading)
{
    const struct wr_policy_store *store = reading->store;

    if (is_any(store->self.host)) {
        wr_error(ld, reading->self,
                 "self: expected the address that the other nodes reach this one at, found %s",
                 store->self.text);
        return;
    }
    for (size_t i = 0; i < store->address_count && is_loopback(store->self.host); i++)
        if (!is_loopback(store->addresses[i].host)) {
            wr_warning(ld, reading->self,
                       "self is on loopback, where the peer %s cannot reach it: it will not be of "
                       "that one's ring",
                       store->addresses[i].text);
            return;
        }
}

static void read_ring(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    static const struct wr_key keys[] = {{"self", read_self},
                                         {"peers", read_peers},
                                         {"dns", read_dns},
                                         {"password", read_password},
                                         {"password_file", read_password_file}};
    static const struct wr_map_spec spec = {"ring", keys, sizeof keys / sizeof keys[0], true};
    struct reading *reading = into;
    struct wr_policy_store *store = reading->store;
    size_t before = ld->diag->errors;
    bool peers, dns;

    set_kind(ld, value, reading, WR_STORE_RING);
    if (!wr_read_map(ld, value, &spec, reading) || ld->diag->errors != before)
        return;
    if (store->self.text != NULL)
        check_self(ld, reading);
    peers = store->address_count > 0;
    dns = store->dns.host != NULL;
    if (store->self.text == NULL)
        wr_error(ld, value, "ring: expected self, the address of this node, found none");
    else if (peers == dns)
        wr_error(ld, value, "ring: expected peers or dns, found %s", peers ? "both" : "none");
    else if (reading->password == NULL && !is_loopback(store->self.host))
        wr_error(ld, value->key,
                 "ring: beyond loopback expected a password or password_file, found none");
    else if (reading->password == NULL)
        wr_warning(ld, value->key,
                   "a ring without a password takes charges from whoever reaches its port");
}

/* ---- the rest ---------------------------------------------------------------------------- */

static void read_mode(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    static const char *const choices[] = {"strict", "leased"};
    size_t i;

    if (wr_read_choice(ld, value, "mode", choices, 2, &i))
        ((struct reading *)into)->store->leased = i == 1;
}

static void read_deadline(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    const char *wrong = "expected a duration such as 20ms";
    int64_t ns = 0;
    size_t at = 0;

    if (wr_is_text(value))
        wrong = wr_duration_parse(wr_slice_of(value), &ns, &at);
    if (wrong != NULL) {
        wr_error_in(ld, value, at, "deadline %s: %s", wr_found(value).text, wrong);
        return;
    }
    if (ns > DEADLINE_MAX_NS) {
        wr_error(ld, value, "deadline: expected at most 10s, found %s", wr_found(value).text);
        return;
    }
    if (ns > DEADLINE_LONG_NS)
        wr_warning(ld, value,
                   "a deadline above 1s: requests wait for this long each time the store goes "
                   "away");
    ((struct reading *)into)->store->deadline_ns = ns;
}

static void read_prefix(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)wr_read_name(ld, value, "prefix", &((struct reading *)into)->store->prefix);
}

static void read_secret(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct reading *reading = into;

    only_one(ld, value, &reading->secret, "secret or secret_file");
    read_secret_text(ld, value, "secret", &reading->store->secret);
    if (wr_is_text(value) && value->len < SECRET_BYTES_GOOD)
        wr_warning(ld, value, "secret: fewer than %d characters can be guessed", SECRET_BYTES_GOOD);
}

static void read_secret_file(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct reading *reading = into;

    only_one(ld, value, &reading->secret, "secret or secret_file");
    (void)wr_read_file(ld, value, "the path of a file with the secret of the keys",
                       &reading->store->secret_file, &reading->store->secret_file_at);
}

static void read_nodes(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    int64_t nodes;

    if (wr_read_int(ld, value, "nodes", 1, NODES_MAX, &nodes))
        ((struct reading *)into)->store->nodes = (unsigned)nodes;
}

static void read_when_gone(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    size_t i;

    if (wr_read_choice(ld, value, "when_gone", wr_when_gone_names, 3, &i))
        ((struct reading *)into)->store->when_gone = (enum wr_when_gone)i;
}

static void read_agent(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct wr_policy_store *store = ((struct reading *)into)->store;
    struct wr_policy_address address;

    if (!wr_is_text(value) || strncmp(value->text, "unix:", 5) != 0) {
        wr_error(ld, value, "agent: expected unix:/absolute/path, found %s", wr_found(value).text);
    } else if (wr_read_store_address(ld, value, "agent", true, &address)) {
        store->agent_path = address.path;
        store->agent_written = true;
        store->agent_at = wr_place_of(value);
    }
}

static void read_share_all(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)into;
    (void)wr_read_bool(ld, value, "shared", &ld->share_all);
}

void wr_read_store(struct wr_loader *ld)
{
    static const struct wr_key keys[] = {
        {"redis", read_redis},       {"memcached", read_memcached},
        {"ring", read_ring},         {"mode", read_mode},
        {"deadline", read_deadline}, {"prefix", read_prefix},
        {"secret", read_secret},     {"secret_file", read_secret_file},
        {"nodes", read_nodes},       {"when_gone", read_when_gone},
        {"agent", read_agent},       {"shared", read_share_all},
    };
    static const struct wr_map_spec spec = {"store", keys, sizeof keys / sizeof keys[0], true};
    const struct wr_yaml *node = ld->sections[WR_SECTION_STORE];
    struct reading reading = {0};

    if (node == NULL)
        return;
    reading.store = wr_region_take(ld->region, 1, sizeof *reading.store);
    if (reading.store == NULL)
        return;
    *reading.store = (struct wr_policy_store){.deadline_ns = DEADLINE_DEFAULT_NS,
                                              .prefix = "weir",
                                              .when_gone = WR_GONE_LOCAL,
                                              .agent_path = AGENT_DEFAULT};
    ld->policy->settings.store = reading.store;
    if (!wr_read_map(ld, node, &spec, &reading))
        return;
    if (reading.kind == NULL)
        wr_error(ld, node, "store: expected redis, memcached or ring, found none");
    if (reading.store->nodes == 0)
        reading.store->nodes = reading.store->kind == WR_STORE_RING ? count_ring(reading.store) : 1;
}
