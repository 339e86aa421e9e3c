/* listen.c - sockets to listen on.
 *
 * TCP: a socket for each loop under SO_REUSEPORT, so that the kernel spreads connections and loops
 * share nothing. The first is bound without it: a second daemon on the same address would otherwise
 * be let in silently and take half of the connections. Unix: one socket, a descriptor of it for
 * each loop. One that a dead daemon left is replaced; one that answers is not. Handed-over sockets
 * are shared like unix ones: the manager made only one.
 *
 * Rejected: one accepting thread that hands connections on: a hop and a lock for each. */
#include "serve/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "serve/log.h"

#define BACKLOG 4096
#define FIRST_PASSED_FD 3

struct opening {
    struct wr_sockets *sockets;
    const struct wr_listen_options *options;
    char *error;
    size_t size;
};

/* ---- addresses --------------------------------------------------------------------------- */

union address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    struct sockaddr_un path;
    struct sockaddr_storage storage;
};

static bool own_address(int fd, union address *out)
{
    socklen_t len = sizeof *out;

    memset(out, 0, sizeof *out);
    return getsockname(fd, &out->any, &len) == 0;
}

bool wr_socket_name(int fd, char out[WR_ADDRESS_MAX])
{
    union address address;
    char text[INET6_ADDRSTRLEN] = "";

    out[0] = '\0';
    if (!own_address(fd, &address))
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
    union address address;

    if (!own_address(fd, &address))
        return true;
    if (address.any.sa_family == AF_INET)
        return ntohl(address.four.sin_addr.s_addr) >> 24 != 127;
    if (address.any.sa_family == AF_INET6)
        return !IN6_IS_ADDR_LOOPBACK(&address.six.sin6_addr);
    return address.any.sa_family != AF_UNIX;
}

static socklen_t to_sockaddr(const struct wr_policy_listener *from, union address *out)
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

/* A socket bound and listening; -1, with errno. |later|: others are bound to the address already.
 */
static int listen_tcp(const union address *address, socklen_t len, bool later)
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
static bool is_stale(const union address *address, socklen_t len)
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

static int listen_unix(const union address *address, socklen_t len)
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

/* ---- the list ---------------------------------------------------------------------------- */

static const struct wr_door *find_door(const struct wr_listen_options *options, const char *name)
{
    for (size_t i = 0; i < options->door_count; i++)
        if (strcmp(options->doors[i]->name, name) == 0)
            return options->doors[i];
    return NULL;
}

static int fail(const struct opening *opening, int result, const char *door, const char *what,
                const char *why)
{
    (void)snprintf(opening->error, opening->size, "%s: error: listen: %s: %s: %s",
                   opening->options->policy_path, door, what, why);
    return result;
}

/* The same, of an address of the policy: with its place. */
static int fail_at(const struct opening *opening, int result, const struct wr_policy_listener *from,
                   const char *why)
{
    if (from->at.line == 0)
        return fail(opening, result, from->door, from->address, why);
    (void)snprintf(opening->error, opening->size, "%s:%u:%u: error: %s: %s: %s",
                   opening->options->policy_path, from->at.line, from->at.column, from->door,
                   from->address, why);
    return result;
}

/* What |error| means for the address |from|, and what to do about it. */
static const char *explain(int error, const struct wr_policy_listener *from)
{
    struct stat st;

    switch (error) {
    case EADDRINUSE:
        if (from->path == NULL)
            return "the port is taken by another process: ss -ltnp shows which";
        return lstat(from->path, &st) == 0 && !S_ISSOCK(st.st_mode)
                   ? "a file that is not a socket is in the way"
                   : "another process answers there";
    case EADDRNOTAVAIL:
        return "this machine has no such address: ip address shows which it has";
    case EACCES:
        return from->path != NULL ? "no permission to make a socket in this folder"
                                  : "no permission: ports below 1024 need CAP_NET_BIND_SERVICE";
    case ENOENT:
        return from->path != NULL ? "its folder does not exist" : strerror(error);
    case EMFILE:
    case ENFILE:
        return "no descriptors are left: raise their limit (ulimit -n, LimitNOFILE=)";
    default:
        return strerror(error);
    }
}

static struct wr_socket *add_socket(const struct opening *opening, const struct wr_door *door)
{
    struct wr_sockets *sockets = opening->sockets;
    struct wr_socket *socket = &sockets->socket[sockets->count];
    bool is_admin = strcmp(door->name, "admin") == 0;
    unsigned loops = is_admin ? 1 : opening->options->loops;

