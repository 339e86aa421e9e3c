/* socket_make.c - addresses, and sockets that listen at them.
 *
 * The first TCP socket of an address is bound without SO_REUSEPORT, those of the other loops with
 * it. A unix socket that a dead daemon left is replaced; one that answers is not. */
#include "serve/socket_make.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "serve/listen.h"

#define BACKLOG 4096

/* ---- addresses --------------------------------------------------------------------------- */

bool wr_address_own(int fd, union wr_address *out)
{
    socklen_t len = sizeof *out;

    memset(out, 0, sizeof *out);
    return getsockname(fd, &out->any, &len) == 0;
}

bool wr_socket_name(int fd, char out[WR_ADDRESS_MAX])
{
    union wr_address address;
    char text[INET6_ADDRSTRLEN] = "";

    out[0] = '\0';
    if (!wr_address_own(fd, &address))
        return false;
    if (address.any.sa_family == AF_INET) {
        (void)inet_ntop(AF_INET, &address.four.sin_addr, text, sizeof text);
        (void)snprintf(out, WR_ADDRESS_MAX, "%s:%u", text, ntohs(address.four.sin_port));
    } else if (address.any.sa_family == AF_INET6) {
        (void)inet_ntop(AF_INET6, &address.six.sin6_addr, text, sizeof text);
        (void)snprintf(out, WR_ADDRESS_MAX, "[%s]:%u", text, ntohs(address.six.sin6_port));
    } else if (address.any.sa_family == AF_UNIX) {
        (void)snprintf(out, WR_ADDRESS_MAX, "unix:%.108s", address.path.sun_path);
    } else {
        return false;
    }
    return true;
}

bool wr_socket_is_remote(int fd)
{
    union wr_address address;

    if (!wr_address_own(fd, &address))
        return true;
    if (address.any.sa_family == AF_INET)
        return ntohl(address.four.sin_addr.s_addr) >> 24 != 127;
    if (address.any.sa_family == AF_INET6)
        return !IN6_IS_ADDR_LOOPBACK(&address.six.sin6_addr);
    return address.any.sa_family != AF_UNIX;
}

socklen_t wr_address_of(const struct wr_policy_listener *from, union wr_address *out)
{
    memset(out, 0, sizeof *out);
    if (from->path != NULL) {
        out->path.sun_family = AF_UNIX;
        memcpy(out->path.sun_path, from->path, strlen(from->path));
        return sizeof out->path;
    }
    if (wr_ip_is_v4(&from->ip)) {
        out->four.sin_family = AF_INET;
        out->four.sin_port = htons(from->port);
        memcpy(&out->four.sin_addr, from->ip.bytes + 12, 4);
        return sizeof out->four;
    }
    out->six.sin6_family = AF_INET6;
    out->six.sin6_port = htons(from->port);
    memcpy(&out->six.sin6_addr, from->ip.bytes, 16);
    return sizeof out->six;
}

/* ---- making ------------------------------------------------------------------------------ */

int wr_listen_tcp(const union wr_address *address, socklen_t len, bool later)
{
    int on = 1, saved;
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->any.sa_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (later)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    if (bind(fd, &address->any, len) == 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
        if (listen(fd, BACKLOG) == 0)
            return fd;
    }
    saved = errno;
    (void)close(fd);
    errno = saved;
    return -1;
}

/* Is there a socket at |address| whose daemon is gone? */
static bool is_stale(const union wr_address *address, socklen_t len)
{
    struct stat st;
    int fd;
    bool stale;

    if (lstat(address->path.sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
        return false;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    stale = fd >= 0 && connect(fd, &address->any, len) != 0 && errno == ECONNREFUSED;
    if (fd >= 0)
        (void)close(fd);
    return stale;
}

int wr_listen_unix(const union wr_address *address, socklen_t len)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t mask;
    int rc, saved;

    if (fd < 0)
        return -1;
    if (is_stale(address, len))
        (void)unlink(address->path.sun_path);
    mask = umask(0117); /* 0660: its group may ask, as it may map the arena */
    rc = bind(fd, &address->any, len);
    saved = errno;
    (void)umask(mask);
    errno = saved;
    if (rc == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    saved = errno;
    (void)close(fd);
    errno = saved;
    return -1;
}

bool wr_is_listening_stream(int fd)
{
    int type = 0, listening = 0;
    socklen_t len = sizeof type;

    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) == 0 && listening != 0;
}
