/* webhook.c - the thread: its start, its end, another policy for it.
 *
 * Idea. It waits in curl_multi_poll, for sockets of what is being sent, for whoever wakes it, and
 * for the next second: what another process has changed in the database (weir alerts retry) is seen
 * then.
 *
 * Invariant: requests and ends are the thread's alone; others leave notes under the mutex, and wake
 * it. The database is whoever's that has |turning|: the thread, but while the keeper renames it. */
#include "meter/webhook.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/secret.h"
#include "base/units.h"
#include "meter/webhook_parts.h"

#define TURN_MS 1000
#define LAST_MS 2000 /* of waiting for what flies, at the end */

/* ---- where to ------------------------------------------------------------------------------- */

static bool copy(char **out, const char *text)
{
    *out = text != NULL ? strdup(text) : NULL;
    return text == NULL || *out != NULL;
}

static int read_end(struct wr_webhook_end *end, const struct wr_policy_webhook *hook,
                    struct wr_diag *diag)
{
    char why[WR_SECRET_ERROR_MAX];

    if (hook->url == NULL)
        return 0;
    end->timeout_ns = hook->timeout_ns;
    end->give_up_ns = hook->give_up_ns;
    if (!copy(&end->url, hook->url) || !copy(&end->ca_file, hook->ca_file) ||
        !copy(&end->secret, hook->secret))
        return WEIR_ENOMEM;
    if (hook->secret_file == NULL)
        return 0;
    end->secret = wr_secret_read(hook->secret_file, &wr_secret_webhook, why, sizeof why);
    if (end->secret != NULL)
        return 0;
    wr_diag_add(diag, WR_ERROR, hook->secret_file_at.line, hook->secret_file_at.column, "%s", why);
    return WEIR_EPOLICY;
}

int wr_webhook_ends_new(struct wr_webhook_ends **out, const struct wr_policy_customers *customers,
                        struct wr_diag *diag)
{
    struct wr_webhook_ends *ends = calloc(1, sizeof *ends);
    int result = ends != NULL ? read_end(&ends->end[WR_ALERT_QUOTA], &customers->webhook, diag)
                              : WEIR_ENOMEM;

    *out = NULL;
    if (result == 0)
        result = read_end(&ends->end[WR_ALERT_UPGRADE], &customers->confirm_upgrade, diag);
    if (result == 0)
        *out = ends;
    else
        wr_webhook_ends_free(ends);
    return result;
}

void wr_webhook_ends_free(struct wr_webhook_ends *ends)
{
    for (unsigned i = 0; ends != NULL && i < WR_WEBHOOK_KINDS; i++) {
        free(ends->end[i].url);
        free(ends->end[i].ca_file);
        wr_secret_free(ends->end[i].secret);
    }
    free(ends);
}

/* ---- the thread ----------------------------------------------------------------------------- */

/* What others have left. True: the end. */
static bool read_notes(struct wr_webhook *hook, bool *go)
{
    struct wr_webhook_ends *next;
    bool stop;

    (void)pthread_mutex_lock(&hook->mutex);
    next = hook->next;
    hook->next = NULL;
    stop = hook->stop;
    *go = hook->go;
    (void)pthread_mutex_unlock(&hook->mutex);
    if (next != NULL) {
        wr_webhook_ends_free(hook->ends);
        hook->ends = next;
    }
    return stop;
}

static int64_t monotonic_ms(void)
{
    struct timespec at;

    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    return (int64_t)at.tv_sec * 1000 + at.tv_nsec / 1000000;
}

static void wait_for(struct wr_webhook *hook, int ms)
{
    (void)curl_multi_poll(hook->multi, NULL, 0, ms, NULL);
    wr_posts_go_on(hook);
}

