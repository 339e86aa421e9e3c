/* store_address.c - where a store is: HOST:PORT, a unix socket, a redis:// URL.
 *
 * A URL holds a password in clear, and whoever mistypes one may put it where an address is
 * expected. So no message quotes a URL, or any text with an @ in it: place and expectation must do.
 *
 * Invariant: an address has either a path or a host and a port above 0. Names are not looked up
 * here: a check of a policy needs no network. */
#include <stdio.h>
#include <string.h>

#include "policy/loader.h"
#include "policy/rate.h"

#define HOST_MAX 253 /* of a name in the DNS */
#define SOCKET_PATH_MAX 107
#define REDIS_PORT 6379
#define DATABASES_MAX 65535
#define SECRET_MAX 512 /* bytes of a user or password in a URL */

/* ---- HOST:PORT --------------------------------------------------------------------------- */

static bool is_host(struct weir_slice host)
{
    for (size_t i = 0; i < host.len; i++) {
        char c = host.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '.' || c == '_' || c == '-'))
            return false;
    }
    return host.len > 0 && host.len <= HOST_MAX;
}

static bool is_ipv6(struct weir_slice text)
{
    struct wr_ip ip;
    return memchr(text.ptr, ':', text.len) != NULL && wr_ip_parse(text, &ip);
}

/* "host:port", "[::1]:port"; without a port |port| as it stands. Texts are views of |text|. */
static bool split(struct weir_slice text, struct weir_slice *host, uint16_t *port)
{
    const char *end = text.ptr + text.len;
    const char *colon = memrchr(text.ptr, ':', text.len);
    bool bracketed = text.len > 2 && text.ptr[0] == '[';
    int64_t value = *port;
    size_t at;

    if (bracketed && colon != NULL && colon[-1] != ']')
        colon = NULL; /* one of the address */
    if (colon != NULL && (wr_count_parse((struct weir_slice){colon + 1, (size_t)(end - colon - 1)},
                                         65535, &value, &at) != NULL))
        return false;
    *port = (uint16_t)value;
    *host = (struct weir_slice){text.ptr, (size_t)((colon != NULL ? colon : end) - text.ptr)};
    if (value == 0)
        return false;
    if (!bracketed)
        return is_host(*host);
    if (host->ptr[host->len - 1] != ']')
        return false;
    *host = (struct weir_slice){host->ptr + 1, host->len - 2};
    return is_ipv6(*host);
}

static bool keep_host(struct wr_loader *ld, struct weir_slice host, uint16_t port,
                      struct wr_policy_address *out)
{
    bool six = memchr(host.ptr, ':', host.len) != NULL;
    char text[HOST_MAX + sizeof "[]:65535"];
    int len = snprintf(text, sizeof text, "%s%.*s%s:%u", six ? "[" : "", (int)host.len, host.ptr,
                       six ? "]" : "", port);

    *out = (struct wr_policy_address){.port = port};
    out->host = wr_region_text(ld->region, host.ptr, host.len);
    out->text = wr_region_text(ld->region, text, (size_t)len);
    return out->host != NULL && out->text != NULL;
}

static bool keep_path(struct wr_loader *ld, struct weir_slice path, struct wr_policy_address *out)
{
    char text[SOCKET_PATH_MAX + sizeof "unix:"];
    int len = snprintf(text, sizeof text, "unix:%.*s", (int)path.len, path.ptr);

    *out = (struct wr_policy_address){0};
    out->path = wr_region_text(ld->region, path.ptr, path.len);
    out->text = wr_region_text(ld->region, text, (size_t)len);
    return out->path != NULL && out->text != NULL;
}

static bool is_path(struct weir_slice path)
{
    return path.len > 0 && path.len <= SOCKET_PATH_MAX && path.ptr[0] == '/';
}

bool wr_read_store_address(struct wr_loader *ld, const struct wr_yaml *value, const char *what,
                           bool socket, struct wr_policy_address *out)
{
    struct weir_slice text = wr_slice_of(value), host;
    bool secretive = value->kind != WR_YAML_SCALAR || strchr(value->text, '@') != NULL;
    uint16_t port = 0;

    *out = (struct wr_policy_address){0};
    if (wr_is_text(value) && socket && strncmp(value->text, "unix:", 5) == 0) {
        struct weir_slice path = {text.ptr + 5, text.len - 5};
        if (is_path(path))
            return keep_path(ld, path, out);
    } else if (wr_is_text(value) && split(text, &host, &port)) {
        return keep_host(ld, host, port, out);
    }
    wr_error(ld, value, "%s: expected HOST:PORT, \"[::1]:PORT\"%s, found %s", what,
             socket ? " or unix:/absolute/path" : "",
             secretive ? wr_found_kind(value) : wr_found(value).text);
    return false;
}

