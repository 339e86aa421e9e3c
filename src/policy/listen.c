/* listen.c - the section `listen`: where the daemon's doors open, and to whom.
 *
 * Only `weir serve` opens anything; the gateway and replay read past these settings. Addresses are
 * taken apart here, so that a mistake has its place in the file: names of hosts are not looked up,
 * as an answer that changes would move a door.
 *
 * Invariants:
 *   1. A listener has either a path (a unix socket) or an address and a port.
 *   2. The admin door beyond this machine has a token. */
#include <string.h>

#include "base/units.h"
#include "policy/loader.h"
#include "policy/rate.h"

#define LISTENERS_MAX 64 /* over all doors */
#define SOCKET_PATH_MAX 107
#define THREADS_MAX 256
#define TOKEN_BYTES_GOOD 16
#define DRAIN_DEFAULT_NS (INT64_C(10) * 1000000000)
#define UNSENT_BYTES_DEFAULT (UINT64_C(64) << 20)
#define UNSENT_BYTES_MIN (UINT64_C(1) << 20)
#define UNSENT_BYTES_MAX (UINT64_C(1) << 40)

struct reading {
    const char *door;
    struct wr_policy_listener *all; /* LISTENERS_MAX, of the policy */
    const struct wr_yaml *nodes[LISTENERS_MAX];
    bool crowded;                       /* there are more, which was said */
    const struct wr_yaml *admin_remote; /* an address of the admin door that is not loopback */
    const struct wr_yaml *token, *password;
};

static bool is_loopback(const struct wr_policy_listener *listener)
{
    static const struct wr_ip six = {{[15] = 1}};

    return listener->path != NULL ||
           (wr_ip_is_v4(&listener->ip) && listener->ip.bytes[12] == 127) ||
           memcmp(&listener->ip, &six, sizeof six) == 0;
}

/* ---- addresses --------------------------------------------------------------------------- */

static bool parse_port(struct weir_slice text, uint16_t *port)
{
    int64_t value;
    size_t at;

    if (text.len == 0 || wr_count_parse(text, 65535, &value, &at) != NULL)
        return false;
    *port = (uint16_t)value;
    return true;
}

/* "127.0.0.1:80", "[::1]:80", "localhost:80". */
static bool parse_host_port(struct weir_slice text, struct wr_policy_listener *out)
{
    const char *colon = memrchr(text.ptr, ':', text.len);
    struct weir_slice host;
    bool bracketed;

    if (colon == NULL)
        return false;
    host = (struct weir_slice){text.ptr, (size_t)(colon - text.ptr)};
    if (!parse_port((struct weir_slice){colon + 1, text.len - host.len - 1}, &out->port))
        return false;
    if (host.len == 9 && memcmp(host.ptr, "localhost", 9) == 0)
        host = (struct weir_slice){"127.0.0.1", 9};
    bracketed = host.len > 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']';
    if (bracketed)
        host = (struct weir_slice){host.ptr + 1, host.len - 2};
    /* Without brackets only IPv4: where would the port of 1:2:3 begin? */
    return bracketed == (memchr(host.ptr, ':', host.len) != NULL) && wr_ip_parse(host, &out->ip);
}

static bool parse_path(struct wr_loader *ld, const struct wr_yaml *value,
                       struct wr_policy_listener *out)
{
    size_t skip = strlen("unix:"), len = value->len - skip;

    if (len == 0 || value->text[skip] != '/' || len > SOCKET_PATH_MAX) {
        wr_error(ld, value,
                 "%s: expected an absolute path of at most %d bytes after unix:, found %s",
                 out->door, SOCKET_PATH_MAX, wr_found(value).text);
        return false;
    }
    out->path = wr_region_text(ld->region, value->text + skip, len);
    return out->path != NULL;
}

static bool read_address(struct wr_loader *ld, const struct wr_yaml *value,
                         struct wr_policy_listener *out)
{
    bool text = wr_is_text(value);

