/* server.c - the daemon's main thread: starts, watches, drains, ends.
 *
 * Idea. The main thread serves nobody: it waits for signals in a loop of its own and tells the
 * workers.
 *
 * Invariants:
 *   1. Nothing is served before everything is open: a start that fails leaves nothing behind.
 *   2. SIGTERM ends the process: when what is in flight is answered, at the deadline, or at the
 *      second signal. */
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/units.h"
#include "remote/ring.h"
#include "serve/log.h"
#include "serve/notify.h"
#include "serve/reload.h"
#include "serve/server.h"

#define RESERVATIONS 65536U
#define LOOK_MS 10
#define MAPPED_BYTES (256 << 10) /* memory from this size on goes back when it is freed */
#define DESCRIPTORS_FEW 4096     /* what distributions give a process without asking */

/* ---- the end ----------------------------------------------------------------------------- */

static void stop(struct wr_server *server)
{
    uv_stop(&server->uv);
}

static void on_drain_look(uv_timer_t *timer)
{
    struct wr_server *server = timer->data;
    uint64_t busy = 0;

    for (unsigned i = 0; i < server->worker_count; i++)
        busy += wr_worker_busy(server->workers[i]);
    if (busy == 0) {
        wr_log(WR_LOG_INFO, "drained");
    } else if (uv_now(&server->uv) >= server->drain_until_ms) {
        wr_log(WR_LOG_WARNING, "drain deadline passed",
               wr_log_number("connections", (int64_t)busy));
    } else {
        return;
    }
    stop(server);
}

static void on_end_signal(uv_signal_t *handle, int number)
{
    struct wr_server *server = handle->data;

    wr_log(WR_LOG_INFO, "signal", wr_log_text("name", number == SIGTERM ? "SIGTERM" : "SIGINT"));
    if (__atomic_exchange_n(&server->draining, true, __ATOMIC_ACQ_REL)) {
        stop(server);
        return;
    }
    wr_notify("STOPPING=1\nSTATUS=draining");
    server->drain_until_ms =
        uv_now(&server->uv) + (uint64_t)(wr_server_drain_ns(server) / WR_NS_PER_MS);
    for (unsigned i = 0; i < server->worker_count; i++)
        wr_worker_drain(server->workers[i]);
    (void)uv_timer_start(&server->drain, on_drain_look, 0, LOOK_MS);
}

/* ---- while it runs ----------------------------------------------------------------------- */

static void reload(uv_work_t *work)
{
    char *errors = malloc(WR_ERRORS_BYTES);

    if (errors != NULL)
        (void)wr_server_reload(work->data, errors, WR_ERRORS_BYTES);
    free(errors);
}

static void start_reload(struct wr_server *server);

static void on_reloaded(uv_work_t *work, int status)
{
    struct wr_server *server = work->data;

    server->reloading = false;
    if (server->hup_again && status == 0)
        start_reload(server);
}

/* This thread goes on hearing signals: a reload that hangs must not outlive a SIGTERM. */
static void start_reload(struct wr_server *server)
{
    server->hup_again = server->reloading;
    if (server->reloading)
        return;
    server->reload.data = server;
    server->reloading = uv_queue_work(&server->uv, &server->reload, reload, on_reloaded) == 0;
}

static void on_hup(uv_signal_t *handle, int number)
{
    (void)number;
    start_reload(handle->data);
}

/* Sent by habit, to have a log file opened anew. */
static void on_user_signal(uv_signal_t *handle, int number)
{
    (void)handle;
    wr_log(
        WR_LOG_INFO, "signal ignored",
        wr_log_text("name", number == SIGUSR1 ? "SIGUSR1" : "SIGUSR2"),
        wr_log_text("hint", "the log is standard error, nothing is opened anew; SIGHUP reloads"));
}