    if (sockets->count == WR_SOCKETS_MAX)
        return NULL;
    socket->fds = calloc(loops, sizeof *socket->fds);
    if (socket->fds == NULL)
        return NULL;
    for (unsigned i = 0; i < loops; i++)
        socket->fds[i] = -1;
    socket->fd_count = loops;
    socket->door = door;
    socket->is_admin = is_admin;
    socket->listener.door = door->name;
    socket->listener.address = socket->address;
    sockets->count++;
    return socket;
}

/* Name it and give it its certificates; |fds[0]| is open. */
static int finish_socket(const struct opening *opening, struct wr_socket *socket,
                         const struct wr_policy_tls *tls)
{
    struct wr_tls_error error;

    if (!wr_socket_name(socket->fds[0], socket->address))
        return fail(opening, WEIR_EIO, socket->door->name, "socket",
                    "of a kind that is not served");
    if (socket->is_admin && wr_socket_is_remote(socket->fds[0]))
        opening->sockets->admin_beyond = true;
    if (tls == NULL)
        return 0;
    if (wr_tls_new(&socket->listener.tls, tls, &error) != 0)
        return fail(opening, WEIR_EIO, socket->door->name, socket->address, error.text);
    return 0;
}

static int share_descriptor(struct wr_socket *socket)
{
    for (unsigned i = 1; i < socket->fd_count; i++) {
        socket->fds[i] = fcntl(socket->fds[0], F_DUPFD_CLOEXEC, 0);
        if (socket->fds[i] < 0)
            return WEIR_EIO;
    }
    return 0;
}

static int open_one(const struct opening *opening, const struct wr_policy_listener *from)
{
    const struct wr_door *door = find_door(opening->options, from->door);
    struct wr_socket *made;
    union address address;
    socklen_t len = to_sockaddr(from, &address);
    int result = 0;

    if (door == NULL)
        return fail_at(opening, WEIR_EPOLICY, from, "this build of weir does not have that door");
    made = add_socket(opening, door);
    if (made == NULL)
        return fail_at(opening, WEIR_ENOMEM, from, "out of memory");
    (void)snprintf(made->configured_address, sizeof made->configured_address, "%s", from->address);
    made->fds[0] =
        from->path != NULL ? listen_unix(&address, len) : listen_tcp(&address, len, false);
    if (made->fds[0] < 0)
        return fail_at(opening, WEIR_EIO, from, explain(errno, from));
    if (from->path != NULL) {
        made->path = strdup(from->path);
        result = share_descriptor(made);
    } else {
        (void)own_address(made->fds[0], &address); /* port 0 is a port now */
    }
    for (unsigned i = 1; from->path == NULL && i < made->fd_count && result == 0; i++) {
        made->fds[i] = listen_tcp(&address, len, true);
        result = made->fds[i] < 0 ? WEIR_EIO : 0;
    }
    if (result != 0)
        return fail_at(opening, result, from, explain(errno, from));
    return finish_socket(opening, made, from->tls);
}

/* ---- handed over ------------------------------------------------------------------------- */

/* How many sockets the service manager passes to this process. */
static int passed_count(void)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    long n;

    if (pid == NULL || fds == NULL || strtol(pid, NULL, 10) != (long)getpid())
        return 0;
    n = strtol(fds, NULL, 10);
    return n > 0 && n <= WR_SOCKETS_MAX ? (int)n : 0;
}

/* The |index|-th of the names, separated by colons. */
static void passed_name(int index, char *out, size_t size)
{
    const char *names = getenv("LISTEN_FDNAMES");
    size_t len;

    out[0] = '\0';
    for (; names != NULL && index > 0; index--) {
        names = strchr(names, ':');
        names = names != NULL ? names + 1 : NULL;
    }
    if (names == NULL)
        return;
    len = strcspn(names, ":");
    (void)snprintf(out, size, "%.*s", (int)(len < size ? len : size - 1), names);
}

/* What the policy says of the door of a socket that is handed over: its address by preference. */
static const struct wr_policy_listener *configured_for(const struct opening *opening,
                                                       const char *door, const char *address)
{
    const struct wr_policy_settings *settings = wr_policy_settings(opening->options->policy);
    const struct wr_policy_listener *first = NULL;

    for (size_t i = 0; i < settings->listener_count; i++) {
        const struct wr_policy_listener *listener = &settings->listeners[i];
        if (strcmp(listener->address, address) == 0)
            return listener;
        if (first == NULL && strcmp(listener->door, door) == 0)
            first = listener;
    }
    return first;
}