/* What flies may land; what does not is sent again by the next process. */
static void end(struct wr_webhook *hook, bool go)
{
    int64_t until_ms = monotonic_ms() + LAST_MS;

    if (go)
        while (wr_webhook_turn(hook, true))
            continue;
    while (wr_posts_flying(hook) > 0 && monotonic_ms() < until_ms)
        wait_for(hook, 50);
    if (go)
        (void)wr_webhook_turn(hook, true);
    for (unsigned kind = 0; kind < WR_WEBHOOK_KINDS; kind++)
        for (unsigned i = 0; i < WR_POSTS; i++)
            wr_post_free(hook, &hook->post[kind][i]);
    (void)pthread_mutex_lock(&hook->turning);
    wr_webhook_close_database(hook);
    (void)pthread_mutex_unlock(&hook->turning);
}

static void *run(void *context)
{
    struct wr_webhook *hook = context;
    bool go = false;

    while (!read_notes(hook, &go)) {
        bool more = go && wr_webhook_turn(hook, false);
        wait_for(hook, more ? 0 : TURN_MS);
    }
    end(hook, go);
    return NULL;
}

/* ---- start and end -------------------------------------------------------------------------- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void start_curl(void)
{
    (void)curl_global_init(CURL_GLOBAL_ALL);
}

/* Signals are the main thread's. */
static int start_thread(struct wr_webhook *hook)
{
    sigset_t all, before;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    hook->running = pthread_create(&hook->thread, NULL, run, hook) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return hook->running ? 0 : WEIR_ENOMEM;
}

int wr_webhook_start(struct wr_webhook **out, const struct wr_webhook_options *options)
{
    struct wr_webhook *hook = calloc(1, sizeof *hook);

    *out = NULL;
    if (hook == NULL)
        return WEIR_ENOMEM;
    (void)pthread_once(&once, start_curl);
    (void)pthread_mutex_init(&hook->mutex, NULL);
    (void)pthread_mutex_init(&hook->turning, NULL);
    hook->options = *options->keeper;
    hook->moved = options->moved;
    hook->of = options->of;
    (void)snprintf(hook->path, sizeof hook->path, "%s", options->path);
    hook->multi = curl_multi_init();
    if (hook->multi == NULL || start_thread(hook) != 0) {
        wr_webhook_stop(hook);
        return WEIR_ENOMEM;
    }
    *out = hook;
    return 0;
}

void wr_webhook_take(struct wr_webhook *hook, struct wr_webhook_ends *ends)
{
    struct wr_webhook_ends *unused;

    if (ends == NULL)
        return;
    (void)pthread_mutex_lock(&hook->mutex);
    unused = hook->next;
    hook->next = ends;
    (void)pthread_mutex_unlock(&hook->mutex);
    wr_webhook_ends_free(unused);
    (void)curl_multi_wakeup(hook->multi);
}

void wr_webhook_go(struct wr_webhook *hook)
{
    (void)pthread_mutex_lock(&hook->mutex);
    hook->go = true;
    (void)pthread_mutex_unlock(&hook->mutex);
    (void)curl_multi_wakeup(hook->multi);
}

void wr_webhook_pause(struct wr_webhook *hook)
{
    (void)pthread_mutex_lock(&hook->turning);
    wr_webhook_close_database(hook);
}

void wr_webhook_resume(struct wr_webhook *hook)
{
    (void)pthread_mutex_unlock(&hook->turning);
}

void wr_webhook_stop(struct wr_webhook *hook)
{
    if (hook == NULL)
        return;
    (void)pthread_mutex_lock(&hook->mutex);
    hook->stop = true;
    (void)pthread_mutex_unlock(&hook->mutex);
    if (hook->multi != NULL)
        (void)curl_multi_wakeup(hook->multi);
    if (hook->running)
        (void)pthread_join(hook->thread, NULL);
    if (hook->multi != NULL)
        (void)curl_multi_cleanup(hook->multi);
    wr_webhook_ends_free(hook->next);
    wr_webhook_ends_free(hook->ends);
    (void)pthread_mutex_destroy(&hook->mutex);
    (void)pthread_mutex_destroy(&hook->turning);
    free(hook);
}

void wr_webhook_state(struct wr_webhook *hook, struct wr_webhook_state *out)
{
    (void)pthread_mutex_lock(&hook->mutex);
    *out = hook->state;
    (void)pthread_mutex_unlock(&hook->mutex);
}
