/* resolve.c - names are looked up anew at every connection, by libuv's threads.
 *
 * A name may stand for several addresses (localhost: ::1 and 127.0.0.1) of which a server listens
 * on one; they are tried in the order that getaddrinfo gives (RFC 6724). After a failover the name
 * may stand for another server, so no address outlives its connection. */
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
    resolve->list = resolve->next = list;
    resolve->done(resolve->context, status == 0 ? NULL : uv_strerror(status));
}

bool wr_resolve_start(struct wr_resolve *resolve, uv_loop_t *loop, const char *host, uint16_t port,
                      wr_resolved_fn done, void *context)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    char service[8];

    (void)snprintf(service, sizeof service, "%u", (unsigned)port);
    resolve->done = done;
    resolve->context = context;
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
