/* origin.c - requests that a browser sends for others.
 *
 * The problem. A door on a loopback address is out of other machines' reach, but not out of reach
 * of the web pages that are open on this one: a page can have its browser POST to any address, and
 * by a name whose DNS answer changes to 127.0.0.1 it can read the answers too.
 *
 * The idea. A browser tells: Origin says which site the page is of, Host the name that it used.
 * Programs send no Origin, and an address or localhost as Host.
 *
 * Rejected: a list of names that are allowed, as nobody would keep it; the token is the way. */
#include "doors/origin.h"

#include <string.h>

#include "base/ipaddr.h"

/* "localhost:9180" -> "localhost". */
static struct weir_slice without_port(struct weir_slice host)
{
    const char *colon = memrchr(host.ptr, ':', host.len);

    if (colon != NULL && memchr(colon, ']', host.len - (size_t)(colon - host.ptr)) == NULL)
        host.len = (size_t)(colon - host.ptr);
    return host;
}

static bool is_local_name(struct weir_slice host)
{
    struct wr_ip ip;

    return wr_http_name_is(without_port(host), "localhost") || wr_ip_parse_hostport(host, &ip);
}

/* Is |origin| "http://" or "https://" and |host|? */
static bool is_of(struct weir_slice origin, struct weir_slice host)
{
    static const char *const schemes[] = {"http://", "https://"};

    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        size_t len = strlen(schemes[i]);
        if (origin.len == len + host.len && memcmp(origin.ptr, schemes[i], len) == 0 &&
            memcmp(origin.ptr + len, host.ptr, host.len) == 0)
            return true;
    }
    return false;
}

bool wr_origin_is_own(const struct wr_http_request *request)
{
    const struct wr_http_field *host = wr_http_find(request, "host");

    if (host != NULL && host->value.len > 0 && !is_local_name(host->value))
        return false;
    for (unsigned i = 0; i < request->field_count; i++)
        if (wr_http_name_is(request->field[i].name, "origin") &&
            (host == NULL || !is_of(request->field[i].value, host->value)))
            return false;
    return true;
}