    if (text && strncmp(value->text, "unix:", 5) == 0) {
        if (!parse_path(ld, value, out))
            return false;
    } else if (!text || !parse_host_port(wr_slice_of(value), out)) {
        wr_error(ld, value,
                 "%s: expected an address such as 127.0.0.1:8080, \"[::1]:8080\" or unix:/path, "
                 "found %s",
                 out->door, wr_found(value).text);
        return false;
    }
    out->address = wr_keep(ld, value);
    out->at = wr_place_of(value);
    return out->address != NULL;
}

/* ---- TLS --------------------------------------------------------------------------------- */

static void read_certificate(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct wr_policy_tls *tls = into;

    (void)wr_read_file(ld, value, "the path of a file with the certificate and its chain",
                       &tls->certificate, &tls->certificate_at);
}

static void read_key(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct wr_policy_tls *tls = into;

    (void)wr_read_file(ld, value, "the path of a file with the private key", &tls->key,
                       &tls->key_at);
}

static void read_client_ca(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct wr_policy_tls *tls = into;

    (void)wr_read_file(ld, value, "the path of a file with the authorities of client certificates",
                       &tls->client_ca, &tls->client_ca_at);
}

static void read_tls(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    static const struct wr_key keys[] = {
        {"certificate", read_certificate}, {"key", read_key}, {"client_ca", read_client_ca}};
    static const struct wr_map_spec spec = {"tls", keys, sizeof keys / sizeof keys[0], false};
    struct wr_policy_listener *listener = into;
    struct wr_policy_tls *tls = wr_region_take(ld->region, 1, sizeof *tls);
    size_t before = ld->diag->errors;

    if (tls == NULL || !wr_read_map(ld, value, &spec, tls))
        return;
    if (ld->diag->errors == before && (tls->certificate == NULL || tls->key == NULL))
        wr_error(ld, value, "tls: expected certificate and key, found no %s",
                 tls->certificate == NULL ? "certificate" : "key");
    listener->tls = tls;
}

/* ---- listeners --------------------------------------------------------------------------- */

static void read_address_key(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)read_address(ld, value, into);
}

static bool same_place(const struct wr_policy_listener *a, const struct wr_policy_listener *b)
{
    if (a->path != NULL || b->path != NULL)
        return a->path != NULL && b->path != NULL && strcmp(a->path, b->path) == 0;
    return a->port != 0 && a->port == b->port && memcmp(&a->ip, &b->ip, sizeof a->ip) == 0;
}

static bool read_listener(struct wr_loader *ld, const struct wr_yaml *item,
                          struct wr_policy_listener *listener)
{
    static const struct wr_key keys[] = {{"address", read_address_key}, {"tls", read_tls}};
    static const struct wr_map_spec spec = {"an address with options", keys,
                                            sizeof keys / sizeof keys[0], false};
    size_t before = ld->diag->errors;

    if (item->kind != WR_YAML_MAP)
        return read_address(ld, item, listener);
    if (!wr_read_map(ld, item, &spec, listener))
        return false;
    if (listener->address == NULL && ld->diag->errors == before)
        wr_error(ld, item, "%s: expected an address, found none", listener->door);
    return listener->address != NULL;
}

static void add_listener(struct wr_loader *ld, const struct wr_yaml *item, struct reading *reading)
{
    struct wr_policy_settings *settings = &ld->policy->settings;
    size_t count = settings->listener_count;
    struct wr_policy_listener *listener;

    if (count == LISTENERS_MAX) {
        if (!reading->crowded)
            wr_error(ld, item, "listen: expected at most %d addresses", LISTENERS_MAX);
        reading->crowded = true;
        return;
    }
    listener = &reading->all[count];
    listener->door = reading->door;
    if (!read_listener(ld, item, listener)) {
        memset(listener, 0, sizeof *listener);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (!same_place(&reading->all[i], listener))
            continue;
        wr_error(ld, item, "%s: %s is taken by line %u already", listener->door, listener->address,
                 reading->nodes[i]->line);
        return;
    }
    reading->nodes[count] = item;
    settings->listener_count++;
    if (strcmp(listener->door, "admin") == 0 && !is_loopback(listener) &&
        reading->admin_remote == NULL)
        reading->admin_remote = item;
}