/* The manager hears of us only while every loop turns. */
static void on_watchdog(uv_timer_t *timer)
{
    struct wr_server *server = timer->data;
    bool alive = true;

    for (unsigned i = 0; i < server->worker_count; i++)
        alive = wr_worker_alive(server->workers[i]) && alive;
    if (alive)
        wr_notify("WATCHDOG=1");
    else
        wr_log(WR_LOG_WARNING, "a loop has not turned since the last look");
}

/* Signals that do not end us wait until they can be answered: by default they would end us. */
static void signals_while_starting(int how)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGHUP);
    (void)sigaddset(&set, SIGUSR1);
    (void)sigaddset(&set, SIGUSR2);
    (void)pthread_sigmask(how, &set, NULL);
}

void wr_server_hold_signals(void)
{
    signals_while_starting(SIG_BLOCK);
}

static void watch(struct wr_server *server)
{
    uint64_t every_ms = wr_notify_watchdog_ms();

    (void)uv_signal_start(&server->hup, on_hup, SIGHUP);
    (void)uv_signal_start(&server->user1, on_user_signal, SIGUSR1);
    (void)uv_signal_start(&server->user2, on_user_signal, SIGUSR2);
    (void)uv_signal_start(&server->term, on_end_signal, SIGTERM);
    (void)uv_signal_start(&server->interrupt, on_end_signal, SIGINT);
    wr_clock_watch_start(&server->clock_watch, server);
    signals_while_starting(SIG_UNBLOCK); /* those that came meanwhile are heard now */
    if (every_ms == 0)
        return;
    for (unsigned i = 0; i < server->worker_count; i++)
        (void)wr_worker_alive(server->workers[i]);
    (void)uv_timer_start(&server->watchdog, on_watchdog, every_ms, every_ms);
}

/* ---- the start --------------------------------------------------------------------------- */

/* Why there is no start. */
static __attribute__((format(printf, 1, 2))) void say(const char *format, ...)
{
    char text[2048];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    wr_log_say(text);
}

static bool count_descriptors(struct wr_server *server)
{
    if (wr_descriptors_count(&server->descriptors))
        return true;
    say("weir serve: the limit of %lld descriptors leaves none to connections\n",
        (long long)server->descriptors.limit);
    return false;
}

bool wr_server_take_connection(struct wr_server *server, enum wr_door_id door)
{
    return wr_descriptors_take(&server->descriptors, door == WR_DOOR_ADMIN);
}

void wr_server_leave_connection(struct wr_server *server)
{
    wr_descriptors_leave(&server->descriptors);
}

static unsigned choose_loops(const struct wr_policy_settings *settings)
{
    unsigned cores = uv_available_parallelism();

    return settings->threads > 0 ? settings->threads : cores > 0 ? cores : 1;
}

static void note_started(struct wr_server *server)
{
    const struct wr_policy *policy = server->current->policy;
    const struct wr_policy_settings *settings = wr_policy_settings(policy);
    struct wr_started *started = &server->started_with;

    *started = (struct wr_started){
        .threads = settings->threads, .idle_ns = settings->idle_ns, .stall_ns = settings->stall_ns};
    (void)snprintf(started->agent_path, sizeof started->agent_path, "%s", wr_sockets_agent(policy));
}

static bool open_sockets(struct wr_server *server)
{
    char error[1024];
    const struct wr_policy *policy = server->current->policy;
    struct wr_listen_options options = {.policy = policy,
                                        .policy_path = server->options.policy_path,
                                        .doors = server->options.doors,
                                        .door_count = server->options.door_count,
                                        .loops = choose_loops(wr_policy_settings(policy))};

    if (wr_sockets_open(&server->sockets, &options, error, sizeof error) != 0) {
        say("%s\n", error);
        return false;
    }
    if (wr_sockets_remote(&server->sockets, "admin") != NULL &&
        server->current->admin_token == NULL) {
        say("weir serve: listen: admin: an address that other machines can reach needs an "
            "admin_token or admin_token_file\n");
        return false;
    }
    note_started(server);
    server->worker_count = 0;
    server->workers = calloc(options.loops, sizeof(struct wr_worker *));
    server->loops = options.loops;
    return server->workers != NULL;
}