static int take_passed(const struct opening *opening, int fd, const char *name)
{
    const struct wr_policy_listener *from;
    const struct wr_door *door;
    struct wr_socket *taken;
    char address[WR_ADDRESS_MAX];
    int result;

    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    (void)wr_socket_name(fd, address);
    from = configured_for(opening, name, address);
    door = find_door(opening->options, from != NULL ? from->door : name);
    if (door == NULL)
        return fail(opening, WEIR_EPOLICY, "socket activation",
                    name[0] != '\0' ? name : "a socket without a name",
                    "expected a socket named after a door of this build (FileDescriptorName=), or "
                    "one at an address of the policy");
    taken = add_socket(opening, door);
    if (taken == NULL)
        return fail(opening, WEIR_ENOMEM, name, address, "out of memory");
    taken->fds[0] = fd;
    result = share_descriptor(taken);
    if (result != 0)
        return fail(opening, result, name, address, strerror(errno));
    return finish_socket(opening, taken, from != NULL ? from->tls : NULL);
}

static bool is_taken(const struct opening *opening, const char *door)
{
    for (size_t i = 0; i < opening->sockets->count; i++)
        if (opening->sockets->socket[i].configured_address[0] == '\0' &&
            strcmp(opening->sockets->socket[i].door->name, door) == 0)
            return true;
    return false;
}

/* ---- closing ----------------------------------------------------------------------------- */

static void close_one(struct wr_socket *socket)
{
    for (unsigned f = 0; f < socket->fd_count; f++)
        if (socket->fds[f] >= 0)
            (void)close(socket->fds[f]);
    if (socket->path != NULL)
        (void)unlink(socket->path);
    free(socket->path);
    free(socket->fds);
    wr_tls_free(socket->listener.tls);
    memset(socket, 0, sizeof *socket);
}

/* ---- the agent door ---------------------------------------------------------------------- */

static bool shares(const struct wr_policy *policy)
{
    for (size_t i = 0; i < wr_policy_limit_count(policy); i++)
        if (wr_policy_limit(policy, i)->shared)
            return true;
    return false;
}

/* Where limits are shared, other processes of the host ask here. A path that nobody wrote is no
 * reason not to start: a second daemon, or one without a /run/weir, serves its other doors. */
static int open_agent(const struct opening *opening)
{
    const struct wr_policy_store *store = wr_policy_settings(opening->options->policy)->store;
    struct wr_policy_listener from = {.door = "agent"};
    char address[WR_ADDRESS_MAX];
    size_t count = opening->sockets->count;
    int result;

    if (store == NULL || !shares(opening->options->policy) ||
        find_door(opening->options, "agent") == NULL)
        return 0;
    (void)snprintf(address, sizeof address, "unix:%s", store->agent_path);
    from.address = address;
    from.path = store->agent_path;
    from.at = store->agent_at;
    result = open_one(opening, &from);
    if (result == 0 || store->agent_written)
        return result;
    wr_log(WR_LOG_WARNING, "agent door not open", wr_log_text("reason", opening->error),
           wr_log_text("hint", "nginx and programs with libweir decide shared limits alone; "
                               "store: {agent: unix:/path} chooses another place"));
    while (opening->sockets->count > count)
        close_one(&opening->sockets->socket[--opening->sockets->count]);
    opening->error[0] = '\0';
    return 0;
}

/* ---- all --------------------------------------------------------------------------------- */

static int open_all(const struct opening *opening)
{
    const struct wr_policy_settings *settings = wr_policy_settings(opening->options->policy);
    int passed = passed_count(), result = 0;
    char name[64];

    for (int i = 0; i < passed && result == 0; i++) {
        passed_name(i, name, sizeof name);
        result = take_passed(opening, FIRST_PASSED_FD + i, name);
    }
    /* A door with a socket from the manager opens no other: where it is, the unit says. */
    for (size_t i = 0; i < settings->listener_count && result == 0; i++)
        if (passed == 0 || !is_taken(opening, settings->listeners[i].door))
            result = open_one(opening, &settings->listeners[i]);
    if (result == 0 && !is_taken(opening, "agent"))
        result = open_agent(opening);
    return result;
}

int wr_sockets_open(struct wr_sockets *sockets, const struct wr_listen_options *options,
                    char *error, size_t size)
{
    struct opening opening = {sockets, options, error, size};
    int result;

    memset(sockets, 0, sizeof *sockets);
    error[0] = '\0';
    result = open_all(&opening);
    if (result == 0 && sockets->count == 0)
        result = fail(&opening, WEIR_EPOLICY, "no door is open", "write an address into the policy",
                      "listen: {http: 127.0.0.1:8080}");
    if (result != 0)
        wr_sockets_close(sockets);
    return result;
}

void wr_sockets_close(struct wr_sockets *sockets)
{
    for (size_t i = 0; i < sockets->count; i++)
        close_one(&sockets->socket[i]);
    memset(sockets, 0, sizeof *sockets);
}