static void read_door(struct wr_loader *ld, const struct wr_yaml *value, struct reading *reading,
                      const char *door)
{
    reading->door = door;
    if (value->kind == WR_YAML_LIST && value->count == 0)
        wr_error(ld, value, "%s: expected at least one address, found an empty list", door);
    for (const struct wr_yaml *item = wr_first_item(value); item != NULL;
         item = wr_next_item(value, item))
        add_listener(ld, item, reading);
}

#define DOOR_READER(door)                                                                  \
    static void read_##door(struct wr_loader *ld, const struct wr_yaml *value, void *into) \
    {                                                                                      \
        read_door(ld, value, into, #door);                                                 \
    }
DOOR_READER(http)
DOOR_READER(grpc)
DOOR_READER(resp)
DOOR_READER(admin)

/* ---- the rest ---------------------------------------------------------------------------- */

static void take_token(struct wr_loader *ld, const struct wr_yaml *value, struct reading *reading)
{
    if (reading->token != NULL)
        wr_error(ld, value, "listen: expected admin_token or admin_token_file, found both");
    reading->token = value;
}

static void read_token(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    bool good = wr_is_text(value);

    for (size_t i = 0; good && i < value->len; i++)
        good = value->text[i] > 0x20 && value->text[i] < 0x7f;
    take_token(ld, value, into);
    if (!good)
        wr_error(ld, value, "admin_token: expected visible ASCII characters without blanks");
    else if (value->len < TOKEN_BYTES_GOOD)
        wr_warning(ld, value, "admin_token: fewer than %d characters can be guessed",
                   TOKEN_BYTES_GOOD);
    if (good)
        ld->policy->settings.admin_token = wr_keep(ld, value);
}

static void read_token_file(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    take_token(ld, value, into);
    (void)wr_read_file(ld, value, "the path of a file with the admin door's token",
                       &ld->policy->settings.admin_token_file,
                       &ld->policy->settings.admin_token_file_at);
}

static void take_password(struct wr_loader *ld, const struct wr_yaml *value,
                          struct reading *reading)
{
    if (reading->password != NULL)
        wr_error(ld, value, "listen: expected resp_password or resp_password_file, found both");
    reading->password = value;
}

static void read_password(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    take_password(ld, value, into);
    if (!wr_is_text(value) || value->len == 0)
        wr_error(ld, value, "resp_password: expected a password");
    else
        ld->policy->settings.resp_password = wr_keep(ld, value);
}

static void read_password_file(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    take_password(ld, value, into);
    (void)wr_read_file(ld, value, "the path of a file with the resp door's password",
                       &ld->policy->settings.resp_password_file,
                       &ld->policy->settings.resp_password_file_at);
}

static void read_threads(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    int64_t threads;

    (void)into;
    if (wr_read_int(ld, value, "threads", 1, THREADS_MAX, &threads))
        ld->policy->settings.threads = (unsigned)threads;
}

/* A duration of at most |hours|. */
static void read_wait(struct wr_loader *ld, const struct wr_yaml *value, const char *name,
                      int hours, int64_t *out)
{
    const char *wrong = "expected a duration such as 10s";
    int64_t ns = 0;
    size_t at = 0;

    if (wr_is_text(value))
        wrong = wr_duration_parse(wr_slice_of(value), &ns, &at);
    if (wrong != NULL)
        wr_error_in(ld, value, at, "%s %s: %s", name, wr_found(value).text, wrong);
    else if (ns > hours * WR_NS_PER_HOUR)
        wr_error(ld, value, "%s: expected at most %dh, found %s", name, hours,
                 wr_found(value).text);
    else
        *out = ns;
}

static void read_drain(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)into;
    read_wait(ld, value, "drain", 1, &ld->policy->settings.drain_ns);
}

static void read_idle(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)into;
    read_wait(ld, value, "idle_timeout", 24, &ld->policy->settings.idle_ns);
}