static bool probe_ring(const struct wr_server *server)
{
    const struct wr_policy_store *store = wr_policy_settings(server->current->policy)->store;
    const char *why =
        store != NULL && store->kind == WR_STORE_RING ? wr_ring_probe(&store->self) : NULL;

    if (why != NULL)
        say("weir serve: store: ring: self %s: %s\n", store->self.text, why);
    return why == NULL;
}

/* A loop takes some descriptors of its own, and says no more than that it could not be made. */
static void say_unstarted(const struct wr_server *server, const char *address, int result)
{
    if (address[0] != '\0')
        say("weir serve: %s: %s\n", address, weir_strerror(result));
    else
        say("weir serve: %u loops could not be started: %s, or the limit of %lld descriptors is "
            "too low (ulimit -n, LimitNOFILE=)\n",
            server->loops, weir_strerror(result), (long long)server->descriptors.limit);
}

static bool start_workers(struct wr_server *server)
{
    for (unsigned i = 0; i < server->loops; i++) {
        const char *failed;
        int result = wr_worker_start(&server->workers[i], server, i, server->current,
                                     &server->sockets, &failed);
        if (result != 0) {
            say_unstarted(server, failed, result);
            return false;
        }
        server->worker_count++;
    }
    return true;
}

/* Before anybody is served: customers are known from the first request on. */
static int start_keeping(struct wr_server *server, char *errors)
{
    int result;

    errors[0] = '\0';
    result = wr_keeping_start(&server->keeping, server->current->policy, errors, WR_ERRORS_BYTES);
    wr_log_say(errors);
    return result;
}

static bool open_policy(struct wr_server *server)
{
    char *errors = malloc(WR_ERRORS_BYTES);
    int result = WEIR_ENOMEM;

    if (errors != NULL) {
        errors[0] = '\0';
        result = wr_handle_open(&server->current, server->options.policy_path, NULL, errors,
                                WR_ERRORS_BYTES);
        wr_log_say(errors); /* warnings too */
    }
    if (result == 0)
        result = wr_totals_learn(server->totals, server->current);
    if (result == 0)
        result = start_keeping(server, errors);
    if (result != 0 && (errors == NULL || errors[0] == '\0'))
        say("weir serve: %s\n", weir_strerror(result));
    free(errors);
    return result == 0;
}

static bool set_up(struct wr_server *server, const struct wr_server_options *options)
{
    server->options = *options;
    (void)pthread_mutex_init(&server->reload_mutex, NULL);
    (void)pthread_mutex_init(&server->state_mutex, NULL);
    wr_store_state_init(&server->store);
    wr_keeping_init(&server->keeping);
    if (uv_loop_init(&server->uv) != 0)
        return false;
    (void)uv_signal_init(&server->uv, &server->hup);
    (void)uv_signal_init(&server->uv, &server->term);
    (void)uv_signal_init(&server->uv, &server->interrupt);
    (void)uv_signal_init(&server->uv, &server->user1);
    (void)uv_signal_init(&server->uv, &server->user2);
    (void)uv_timer_init(&server->uv, &server->watchdog);
    (void)uv_timer_init(&server->uv, &server->drain);
    (void)uv_timer_init(&server->uv, &server->clock_watch.timer);
    server->hup.data = server->term.data = server->interrupt.data = server;
    server->watchdog.data = server->drain.data = server;
    return true;
}

