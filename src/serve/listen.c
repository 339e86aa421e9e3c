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
#include "serve/socket_make.h"

#define FIRST_PASSED_FD 3

struct opening {
    struct wr_sockets *sockets;
    const struct wr_listen_options *options;
    char *error;
    size_t size;
};

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

/* Do we listen at the same unix socket, under whatever path, or the same port already? */
static bool is_ours(const struct opening *opening, const struct wr_policy_listener *from)
{
    struct stat st, other;
    union wr_address address;

    for (size_t i = 0; i < opening->sockets->count; i++) {
        const struct wr_socket *socket = &opening->sockets->socket[i];
        if (socket->address[0] == '\0' || !wr_address_own(socket->fds[0], &address))
            continue; /* the one that is being opened */
        if (from->path != NULL && socket->path != NULL && stat(from->path, &st) == 0 &&
            stat(socket->path, &other) == 0 && st.st_dev == other.st_dev &&
            st.st_ino == other.st_ino)
            return true;
        if (from->path == NULL &&
            (address.any.sa_family == AF_INET || address.any.sa_family == AF_INET6) &&
            ntohs(address.four.sin_port) == from->port && from->port != 0)
            return true;
    }
    return false;
}

/* What |error| means for the address |from|, and what to do about it. */
static const char *explain(const struct opening *opening, int error,
                           const struct wr_policy_listener *from)
{
    struct stat st;

    switch (error) {
    case EADDRINUSE:
        if (is_ours(opening, from))
            return from->path != NULL ? "another address of this policy is the same socket"
                                      : "another address of this policy has the same port";
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
    socket->is_remote = wr_socket_is_remote(socket->fds[0]);
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
    union wr_address address;
    socklen_t len = wr_address_of(from, &address);
    int result = 0;

    if (door == NULL)
        return fail_at(opening, WEIR_EPOLICY, from, "this build of weir does not have that door");
    made = add_socket(opening, door);
    if (made == NULL)
        return fail_at(opening, WEIR_ENOMEM, from, "out of memory");
    (void)snprintf(made->configured_address, sizeof made->configured_address, "%s", from->address);
    made->fds[0] =
        from->path != NULL ? wr_listen_unix(&address, len) : wr_listen_tcp(&address, len, false);
    if (made->fds[0] < 0)
        return fail_at(opening, WEIR_EIO, from, explain(opening, errno, from));
    if (from->path != NULL) {
        made->path = strdup(from->path);
        result = share_descriptor(made);
    } else {
        (void)wr_address_own(made->fds[0], &address); /* port 0 is a port now */
    }
    for (unsigned i = 1; from->path == NULL && i < made->fd_count && result == 0; i++) {
        made->fds[i] = wr_listen_tcp(&address, len, true);
        result = made->fds[i] < 0 ? WEIR_EIO : 0;
    }
    if (result != 0)
        return fail_at(opening, result, from, explain(opening, errno, from));
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

    if (!wr_is_listening_stream(fd))
        return fail(opening, WEIR_EPOLICY, "socket activation",
                    name[0] != '\0' ? name : "a socket without a name",
                    "expected a listening stream socket (ListenStream= with Accept=no)");
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

const char *wr_sockets_agent(const struct wr_policy *policy)
{
    const struct wr_policy_store *store = wr_policy_settings(policy)->store;

    return store != NULL && shares(policy) ? store->agent_path : "";
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

    if (wr_sockets_agent(opening->options->policy)[0] == '\0' ||
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

/* ---- looking ----------------------------------------------------------------------------- */

const struct wr_socket *wr_sockets_remote(const struct wr_sockets *sockets, const char *door)
{
    for (size_t i = 0; i < sockets->count; i++)
        if (sockets->socket[i].is_remote && strcmp(sockets->socket[i].door->name, door) == 0)
            return &sockets->socket[i];
    return NULL;
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
