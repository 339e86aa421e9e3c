/* reload.c - another policy for a running server, and what the server says of itself.
 *
 * Idea. A reload is all or nothing: the new policy, its arena, its token and all certificates are
 * loaded before anything in force is touched; then each loop is left a note and takes the policy up
 * between two of its turns.
 *
 * Invariants:
 *   1. A policy that cannot be loaded changes nothing, and is heard of: log, readiness, counter.
 *   2. Loops get policies in the order in which they were loaded. */
#include <stdio.h>
#include <string.h>

#include "remote/ring.h"
#include "serve/log.h"
#include "serve/notify.h"
#include "serve/reload.h"
#include "serve/server.h"
#include "serve/store_link.h"

struct reload {
    struct wr_handle *handle;
    struct wr_tls *tls[WR_SOCKETS_MAX]; /* for the socket of that index; NULL: none */
    struct wr_keeping_next keeping;
    char *errors;
    size_t size;
};

/* ---- loading ----------------------------------------------------------------------------- */

/* Load certificates anew: from the files that the new policy names for the address, or else from
 * those that are in use. */
static int load_certificates(struct wr_server *server, struct reload *reload)
{
    const struct wr_policy_settings *settings = wr_policy_settings(reload->handle->policy);

    for (size_t i = 0; i < server->sockets.count; i++) {
        struct wr_socket *socket = &server->sockets.socket[i];
        const struct wr_policy_listener *listener = wr_reload_listener(settings, socket);
        const struct wr_policy_tls *files;
        struct wr_tls_error error;

        if (socket->listener.tls == NULL)
            continue;
        files = listener != NULL && listener->tls != NULL ? listener->tls
                                                          : wr_tls_files(socket->listener.tls);
        if (wr_tls_new(&reload->tls[i], files, &error) != 0) {
            /* Of a listener that the new policy does not have: there is no line for it. */
            (void)snprintf(reload->errors, reload->size, "%s: error: listen: %s\n",
                           server->options.policy_path, error.text);
            return WEIR_EIO;
        }
    }
    return 0;
}

/* Where a ring would listen that it does not listen at yet. */
static int probe_ring(const struct wr_server *server, struct reload *reload)
{
    const struct wr_policy_store *before = wr_policy_settings(server->current->policy)->store;
    const struct wr_policy_store *after = wr_policy_settings(reload->handle->policy)->store;
    const char *why;

    if (after == NULL || after->kind != WR_STORE_RING ||
        (before != NULL && before->kind == WR_STORE_RING &&
         wr_store_same_address(&before->self, &after->self)))
        return 0;
    why = wr_ring_probe(&after->self);
    if (why == NULL)
        return 0;
    (void)snprintf(reload->errors, reload->size, "%s: error: store: ring: self %s: %s\n",
                   server->options.policy_path, after->self.text, why);
    return WEIR_EIO;
}

static int load(struct wr_server *server, struct reload *reload)
{
    int result = wr_handle_open(&reload->handle, server->options.policy_path, server->current,
                                reload->errors, reload->size);

    if (result == 0)
        result = wr_reload_check(server, reload->handle, reload->errors, reload->size);
    if (result == 0)
        result = load_certificates(server, reload);
    if (result == 0)
        result = probe_ring(server, reload);
    if (result == 0)
        result = wr_totals_learn(server->totals, reload->handle);
    if (result == 0)
        result = wr_keeping_prepare(&server->keeping, reload->handle->policy, &reload->keeping,
                                    reload->errors, reload->size);
    return result;
}

/* ---- taking effect ----------------------------------------------------------------------- */

/* Does a store of |kind| count the same limit under another key when it is |after|? A ring, as an
 * arena, carries the count over. */
static bool begins_anew(enum wr_store_kind kind, const struct wr_limit *before,
                        const struct wr_limit *after)
{
    bool was_window = before->algo == WR_FIXED_WINDOW || before->algo == WR_SLIDING_WINDOW;
    bool is_window = after->algo == WR_FIXED_WINDOW || after->algo == WR_SLIDING_WINDOW;

    switch (kind) {
    case WR_STORE_REDIS:
    case WR_STORE_SENTINEL:
    case WR_STORE_CLUSTER:
        return before->algo != after->algo;
    case WR_STORE_MEMCACHED:
        return was_window != is_window || (is_window && before->window_ns != after->window_ns);
    case WR_STORE_RING:
        return false;
    }
    return false;
}

static void warn_of_count(enum wr_store_kind kind, const struct wr_policy *before,
                          const struct wr_policy_limit *after)
{
    for (size_t i = 0; i < wr_policy_limit_count(before); i++) {
        const struct wr_policy_limit *was = wr_policy_limit(before, i);
        if (was->shared && strcmp(was->name, after->name) == 0 &&
            begins_anew(kind, &was->by[0], &after->by[0]))
            wr_log(WR_LOG_WARNING, "counts begin anew", wr_log_text("limit", after->name),
                   wr_log_text("reason", "the store counts it under another key than before"));
    }
}

/* In the same store; another one has counts of its own anyway. */
static void warn_of_counts(const struct wr_policy *before, const struct wr_policy *after)
{
    const struct wr_policy_store *was = wr_policy_settings(before)->store;
    const struct wr_policy_store *is = wr_policy_settings(after)->store;

    for (size_t i = 0; was != NULL && is != NULL && i < wr_policy_limit_count(after); i++)
        if (wr_policy_limit(after, i)->shared && wr_store_same(was, is))
            warn_of_count(is->kind, before, wr_policy_limit(after, i));
}

