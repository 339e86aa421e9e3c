/* reload_check.c - a policy that is reloaded, against the sockets that are open.
 *
 * The problem. Sockets are opened once, at the start. A policy that is reloaded may speak of
 * others: it may have no password any more because its door is on loopback now, and the door that
 * is open is still the one that everybody can reach.
 *
 * Idea. The new policy is compared with what is open and with what the server started with, never
 * with the policy before it: that one may have been as far from what is open.
 *
 * Invariants:
 *   1. No reload takes a door's secret away, or changes what it speaks, while others can reach it.
 *   2. What takes effect at a restart is told at each reload until then, and not once it is so
 *      again. */
#include <stdio.h>
#include <string.h>

#include "lib/handle.h"
#include "policy/explain.h"
#include "serve/log.h"
#include "serve/reload.h"
#include "store/ban.h"

#define NAMES_MAX 8 /* identities that are warned of at once */

/* ---- sockets and listeners --------------------------------------------------------------- */

/* One that the service manager handed over has no address of the policy, but a name may have found
 * it its door. */
static bool is_handed_over(const struct wr_socket *socket)
{
    return socket->configured_address[0] == '\0';
}

static bool is_of(const struct wr_policy_listener *listener, const struct wr_socket *socket)
{
    const char *address = is_handed_over(socket) ? socket->address : socket->configured_address;

    return strcmp(listener->door, socket->door->name) == 0 &&
           strcmp(listener->address, address) == 0;
}

const struct wr_policy_listener *wr_reload_listener(const struct wr_policy_settings *settings,
                                                    const struct wr_socket *socket)
{
    for (size_t i = 0; i < settings->listener_count; i++)
        if (is_of(&settings->listeners[i], socket))
            return &settings->listeners[i];
    for (size_t i = 0; is_handed_over(socket) && i < settings->listener_count; i++)
        if (strcmp(settings->listeners[i].door, socket->door->name) == 0)
            return &settings->listeners[i];
    return NULL;
}

/* Is the server where |listener| wants it? A door with a socket from the manager opens no other. */
static bool is_open(const struct wr_server *server, const struct wr_policy_listener *listener)
{
    for (size_t i = 0; i < server->sockets.count; i++) {
        const struct wr_socket *socket = &server->sockets.socket[i];
        if (is_of(listener, socket) ||
            (is_handed_over(socket) && strcmp(listener->door, socket->door->name) == 0))
            return true;
    }
    return false;
}

/* ---- what refuses a reload --------------------------------------------------------------- */

/* A socket in clear cannot begin to speak TLS, or the other way: who was told that it does would
 * send in clear what must not be. */
static int check_tls(const struct wr_server *server, const struct wr_handle *next, char *errors,
                     size_t size)
{
    const struct wr_policy_settings *settings = wr_policy_settings(next->policy);

    for (size_t i = 0; i < server->sockets.count; i++) {
        const struct wr_socket *socket = &server->sockets.socket[i];
        const struct wr_policy_listener *listener = wr_reload_listener(settings, socket);
        bool has = socket->listener.tls != NULL;

        if (listener == NULL || (listener->tls != NULL) == has)
            continue;
        (void)snprintf(errors, size,
                       "%s:%u:%u: error: listen: %s: %s is open %s; %s takes effect at a restart\n",
                       server->options.policy_path, listener->at.line, listener->at.column,
                       listener->door, listener->address, has ? "with TLS" : "in clear",
                       has ? "that it is in clear" : "tls");
        return WEIR_EPOLICY;
    }
    return 0;
}

static int refuse_without(const struct wr_server *server, const struct wr_socket *socket,
                          const char *secret, char *errors, size_t size)
{
    (void)snprintf(errors, size,
                   "%s: error: listen: %s: %s is open to other machines and needs its %s; another "
                   "address takes effect at a restart\n",
                   server->options.policy_path, socket->door->name, socket->address, secret);
    return WEIR_EPOLICY;
}

/* Do clients at |socket| have to show a certificate, once |settings| are in force? */
static bool asks_certificate(const struct wr_socket *socket,
                             const struct wr_policy_settings *settings)
{
    const struct wr_policy_listener *listener =
        settings != NULL ? wr_reload_listener(settings, socket) : NULL;

    if (socket->listener.tls == NULL)
        return false;
    if (listener != NULL && listener->tls != NULL)
        return listener->tls->client_ca != NULL;
    return wr_tls_files(socket->listener.tls)->client_ca != NULL;
}

