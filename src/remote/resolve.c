/* resolve.c - names are looked up anew at every connection, by threads of their own (lookup.c).
 *
 * A name may stand for several addresses (localhost: ::1 and 127.0.0.1) of which a server listens
 * on one; they are tried in the order that getaddrinfo gives (RFC 6724). After a failover the name
 * may stand for another server, so no address outlives its connection; but for what was looked up
 * for longer than somebody waited, which is good for his next attempt.
 *
 * Invariants:
 *   1. From a start to |done| the async handle is with libuv, and |running|; |done| comes when it
 *      is closed.
 *   2. A lookup is held by one reference, from the start until its addresses are forgotten. */
#include "remote/resolve.h"

#include <netdb.h>

bool wr_resolve_literal(struct wr_resolve *resolve, const char *host, uint16_t port)
{
    resolve->has_literal = uv_ip4_addr(host, port, (struct sockaddr_in *)&resolve->literal) == 0 ||
                           uv_ip6_addr(host, port, (struct sockaddr_in6 *)&resolve->literal) == 0;
    return resolve->has_literal;
}

static void on_closed(uv_handle_t *handle)
{
    struct wr_resolve *resolve = handle->data;
    const char *error = NULL;

    resolve->running = false;
    resolve->next = resolve->list;
    if (resolve->cancelled)
        error = "cancelled";
    else if (resolve->error != 0)
        error = gai_strerror(resolve->error);
    else if (resolve->lookup == NULL)
        error = "out of memory";
    resolve->done(resolve->context, error);
}

static void on_news(uv_async_t *async)
{
    struct wr_resolve *resolve = async->data;

    if (uv_is_closing((uv_handle_t *)async) ||
        !wr_lookup_take(resolve->lookup, &resolve->waiter, &resolve->error, &resolve->list))
        return;
    uv_close((uv_handle_t *)async, on_closed);
}

bool wr_resolve_start(struct wr_resolve *resolve, uv_loop_t *loop, const char *host, uint16_t port,
                      wr_resolved_fn done, void *context)
{
    resolve->done = done;
    resolve->context = context;
    if (resolve->running)
        return true;
    wr_resolve_free(resolve);
    resolve->cancelled = false;
    resolve->error = 0;
    if (uv_async_init(loop, &resolve->waiter.async, on_news) != 0)
        return false;
    resolve->waiter.async.data = resolve;
    resolve->running = true;
    resolve->lookup = wr_lookup_join(&resolve->waiter, host, port);
    if (resolve->lookup == NULL)
        uv_close((uv_handle_t *)&resolve->waiter.async, on_closed);
    return true;
}

const struct sockaddr *wr_resolve_next(struct wr_resolve *resolve)
{
    struct addrinfo *found = resolve->next;

    if (resolve->has_literal) {
        resolve->has_literal = false;
        return (const struct sockaddr *)&resolve->literal;
    }
    if (found == NULL)
        return NULL;
    resolve->next = found->ai_next;
    return found->ai_addr;
}

bool wr_resolve_more(const struct wr_resolve *resolve)
{
    return resolve->has_literal || resolve->next != NULL;
}

void wr_resolve_cancel(struct wr_resolve *resolve)
{
    if (!resolve->running || uv_is_closing((uv_handle_t *)&resolve->waiter.async))
        return;
    wr_lookup_leave(resolve->lookup, &resolve->waiter);
    resolve->lookup = NULL;
    resolve->cancelled = true;
    uv_close((uv_handle_t *)&resolve->waiter.async, on_closed);
}

void wr_resolve_free(struct wr_resolve *resolve)
{
    if (resolve->running) /* not handed out yet */
        return;
    if (resolve->lookup != NULL)
        wr_lookup_drop(resolve->lookup);
    resolve->lookup = NULL;
    resolve->list = resolve->next = NULL;
}
