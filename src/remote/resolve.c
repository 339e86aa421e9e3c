/* resolve.c - names are looked up anew at every connection, by libuv's threads.
 *
 * A name may stand for several addresses (localhost: ::1 and 127.0.0.1) of which a server listens
 * on one; they are tried in the order that getaddrinfo gives (RFC 6724). After a failover the name
 * may stand for another server, so no address outlives its connection.
 *
 * A lookup cannot be stopped once a thread has begun it, and takes as long as name servers are
 * silent, so whoever has lost patience and begins anew while it runs gets that one's answer.
 *
 * Invariants:
 *   1. A request is not handed to libuv again before its answer has come.
 *   2. A list is freed once: before the next one, or at the end.
 *
 * Rejected: a request for each start (a name server that is silent for longer than the patience
 * would never be heard, and take a thread of libuv's four for each). */
#include "remote/resolve.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>

bool wr_resolve_literal(struct wr_resolve *resolve, const char *host, uint16_t port)
{
    resolve->has_literal = uv_ip4_addr(host, port, (struct sockaddr_in *)&resolve->literal) == 0 ||
                           uv_ip6_addr(host, port, (struct sockaddr_in6 *)&resolve->literal) == 0;
    return resolve->has_literal;
}

static void on_answer(uv_getaddrinfo_t *request, int status, struct addrinfo *list)
{
    struct wr_resolve *resolve = request->data;

    resolve->running = false;
    wr_resolve_free(resolve);
    resolve->list = resolve->next = list;
    resolve->done(resolve->context, status == 0 ? NULL : uv_strerror(status));
}

bool wr_resolve_start(struct wr_resolve *resolve, uv_loop_t *loop, const char *host, uint16_t port,
                      wr_resolved_fn done, void *context)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    char service[8];

    resolve->done = done;
    resolve->context = context;
    if (resolve->running)
        return true;
    wr_resolve_free(resolve);
    (void)snprintf(service, sizeof service, "%u", (unsigned)port);
    resolve->request.data = resolve;
    resolve->running =
        uv_getaddrinfo(loop, &resolve->request, on_answer, host, service, &hints) == 0;
    return resolve->running;
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
    if (resolve->running)
        (void)uv_cancel((uv_req_t *)&resolve->request);
}

void wr_resolve_free(struct wr_resolve *resolve)
{
    if (resolve->list != NULL)
        uv_freeaddrinfo(resolve->list);
    resolve->list = resolve->next = NULL;
}
