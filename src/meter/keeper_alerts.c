/* keeper_alerts.c - the keeper and the thread that tells alerts. */
#include <stdio.h>
#include <string.h>

#include "meter/keeper_parts.h"
#include "meter/webhook.h"

/* The counter of a threshold: made where there is none. NULL: there are too many. */
static struct wr_alert_count *find_count(struct wr_keeper *keeper, const char *quota,
                                         uint8_t percent)
{
    struct wr_alert_count *count = keeper->alerts;

    for (size_t i = 0; i < keeper->alert_count; i++, count++)
        if (count->percent == percent && strcmp(count->quota, quota) == 0)
            return count;
    if (keeper->alert_count == WR_ALERT_COUNTS_MAX)
        return NULL;
    keeper->alert_count++;
    *count = (struct wr_alert_count){.percent = percent};
    (void)snprintf(count->quota, sizeof count->quota, "%s", quota);
    return count;
}

static void on_told(void *context, const struct wr_alert *alert)
{
    struct wr_keeper *keeper = context;
    struct wr_alert_count *count;

    (void)pthread_mutex_lock(&keeper->mutex);
    count = find_count(keeper, alert->quota, alert->percent);
    if (count != NULL)
        count->count++;
    (void)pthread_mutex_unlock(&keeper->mutex);
    if (keeper->told != NULL)
        keeper->told(keeper->context, alert);
}

static void on_say(void *context, enum wr_keeper_level level, const char *event, const char *detail)
{
    struct wr_keeper *keeper = context;

    keeper->say(keeper->context, level, event, detail);
}

static void on_ask(void *context, struct wr_alert_ask *asks, size_t count)
{
    struct wr_keeper *keeper = context;

    keeper->ask(keeper->context, asks, count);
}

/* Customers have been moved: into the map at once. */
static void on_moved(void *context, bool upgraded)
{
    struct wr_keeper *keeper = context;

    (void)pthread_mutex_lock(&keeper->mutex);
    keeper->state.upgrades += upgraded;
    keeper->asked++;
    (void)pthread_cond_signal(&keeper->wake);
    (void)pthread_mutex_unlock(&keeper->mutex);
}

int wr_keeper_start_webhook(struct wr_keeper *keeper, const struct wr_keeper_options *options)
{
    const struct wr_keeper_options mine = {.say = on_say,
                                           .told = on_told,
                                           .ask = options->ask != NULL ? on_ask : NULL,
                                           .context = keeper,
                                           .now_ns = keeper->now_ns};
    const struct wr_webhook_options of = {keeper->path, &mine, on_moved, keeper};
    int result;

    keeper->told = options->told;
    keeper->ask = options->ask;
    result = wr_webhook_start(&keeper->webhook, &of);
    if (result == 0)
        wr_keeper_take_alerts(keeper);
    return result;
}

void wr_keeper_take_alerts(struct wr_keeper *keeper)
{
    struct wr_keeper_config *config = keeper->config;

    wr_webhook_take(keeper->webhook, config->ends);
    config->ends = NULL;
    (void)pthread_mutex_lock(&keeper->mutex);
    for (size_t i = 0; i < config->quota_count; i++)
        for (unsigned k = 0; k < config->quota[i].alert.count; k++)
            (void)find_count(keeper, config->quota[i].name, config->quota[i].alert.percent[k]);
    (void)pthread_mutex_unlock(&keeper->mutex);
}

size_t wr_keeper_alert_counts(struct wr_keeper *keeper,
                              struct wr_alert_count out[WR_ALERT_COUNTS_MAX])
{
    size_t count;

    (void)pthread_mutex_lock(&keeper->mutex);
    count = keeper->alert_count;
    memcpy(out, keeper->alerts, count * sizeof *out);
    (void)pthread_mutex_unlock(&keeper->mutex);
    return count;
}

void wr_keeper_webhook_state(struct wr_keeper *keeper, struct wr_webhook_state *out)
{
    wr_webhook_state(keeper->webhook, out);
}