/* ---- URLs -------------------------------------------------------------------------------- */

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* |text| with its %XX decoded. NULL: not well formed, with a NUL inside, or too long. */
static const char *decoded(struct wr_loader *ld, struct weir_slice text)
{
    char out[SECRET_MAX];
    size_t len = 0;

    for (size_t i = 0; i < text.len; i++) {
        int c = (unsigned char)text.ptr[i];
        if (c == '%') {
            int high = i + 2 < text.len ? hex(text.ptr[i + 1]) : -1;
            int low = i + 2 < text.len ? hex(text.ptr[i + 2]) : -1;
            if (high < 0 || low < 0 || high + low == 0)
                return NULL;
            c = high * 16 + low;
            i += 2;
        }
        if (len == sizeof out)
            return NULL;
        out[len++] = (char)c;
    }
    return wr_region_text(ld->region, out, len);
}

/* user:password, user, :password. */
static const char *parse_user(struct wr_loader *ld, struct weir_slice text,
                              struct wr_policy_store *store)
{
    static const char wrong[] = "expected user:password before @, with %XX for what is special";
    const char *colon = memchr(text.ptr, ':', text.len);
    size_t user_len = colon != NULL ? (size_t)(colon - text.ptr) : text.len;

    if (user_len > 0) {
        store->user = decoded(ld, (struct weir_slice){text.ptr, user_len});
        if (store->user == NULL)
            return wrong;
    }
    if (colon != NULL && text.len > user_len + 1) {
        store->password = decoded(ld, (struct weir_slice){colon + 1, text.len - user_len - 1});
        if (store->password == NULL)
            return wrong;
    }
    return NULL;
}

static const char *parse_database(struct weir_slice text, struct wr_policy_store *store)
{
    int64_t value = 0;
    size_t at;

    if (text.len > 0 && wr_count_parse(text, DATABASES_MAX, &value, &at) != NULL)
        return "expected the database as a number";
    store->database = (unsigned)value;
    return NULL;
}

static const char *parse_redis(struct wr_loader *ld, struct weir_slice rest,
                               struct wr_policy_store *store, struct wr_policy_address *address)
{
    const char *at = memrchr(rest.ptr, '@', rest.len), *slash, *end = rest.ptr + rest.len;
    const char *wrong = NULL;
    struct weir_slice host, place;
    uint16_t port = REDIS_PORT;

    if (at != NULL)
        wrong = parse_user(ld, (struct weir_slice){rest.ptr, (size_t)(at - rest.ptr)}, store);
    if (wrong != NULL)
        return wrong;
    place.ptr = at != NULL ? at + 1 : rest.ptr;
    place.len = (size_t)(end - place.ptr);
    slash = memchr(place.ptr, '/', place.len);
    if (slash != NULL) {
        wrong = parse_database((struct weir_slice){slash + 1, (size_t)(end - slash - 1)}, store);
        place.len = (size_t)(slash - place.ptr);
    }
    if (wrong != NULL)
        return wrong;
    if (place.len == 0 || !split(place, &host, &port))
        return "expected a host, and a port or none";
    (void)keep_host(ld, host, port, address);
    return NULL;
}

static const char *parse_unix(struct wr_loader *ld, struct weir_slice rest,
                              struct wr_policy_store *store, struct wr_policy_address *address)
{
    const char *query = memchr(rest.ptr, '?', rest.len);
    struct weir_slice path = {rest.ptr, query != NULL ? (size_t)(query - rest.ptr) : rest.len};

    if (!is_path(path))
        return "expected an absolute path of at most 107 bytes";
    if (query != NULL) {
        size_t len = rest.len - path.len;
        if (len < 4 || memcmp(query, "?db=", 4) != 0)
            return "expected ?db=N or nothing behind the path";
        if (parse_database((struct weir_slice){query + 4, len - 4}, store) != NULL)
            return "expected the database as a number";
    }
    (void)keep_path(ld, path, address);
    return NULL;
}

static struct weir_slice after(const struct wr_yaml *value, const char *scheme)
{
    size_t len = strlen(scheme);

    if (strncmp(value->text, scheme, len) != 0)
        return (struct weir_slice){NULL, 0};
    return (struct weir_slice){value->text + len, value->len - len};
}

bool wr_read_store_url(struct wr_loader *ld, const struct wr_yaml *value,
                       struct wr_policy_store *store)
{
    const char *wrong = "expected redis://host:port/database or unix:///path?db=N";
    struct wr_policy_address *address = wr_region_take(ld->region, 1, sizeof *address);
    struct weir_slice rest;

    if (address == NULL)
        return false;
    if (wr_is_text(value) && (rest = after(value, "redis://")).ptr != NULL)
        wrong = parse_redis(ld, rest, store, address);
    else if (wr_is_text(value) && (rest = after(value, "unix://")).ptr != NULL)
        wrong = parse_unix(ld, rest, store, address);
    else if (wr_is_text(value) && after(value, "rediss://").ptr != NULL)
        wrong = "this build's hiredis has no TLS: use a TLS tunnel such as stunnel, or a unix "
                "socket";
    if (wrong != NULL) {
        wr_error(ld, value, "url: %s", wrong);
        return false;
    }
    store->addresses = address;
    store->address_count = 1;
    return !ld->region->failed;
}