static void read_stall(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)into;
    read_wait(ld, value, "stall_timeout", 1, &ld->policy->settings.stall_ns);
}

/* Redis' own default, and why others' data was lost: whoever reaches the port may spend and reset
 * every count. */
static void warn_open_resp(struct wr_loader *ld, const struct reading *reading)
{
    for (size_t i = 0; i < ld->policy->settings.listener_count; i++) {
        const struct wr_policy_listener *listener = &reading->all[i];
        if (strcmp(listener->door, "resp") != 0 || is_loopback(listener) ||
            (listener->tls != NULL && listener->tls->client_ca != NULL))
            continue;
        wr_warning(ld, reading->nodes[i],
                   "resp: other machines can reach %s, and without a password anyone there may "
                   "spend and reset every count: give it a resp_password_file, or tls with a "
                   "client_ca",
                   listener->address);
    }
}

/* These have no password at all: whoever reaches them may spend what others have. Beside proxies on
 * other machines that is meant; who is else there is to be thought of. */
static void warn_open_doors(struct wr_loader *ld, const struct reading *reading)
{
    for (size_t i = 0; i < ld->policy->settings.listener_count; i++) {
        const struct wr_policy_listener *listener = &reading->all[i];
        bool asks = strcmp(listener->door, "http") == 0 || strcmp(listener->door, "grpc") == 0;
        if (!asks || is_loopback(listener) ||
            (listener->tls != NULL && listener->tls->client_ca != NULL))
            continue;
        wr_warning(ld, reading->nodes[i],
                   "%s: other machines can reach %s, and anyone there may spend every count: let a "
                   "firewall pass your proxies alone, or give it tls with a client_ca",
                   listener->door, listener->address);
    }
}

static void read_unsent(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    const char *wrong;
    uint64_t bytes;
    size_t at;

    (void)into;
    if (!wr_is_text(value)) {
        wr_error(ld, value, "unsent_max: expected a size such as 64MiB, found %s",
                 wr_found_kind(value));
        return;
    }
    wrong = wr_size_parse(wr_slice_of(value), &bytes, &at);
    if (wrong != NULL)
        wr_error_in(ld, value, at, "unsent_max %s: %s", wr_found(value).text, wrong);
    else if (bytes < UNSENT_BYTES_MIN || bytes > UNSENT_BYTES_MAX)
        wr_error(ld, value, "unsent_max: expected 1MiB to 1TiB, found %s", wr_found(value).text);
    else
        ld->policy->settings.unsent_bytes_max = bytes;
}

void wr_read_listen(struct wr_loader *ld)
{
    static const struct wr_key keys[] = {
        {"http", read_http},
        {"grpc", read_grpc},
        {"resp", read_resp},
        {"admin", read_admin},
        {"threads", read_threads},
        {"drain", read_drain},
        {"idle_timeout", read_idle},
        {"stall_timeout", read_stall},
        {"unsent_max", read_unsent},
        {"admin_token", read_token},
        {"admin_token_file", read_token_file},
        {"resp_password", read_password},
        {"resp_password_file", read_password_file},
    };
    static const struct wr_map_spec spec = {"listen", keys, sizeof keys / sizeof keys[0], false};
    const struct wr_yaml *node = ld->sections[WR_SECTION_LISTEN];
    struct reading reading = {0};

    ld->policy->settings.drain_ns = DRAIN_DEFAULT_NS;
    ld->policy->settings.unsent_bytes_max = UNSENT_BYTES_DEFAULT;
    if (node == NULL)
        return;
    reading.all = wr_region_take(ld->region, LISTENERS_MAX, sizeof *reading.all);
    if (reading.all == NULL)
        return;
    ld->policy->settings.listeners = reading.all;
    (void)wr_read_map(ld, node, &spec, &reading);
    warn_open_doors(ld, &reading);
    if (reading.password == NULL)
        warn_open_resp(ld, &reading);
    if (reading.admin_remote != NULL && reading.token == NULL)
        wr_error(ld, reading.admin_remote,
                 "admin: an address that other machines can reach needs an admin_token or "
                 "admin_token_file");
}