/* RESP is open to everybody where the policy wants it so from the start on; no reload opens it. */
static int check_resp(const struct wr_server *server, const struct wr_handle *next, char *errors,
                      size_t size)
{
    const struct wr_policy_settings *settings = wr_policy_settings(next->policy);

    for (size_t i = 0; i < server->sockets.count && next->resp_password == NULL; i++) {
        const struct wr_socket *socket = &server->sockets.socket[i];
        bool was_closed = server->current->resp_password != NULL || asks_certificate(socket, NULL);
        if (socket->is_remote && strcmp(socket->door->name, "resp") == 0 && was_closed &&
            !asks_certificate(socket, settings))
            return refuse_without(server, socket, "resp_password or client_ca", errors, size);
    }
    return 0;
}

int wr_reload_check(const struct wr_server *server, const struct wr_handle *next, char *errors,
                    size_t size)
{
    const struct wr_socket *admin = wr_sockets_remote(&server->sockets, "admin");
    int result = 0;

    if (admin != NULL && next->admin_token == NULL)
        result = refuse_without(server, admin, "admin_token", errors, size);
    if (result == 0)
        result = check_resp(server, next, errors, size);
    return result != 0 ? result : check_tls(server, next, errors, size);
}

/* ---- bans that hold nobody --------------------------------------------------------------- */

static bool is_identity(const struct wr_policy *policy, const struct wr_ban *ban)
{
    for (size_t i = 0; i < wr_policy_identity_count(policy); i++) {
        const char *name = wr_policy_identity(policy, i);
        if (strlen(name) == ban->name_len && memcmp(name, ban->name, ban->name_len) == 0)
            return true;
    }
    return false;
}

struct lost {
    char name[WR_BAN_NAME_MAX + 1];
    int64_t bans;
};

static void count_lost(struct lost lost[NAMES_MAX], const struct wr_ban *ban)
{
    for (size_t i = 0; i < NAMES_MAX; i++) {
        if (lost[i].bans == 0)
            (void)snprintf(lost[i].name, sizeof lost[i].name, "%.*s", (int)ban->name_len,
                           ban->name);
        else if (strlen(lost[i].name) != ban->name_len ||
                 memcmp(lost[i].name, ban->name, ban->name_len) != 0)
            continue;
        lost[i].bans++;
        return;
    }
}

void wr_reload_warn_of_bans(const struct wr_handle *handle)
{
    struct lost lost[NAMES_MAX] = {0};
    struct wr_ban ban;
    uint32_t at = 0;

    while (wr_ban_next(handle->weir->arena, weir_now(handle->weir), &at, &ban))
        if (ban.kind == WR_BAN_VALUE && !is_identity(handle->policy, &ban))
            count_lost(lost, &ban);
    for (size_t i = 0; i < NAMES_MAX && lost[i].bans > 0; i++)
        wr_log(WR_LOG_WARNING, "bans hold nobody", wr_log_text("identity", lost[i].name),
               wr_log_number("bans", lost[i].bans),
               wr_log_text("reason", "the policy has no identity of this name"));
}

/* ---- what takes effect at a restart ------------------------------------------------------ */

static void warn_of_sockets(const struct wr_server *server,
                            const struct wr_policy_settings *settings)
{
    for (size_t i = 0; i < settings->listener_count; i++)
        if (!is_open(server, &settings->listeners[i]))
            wr_log(WR_LOG_WARNING, "listen: a new address takes effect at a restart",
                   wr_log_text("door", settings->listeners[i].door),
                   wr_log_text("address", settings->listeners[i].address));
    for (size_t i = 0; i < server->sockets.count; i++) {
        const struct wr_socket *socket = &server->sockets.socket[i];
        if (strcmp(socket->door->name, "agent") != 0 &&
            wr_reload_listener(settings, socket) == NULL)
            wr_log(WR_LOG_WARNING, "listen: a door stays open until a restart",
                   wr_log_text("door", socket->door->name),
                   wr_log_text("address", socket->address));
    }
}

/* What the policy has otherwise than the server started with. */
static void warn_of_member(const char *member)
{
    wr_log(WR_LOG_WARNING, "listen: takes effect at a restart", wr_log_text("member", member));
}

void wr_reload_warn(const struct wr_server *server, const struct wr_handle *next)
{
    const struct wr_policy_settings *settings = wr_policy_settings(next->policy);
    const struct wr_started *started = &server->started_with;

    wr_reload_warn_of_bans(next);
    warn_of_sockets(server, settings);
    if (settings->threads != started->threads)
        warn_of_member("threads");
    if (settings->idle_ns != started->idle_ns)
        warn_of_member("idle_timeout");
    if (settings->stall_ns != started->stall_ns)
        warn_of_member("stall_timeout");
    if (strcmp(wr_sockets_agent(next->policy), started->agent_path) != 0)
        wr_log(WR_LOG_WARNING, "store: takes effect at a restart", wr_log_text("member", "agent"));
}