static void apply(struct wr_server *server, struct reload *reload)
{
    struct wr_handle *before = server->current;

    wr_reload_warn(server, reload->handle);
    warn_of_counts(before->policy, reload->handle->policy);
    for (size_t i = 0; i < server->sockets.count; i++) {
        if (reload->tls[i] != NULL)
            wr_tls_replace(server->sockets.socket[i].listener.tls, reload->tls[i]);
        reload->tls[i] = NULL;
    }
    for (unsigned i = 0; i < server->worker_count; i++)
        wr_worker_swap(server->workers[i], reload->handle);
    (void)pthread_mutex_lock(&server->state_mutex);
    server->current = reload->handle;
    server->reloads_good++;
    server->refused[0] = '\0';
    (void)pthread_mutex_unlock(&server->state_mutex);
    wr_keeping_take(&server->keeping, &reload->keeping);
    wr_log_lines(WR_LOG_WARNING, "policy warning", reload->errors);
    wr_log(WR_LOG_INFO, "reloaded", wr_log_text("policy", server->options.policy_path),
           wr_log_number("limits", (int64_t)weir_limit_count(reload->handle->weir)),
           wr_log_number("generation", (int64_t)reload->handle->generation));
    wr_handle_unref(before);
}

static void refuse(struct wr_server *server, struct reload *reload, int result)
{
    char line[WR_DETAIL_BYTES];

    if (reload->errors[0] == '\0')
        (void)snprintf(reload->errors, reload->size, "%s: error: %s\n", server->options.policy_path,
                       weir_strerror(result));
    wr_log_first_error(reload->errors, line, sizeof line);
    (void)pthread_mutex_lock(&server->state_mutex);
    server->reloads_refused++;
    memcpy(server->refused, line, sizeof line);
    (void)pthread_mutex_unlock(&server->state_mutex);
    wr_log_findings("reload refused, the old policy stays", reload->errors);
    for (size_t i = 0; i < server->sockets.count; i++)
        wr_tls_free(reload->tls[i]);
    wr_keeping_drop(&reload->keeping);
    wr_handle_unref(reload->handle);
}

int wr_server_reload(struct wr_server *server, char *errors, size_t errors_size)
{
    static char unwanted[WR_ERRORS_BYTES];
    struct reload reload = {.errors = errors, .size = errors_size};
    int result;

    (void)pthread_mutex_lock(&server->reload_mutex);
    if (server->ending) {
        (void)pthread_mutex_unlock(&server->reload_mutex);
        return WEIR_EFULL;
    }
    if (errors_size == 0) {
        reload.errors = unwanted;
        reload.size = sizeof unwanted;
    }
    reload.errors[0] = '\0';
    wr_notify_reloading();
    result = load(server, &reload);
    if (result == 0)
        apply(server, &reload);
    else
        refuse(server, &reload, result);
    wr_notify(result == 0 ? "READY=1\nSTATUS=serving"
                          : "READY=1\nSTATUS=serving the old policy: the new one has errors");
    (void)pthread_mutex_unlock(&server->reload_mutex);
    return result;
}

/* ---- what it says of itself -------------------------------------------------------------- */

static void lock_state(const struct wr_server *server)
{
    (void)pthread_mutex_lock((pthread_mutex_t *)(uintptr_t)&server->state_mutex);
}

static void unlock_state(const struct wr_server *server)
{
    (void)pthread_mutex_unlock((pthread_mutex_t *)(uintptr_t)&server->state_mutex);
}

bool wr_server_ready(const struct wr_server *server, char *detail, size_t size)
{
    lock_state(server);
    (void)snprintf(detail, size, "%s%s",
                   server->refused[0] == '\0' ? "" : "reload refused: ", server->refused);
    unlock_state(server);
    if (__atomic_load_n(&server->draining, __ATOMIC_ACQUIRE)) {
        (void)snprintf(detail, size, "draining");
        return false;
    }
    if (!__atomic_load_n(&server->started, __ATOMIC_ACQUIRE)) {
        (void)snprintf(detail, size, "starting");
        return false;
    }
    return true; /* after a refused reload too: the old policy serves, on every node it was sent to
                  */
}

void wr_server_reloads(const struct wr_server *server, uint64_t *good, uint64_t *refused)
{
    lock_state(server);
    *good = server->reloads_good;
    *refused = server->reloads_refused;
    unlock_state(server);
}

struct wr_handle *wr_server_handle(struct wr_server *server)
{
    struct wr_handle *handle;

    lock_state(server);
    handle = server->current;
    wr_handle_ref(handle);
    unlock_state(server);
    return handle;
}

int64_t wr_server_drain_ns(struct wr_server *server)
{
    struct wr_handle *handle = wr_server_handle(server);
    int64_t drain_ns = wr_policy_settings(handle->policy)->drain_ns;

    wr_handle_unref(handle);
    return drain_ns;
}

const struct wr_listener *wr_server_listener(const struct wr_server *server, size_t index)
{
    return index < server->sockets.count ? &server->sockets.socket[index].listener : NULL;
}

unsigned wr_server_loops(const struct wr_server *server)
{
    return server->worker_count;
}

struct wr_loop *wr_server_loop(struct wr_server *server, unsigned index)
{
    return index < server->worker_count ? wr_worker_loop(server->workers[index]) : NULL;
}

struct wr_totals *wr_server_totals(struct wr_server *server)
{
    return server->totals;
}

struct wr_store_state *wr_server_store_state(struct wr_server *server)
{
    return &server->store;
}

struct wr_reservations *wr_server_reservations(struct wr_server *server)
{
    return server->reservations;
}
