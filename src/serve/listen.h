/* listen.h - the listening sockets of the daemon: made from the policy, or handed over by the
 * service manager. Doors open on them. */
#ifndef WR_SERVE_LISTEN_H
#define WR_SERVE_LISTEN_H

#include "serve/serve.h"
#include "serve/tls.h"

#define WR_SOCKETS_MAX 128
#define WR_ADDRESS_MAX 128 /* bytes of an address as text */

/* One address of one door. */
struct wr_socket {
    const struct wr_door *door;
    bool is_admin;               /* opened on the first loop alone */
    bool is_remote;              /* other machines can reach it */
    struct wr_listener listener; /* what the door is told; points into this struct */
    char address[WR_ADDRESS_MAX];
    char configured_address[WR_ADDRESS_MAX]; /* as the policy writes it; "": handed over */
    char *path;                              /* of a unix socket that is ours; NULL: not */
    int *fds;                                /* one for each loop that opens it */
    unsigned fd_count;
};

struct wr_sockets {
    struct wr_socket socket[WR_SOCKETS_MAX];
    size_t count;
};

/* What opening needs to know. */
struct wr_listen_options {
    const struct wr_policy *policy;
    const char *policy_path; /* for messages */
    const struct wr_door *const *doors;
    size_t door_count;
    unsigned loops;
};

/* Open all. On errors nothing is open and |error| has a line. Returns 0, WEIR_EIO, WEIR_EPOLICY,
 * WEIR_ENOMEM. */
int wr_sockets_open(struct wr_sockets *sockets, const struct wr_listen_options *options,
                    char *error, size_t size);

/* Close what no loop has taken (-1 in fds: taken), and remove the unix sockets that are ours. */
void wr_sockets_close(struct wr_sockets *sockets);

/* One of |door| that other machines can reach; NULL: none is. */
const struct wr_socket *wr_sockets_remote(const struct wr_sockets *sockets, const char *door);

/* The path of the agent door that |policy| wants; "": none. */
const char *wr_sockets_agent(const struct wr_policy *policy);

/* "127.0.0.1:80", "[::1]:80" or "unix:/path" of a socket's own address. False: of no known kind. */
bool wr_socket_name(int fd, char out[WR_ADDRESS_MAX]);

/* Can other machines reach it? */
bool wr_socket_is_remote(int fd);

#endif