static void announce(const struct wr_server *server)
{
    for (size_t i = 0; i < server->sockets.count; i++) {
        const struct wr_socket *socket = &server->sockets.socket[i];
        wr_log(WR_LOG_INFO, "listening", wr_log_text("door", socket->door->name),
               wr_log_text("address", socket->address),
               wr_log_bool("tls", socket->listener.tls != NULL),
               wr_log_bool("client_certificates",
                           socket->listener.tls != NULL &&
                               wr_tls_files(socket->listener.tls)->client_ca != NULL));
    }
    wr_log(WR_LOG_INFO, "ready", wr_log_text("policy", server->options.policy_path),
           wr_log_number("limits", (int64_t)weir_limit_count(server->current->weir)),
           wr_log_number("loops", server->loops), wr_log_number("pid", getpid()),
           wr_log_number("descriptors", server->descriptors.limit));
    wr_reload_warn_of_bans(server->current);
    if (server->descriptors.limit < DESCRIPTORS_FEW)
        wr_log(WR_LOG_WARNING, "few descriptors", wr_log_number("limit", server->descriptors.limit),
               wr_log_text("hint", "raise the hard limit (ulimit -Hn, LimitNOFILE=): each "
                                   "connection takes one, and those beyond are refused"));
}

/* From here on loops turn, and may reload: what is reload.c's is looked at under its mutexes. */
static void go(struct wr_server *server)
{
    __atomic_store_n(&server->started, true, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < server->loops; i++)
        wr_worker_go(server->workers[i]);
    wr_keeping_loops_run(&server->keeping, server->workers[0]);
}

/* ---- all of it --------------------------------------------------------------------------- */

static void on_walk(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

/* A reload hangs, or is on its way: what it holds goes with the process. The names of unix sockets
 * do not. */
static void leave(struct wr_server *server)
{
    wr_sockets_close(&server->sockets);
    wr_log(WR_LOG_WARNING, "stopped", wr_log_text("hint", "in the middle of a reload"));
    _exit(0);
}

static bool end_reloads(struct wr_server *server)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    if (pthread_mutex_timedlock(&server->reload_mutex, &until) != 0)
        return false;
    server->ending = true;
    (void)pthread_mutex_unlock(&server->reload_mutex);
    return true;
}

static void tear_down(struct wr_server *server)
{
    if (!end_reloads(server))
        leave(server);
    wr_keeping_loops_end(&server->keeping);
    for (unsigned i = 0; i < server->worker_count; i++)
        wr_worker_stop(server->workers[i]);
    free(server->workers);
    wr_keeping_stop(&server->keeping); /* nothing is decided any more: the last of it is written */
    wr_sockets_close(&server->sockets);
    wr_reservations_free(server->reservations);
    wr_handle_unref(server->current);
    wr_totals_free(server->totals);
    uv_walk(&server->uv, on_walk, NULL);
    (void)uv_run(&server->uv, UV_RUN_DEFAULT);
    (void)uv_loop_close(&server->uv);
    (void)pthread_mutex_destroy(&server->reload_mutex);
    (void)pthread_mutex_destroy(&server->state_mutex);
    wr_store_state_fini(&server->store);
    wr_keeping_fini(&server->keeping);
}

int wr_server_run(const struct wr_server_options *options)
{
    struct wr_server *server = calloc(1, sizeof *server);
    bool good;

    if (server == NULL || !set_up(server, options)) {
        say("weir serve: %s\n", weir_strerror(WEIR_ENOMEM));
        free(server);
        return 1;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    /* Left alone the C library raises it with use, and keeps what a flood took. */
    (void)mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
    wr_descriptors_raise(&server->descriptors);
    server->reservations = wr_reservations_new(RESERVATIONS);
    server->totals = wr_totals_new();
    good = server->reservations != NULL && server->totals != NULL && open_policy(server) &&
           open_sockets(server) && probe_ring(server) && start_workers(server) &&
           count_descriptors(server);
    if (good) {
        watch(server); /* first: who reads that we are ready may send a signal at once */
        announce(server);
        go(server);
        wr_notify("READY=1\nSTATUS=serving");
        (void)uv_run(&server->uv, UV_RUN_DEFAULT);
    }
    tear_down(server);
    if (good) /* behind what loops say as their last */
        wr_log(WR_LOG_INFO, "stopped");
    free(server);
    return good ? 0 : 1;
}
