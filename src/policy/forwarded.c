/* forwarded.c - X-Forwarded-For, Forwarded and single-valued headers.
 *
 * Problem. Everything in a forwarding header left of what our own proxies wrote is the caller's
 * free text. Whoever reads the left-most entry lets callers choose their address.
 *
 * Idea. Only the right end can be trusted: the peer wrote the last entry, the host named there the
 * one before, and so on for as long as the host that wrote is one of ours.
 *
 * Invariants:
 *   1. An entry is looked at only if the address before it (to its right, first the peer) is
 *      trusted, or lies within the fixed number of hops.
 *   2. An entry that does not parse is never skipped: it ends the walk.
 *   3. Forwarded is read from the left, as its quotes require. A malformed element (a quote that
 * the caller left open, say) is unusable up to the first comma after its start, quoted or not, and
 *      no further: otherwise a caller could void what our proxy has appended, and be counted, or
 *      banned, as the proxy.
 *
 * Source: RFC 7239 section 4 (Forwarded); X-Forwarded-For as nginx's realip module with
 * real_ip_recursive reads it. */
#include "policy/forwarded.h"

#include <string.h>
#include <strings.h>

#include "policy/bytes.h"

/* May the walk go on to the entry that |current|, reached by |walked| entries, has written? */
static bool may_go_on(const struct wr_client_rule *rule, const struct wr_ip *current,
                      unsigned walked)
{
    if (rule->hops > 0)
        return walked < rule->hops &&
               (walked > 0 || rule->trusted.count == 0 || wr_netset_holds(&rule->trusted, current));
    return walked < WR_HOPS_MAX && wr_netset_holds(&rule->trusted, current);
}

/* Cut the last entry off |list|. False: there is none. */
static bool take_last(struct weir_slice *list, struct weir_slice *entry)
{
    const char *comma;

    if (list->ptr == NULL)
        return false;
    comma = list->len > 0 ? memrchr(list->ptr, ',', list->len) : NULL;
    if (comma == NULL) {
        *entry = *list;
        *list = (struct weir_slice){NULL, 0};
        return true;
    }
    *entry = (struct weir_slice){comma + 1, (size_t)(list->ptr + list->len - comma) - 1};
    list->len = (size_t)(comma - list->ptr);
    return true;
}

static struct wr_ip walk_xff(const struct wr_client_rule *rule, struct wr_ip current,
                             struct weir_slice list)
{
    struct weir_slice entry;
    struct wr_ip next;

    for (unsigned walked = 0; may_go_on(rule, &current, walked) && take_last(&list, &entry);
         walked++) {
        if (!wr_ip_parse_hostport(entry, &next))
            break;
        current = next;
    }
    return current;
}

/* ---- Forwarded --------------------------------------------------------------------------- */

struct scan {
    const char *p;
    const char *end;
};

static void skip_blanks(struct scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t'))
        s->p++;
}

/* A token of RFC 9110. */
static struct weir_slice take_token(struct scan *s)
{
    struct weir_slice token = {s->p, 0};

    while (s->p < s->end && wr_is_token_byte(*s->p))
        s->p++;
    token.len = (size_t)(s->p - token.ptr);
    return token;
}

/* A quoted string, of which what stands between the quotes; s->p is at the first quote. An address
 * has nothing to escape: a value with a backslash is no address, and stays one. False: no end. */
static bool take_quoted(struct scan *s, struct weir_slice *value)
{
    const char *start = ++s->p;

    for (; s->p < s->end && *s->p != '"'; s->p++)
        if (*s->p == '\\' && ++s->p == s->end)
            return false;
    if (s->p >= s->end)
        return false;
    *value = (struct weir_slice){start, (size_t)(s->p - start)};
    s->p++;
    return true;
}

/* A value without quotes. Stricter than RFC 7239 needs not be: ports and brackets without quotes
 * are what some proxies write. */
static struct weir_slice take_bare(struct scan *s)
{
    struct weir_slice value = {s->p, 0};

    while (s->p < s->end && (unsigned char)*s->p > 0x20 && (unsigned char)*s->p < 0x7f &&
           *s->p != '"' && *s->p != ',' && *s->p != ';')
        s->p++;
    value.len = (size_t)(s->p - value.ptr);
    return value;
}

/* name=value. False: malformed. */
static bool take_pair(struct scan *s, struct weir_slice *node)
{
    struct weir_slice name = take_token(s), value;

    if (name.len == 0)
        return true; /* nothing between two separators */
    if (s->p == s->end || *s->p++ != '=')
        return false;
    if (s->p < s->end && *s->p == '"') {
        if (!take_quoted(s, &value))
            return false;
    } else {
        value = take_bare(s);
    }
    if (name.len != 3 || strncasecmp(name.ptr, "for", 3) != 0)
        return true;
    if (node->ptr != NULL)
        return false; /* each at most once */
    *node = value;
    return true;
}

/* Read one element, up to its comma or the end. |*node| is the value of its "for"; ptr NULL: it has
 * none. False: malformed. */
static bool take_element(struct scan *s, struct weir_slice *node)
{
    *node = (struct weir_slice){NULL, 0};
    for (;;) {
        skip_blanks(s);
        if (!take_pair(s, node))
            return false;
        skip_blanks(s);
        if (s->p == s->end || *s->p == ',')
            return true;
        if (*s->p++ != ';')
            return false;
    }
}

/* Read the elements of |header|; |ring| keeps the "for" of the last ones. Returns how many there
 * were. */
static size_t read_elements(struct weir_slice header, struct weir_slice ring[WR_HOPS_MAX])
{
    struct scan s = {header.ptr, header.ptr + header.len};
    size_t count = 0;

    for (;; s.p++) { /* the comma */
        const char *start = s.p;
        struct weir_slice *node = &ring[count++ % WR_HOPS_MAX];
        if (!take_element(&s, node)) {
            node->ptr = NULL;
            s.p = memchr(start, ',', (size_t)(s.end - start));
            if (s.p == NULL)
                s.p = s.end;
        }
        if (s.p == s.end)
            return count;
    }
}

static struct wr_ip walk_forwarded(const struct wr_client_rule *rule, struct wr_ip current,
                                   struct weir_slice header)
{
    struct weir_slice ring[WR_HOPS_MAX]; /* ptr NULL: unusable */
    size_t count = header.ptr != NULL ? read_elements(header, ring) : 0;

    for (unsigned walked = 0; walked < count && may_go_on(rule, &current, walked); walked++) {
        struct weir_slice node = ring[(count - 1 - walked) % WR_HOPS_MAX];
        struct wr_ip next;
        if (node.ptr == NULL || !wr_ip_parse_hostport(node, &next))
            break;
        current = next;
    }
    return current;
}

struct wr_ip wr_client_find(const struct wr_client_rule *rule, const struct wr_ip *peer,
                            struct weir_slice header)
{
    struct wr_ip client = *peer;

    switch (rule->from) {
    case WR_FROM_XFF:
        return walk_xff(rule, client, header);
    case WR_FROM_FORWARDED:
        return walk_forwarded(rule, client, header);
    case WR_FROM_SINGLE:
        if (header.ptr != NULL && may_go_on(rule, peer, 0) &&
            !wr_ip_parse_hostport(header, &client))
            client = *peer;
        return client;
    case WR_FROM_PEER:
    default:
        return client;
    }
}
