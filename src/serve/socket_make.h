/* socket_make.h - addresses, and sockets that listen at them. */
#ifndef WR_SERVE_SOCKET_MAKE_H
#define WR_SERVE_SOCKET_MAKE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "policy/policy.h"

union wr_address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    struct sockaddr_un path;
    struct sockaddr_storage storage;
};

/* Of the socket |fd|. */
bool wr_address_own(int fd, union wr_address *out);

/* Of the policy; its length. */
socklen_t wr_address_of(const struct wr_policy_listener *from, union wr_address *out);

/* A socket bound and listening; -1, with errno. |later|: others are bound to the address already.
 */
int wr_listen_tcp(const union wr_address *address, socklen_t len, bool later);
int wr_listen_unix(const union wr_address *address, socklen_t len);

/* Is |fd| a socket of streams that listens, as those that are made here? */
bool wr_is_listening_stream(int fd);

#endif
