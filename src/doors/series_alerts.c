/* series_alerts.c - the series of alerts and webhooks. */
#include <stdio.h>

#include "doors/series.h"

static const char *const hooks[] = {
    [WR_ALERT_QUOTA] = "webhook", [WR_ALERT_UPGRADE] = "confirm_upgrade"};

void wr_series_alerts(struct wr_exposition *to, const struct wr_scrape *scrape)
{
    for (size_t i = 0; i < scrape->alert_count; i++) {
        char percent[8];
        struct wr_metric_labels labels;
        (void)snprintf(percent, sizeof percent, "%u", scrape->alerts[i].percent);
        labels = wr_labels("quota", scrape->alerts[i].quota, "percent", percent);
        wr_exposition_sample(to, &labels, scrape->alerts[i].count);
    }
}

void wr_series_deliveries(struct wr_exposition *to, const struct wr_scrape *scrape)
{
    for (unsigned kind = 0; kind < 2; kind++) {
        const struct wr_webhook_state *of = &scrape->webhook;
        const struct wr_metric_labels sent = wr_labels("hook", hooks[kind], "result", "answered");
        const struct wr_metric_labels failed = wr_labels("hook", hooks[kind], "result", "failed");
        wr_exposition_sample(to, &sent, of->sent[kind]);
        wr_exposition_sample(to, &failed, of->failed[kind]);
    }
}

void wr_series_given_up(struct wr_exposition *to, const struct wr_scrape *scrape)
{
    for (unsigned kind = 0; kind < 2; kind++) {
        const struct wr_metric_labels labels = wr_label("hook", hooks[kind]);
        wr_exposition_sample(to, &labels, scrape->webhook.given_up[kind]);
    }
}
