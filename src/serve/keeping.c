/* keeping.c - the keeper of customers and the ledger, as a part of the daemon.
 *
 * A policy of the same directory is given to the keeper that there is; one of another directory
 * gets another keeper, which is started before the old one is ended, so that a policy that cannot
 * be taken leaves everything as it was. */
#include "serve/keeping.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/customers.h"
#include "serve/log.h"
#include "serve/server.h"

void wr_keeping_init(struct wr_keeping *keeping)
{
    *keeping = (struct wr_keeping){.keeper = NULL};
    (void)pthread_rwlock_init(&keeping->lock, NULL);
    wr_alerting_init(&keeping->alerting);
}

void wr_keeping_fini(struct wr_keeping *keeping)
{
    (void)pthread_rwlock_destroy(&keeping->lock);
    wr_alerting_fini(&keeping->alerting);
}

static void say(void *context, enum wr_keeper_level level, const char *event, const char *detail)
{
    static const enum wr_log_level levels[] = {[WR_KEEPER_INFO] = WR_LOG_INFO,
                                               [WR_KEEPER_WARNING] = WR_LOG_WARNING,
                                               [WR_KEEPER_ERROR] = WR_LOG_ERROR};

    (void)context;
    wr_log(levels[level], event, wr_log_text("detail", detail));
}

static void told(void *context, const struct wr_alert *alert)
{
    (void)context;
    wr_alerting_log(alert);
}

void wr_keeping_loops_run(struct wr_keeping *keeping, struct wr_worker *first)
{
    wr_alerting_by(&keeping->alerting, first);
}

void wr_keeping_loops_end(struct wr_keeping *keeping)
{
    wr_alerting_by(&keeping->alerting, NULL);
}

static const char *directory_of(const struct wr_policy *policy)
{
    const struct wr_policy_customers *customers = wr_policy_settings(policy)->customers;

    return customers != NULL ? customers->directory : "";
}

/* Append what |diag| has to |errors|. */
static void format(const struct wr_diag *diag, char *errors, size_t size)
{
    size_t used = strnlen(errors, size);

    if (used < size)
        (void)wr_diag_format(diag, errors + used, size - used);
}

static int start(struct wr_keeping *keeping, const struct wr_policy *policy, struct wr_keeper **out,
                 char *errors, size_t size)
{
    const struct wr_keeper_options options = {.policy = policy,
                                              .say = say,
                                              .told = told,
                                              .ask = wr_alerting_ask,
                                              .context = &keeping->alerting};
    struct wr_diag *diag = malloc(sizeof *diag); /* too large for a small stack */
    int result = WEIR_ENOMEM;

    *out = NULL;
    if (diag != NULL) {
        wr_diag_init(diag, "customers");
        result = wr_keeper_start(out, &options, diag);
        format(diag, errors, size);
    }
    free(diag);
    return result;
}

int wr_keeping_start(struct wr_keeping *keeping, const struct wr_policy *policy, char *errors,
                     size_t size)
{
    (void)snprintf(keeping->directory, sizeof keeping->directory, "%s", directory_of(policy));
    return keeping->directory[0] == '\0' ? 0
                                         : start(keeping, policy, &keeping->keeper, errors, size);
}

/* Whoever uses the old one has let go of it when this returns. */
static struct wr_keeper *put(struct wr_keeping *keeping, struct wr_keeper *keeper)
{
    struct wr_keeper *before;

    (void)pthread_rwlock_wrlock(&keeping->lock);
    before = keeping->keeper;
    keeping->keeper = keeper;
    (void)pthread_rwlock_unlock(&keeping->lock);
    return before;
}

void wr_keeping_stop(struct wr_keeping *keeping)
{
    wr_keeper_stop(put(keeping, NULL));
}

/* ---- another policy -------------------------------------------------------------------------- */

static int prepare(struct wr_keeper *keeper, const struct wr_policy *policy,
                   struct wr_keeper_config **out, char *errors, size_t size)
{
    struct wr_diag *diag = malloc(sizeof *diag);
    int result = WEIR_ENOMEM;

    if (diag != NULL) {
        wr_diag_init(diag, "customers");
        result = wr_keeper_prepare(keeper, policy, out, diag);
        format(diag, errors, size);
    }
    free(diag);
    return result;
}

int wr_keeping_prepare(struct wr_keeping *keeping, const struct wr_policy *policy,
                       struct wr_keeping_next *out, char *errors, size_t size)
{
    *out = (struct wr_keeping_next){.config = NULL};
    (void)snprintf(out->directory, sizeof out->directory, "%s", directory_of(policy));
    if (out->directory[0] == '\0')
        return 0;
    return keeping->keeper != NULL && strcmp(keeping->directory, out->directory) == 0
               ? prepare(keeping->keeper, policy, &out->config, errors, size)
               : start(keeping, policy, &out->keeper, errors, size);
}

void wr_keeping_take(struct wr_keeping *keeping, struct wr_keeping_next *next)
{
    if (next->config != NULL)
        wr_keeper_take(keeping->keeper, next->config);
    else
        wr_keeper_stop(put(keeping, next->keeper));
    (void)snprintf(keeping->directory, sizeof keeping->directory, "%s", next->directory);
    *next = (struct wr_keeping_next){.config = NULL};
}

void wr_keeping_drop(struct wr_keeping_next *next)
{
    wr_keeper_drop(next->config);
    wr_keeper_stop(next->keeper);
    *next = (struct wr_keeping_next){.config = NULL};
}

/* ---- for doors ------------------------------------------------------------------------------- */

bool wr_keeping_state(struct wr_server *server, struct wr_keeper_state *out)
{
    struct wr_keeping *keeping = &server->keeping;
    bool there;

    *out = (struct wr_keeper_state){.writer = false};
    (void)pthread_rwlock_rdlock(&keeping->lock);
    there = keeping->keeper != NULL;
    if (there)
        wr_keeper_state(keeping->keeper, out);
    (void)pthread_rwlock_unlock(&keeping->lock);
    return there;
}

bool wr_keeping_alerts(struct wr_server *server, struct wr_webhook_state *state,
                       struct wr_alert_count counts[WR_ALERT_COUNTS_MAX], size_t *count)
{
    struct wr_keeping *keeping = &server->keeping;
    bool there;

    *count = 0;
    (void)pthread_rwlock_rdlock(&keeping->lock);
    there = keeping->keeper != NULL;
    if (there) {
        wr_keeper_webhook_state(keeping->keeper, state);
        *count = wr_keeper_alert_counts(keeping->keeper, counts);
    }
    (void)pthread_rwlock_unlock(&keeping->lock);
    return there;
}

bool wr_keeping_pass(struct wr_server *server, unsigned timeout_ms)
{
    struct wr_keeping *keeping = &server->keeping;
    bool done;

    (void)pthread_rwlock_rdlock(&keeping->lock);
    done = keeping->keeper != NULL && wr_keeper_pass(keeping->keeper, timeout_ms);
    (void)pthread_rwlock_unlock(&keeping->lock);
    return done;
}

bool wr_keeping_path(struct wr_server *server, char *out, size_t size)
{
    struct wr_keeping *keeping = &server->keeping;
    bool there;

    (void)pthread_rwlock_rdlock(&keeping->lock);
    there = keeping->keeper != NULL;
    (void)snprintf(out, size, "%s", there ? wr_keeper_path(keeping->keeper) : "");
    (void)pthread_rwlock_unlock(&keeping->lock);
    return there;
}
