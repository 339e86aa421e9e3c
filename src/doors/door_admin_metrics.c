/* door_admin_metrics.c - /metrics: what the daemon counts, for Prometheus and its kin.
 *
 * The admin door shares the first loop with doors that decide, so a scrape is kept short: counters
 * are added up, the arena is sampled (never walked), and the text is written without printf. A
 * policy of 20 limits takes a few hundred microseconds. */
#include "base/clock.h"
#include "doors/door_admin.h"
#include "doors/series.h"
#include "lib/handle.h"
#include "serve/broker.h"
#include "serve/keeping.h"
#include "serve/reservations.h"

#define SAMPLE_BUCKETS 1024U
#define DETAIL_BYTES 600U

static void look_at_arena(const struct wr_arena *arena, uint64_t turn, struct wr_scrape *scrape)
{
    for (unsigned i = 0; i < WR_ARENA_COUNTERS; i++)
        scrape->arena[i] = wr_arena_count(arena, (enum wr_arena_counter)i);
    scrape->arena_slots = wr_arena_slots(arena);
    wr_arena_sample(arena, turn, SAMPLE_BUCKETS, wr_arena_now(arena), &scrape->occupancy);
}

static void look(struct admin_door *door, const struct wr_handle *handle, struct wr_scrape *scrape)
{
    struct wr_server *server = door->service.loop->server;
    static const char *const kinds[] = {[WR_STORE_REDIS] = "redis",
                                        [WR_STORE_SENTINEL] = "sentinel",
                                        [WR_STORE_CLUSTER] = "cluster",
                                        [WR_STORE_MEMCACHED] = "memcached",
                                        [WR_STORE_RING] = "ring"};
    const struct wr_policy_store *store = wr_policy_settings(handle->policy)->store;
    char detail[DETAIL_BYTES];

    scrape->version = WEIR_VERSION;
    scrape->reservations = wr_reservations_open(wr_server_reservations(server));
    scrape->reservations_most = wr_reservations_most(wr_server_reservations(server));
    scrape->store = store != NULL ? kinds[store->kind] : "none";
    look_at_arena(handle->weir->arena, door->scrapes++, scrape);
    scrape->generation = handle->generation;
    wr_server_reloads(server, &scrape->reloads_good, &scrape->reloads_refused);
    scrape->ready = wr_server_ready(server, detail, sizeof detail);
    scrape->has_ledger = wr_keeping_state(server, &scrape->ledger);
    scrape->webhook = (struct wr_webhook_state){0};
    (void)wr_keeping_alerts(server, &scrape->webhook, scrape->alerts, &scrape->alert_count);
    scrape->wall_ns = wr_clock_wall().ns;
    scrape->ahead_ns = wr_arena_wall_ahead_ns(handle->weir->arena);
    wr_process_look(&scrape->process);
    scrape->peer_count = wr_broker_peers(door->service.loop->broker, scrape->peers);
}

static enum wr_exposition_form form_for(const struct wr_http_request *request)
{
    const struct wr_http_field *accept = wr_http_find(request, "accept");

    return accept != NULL ? wr_exposition_choose(accept->value) : WR_TEXT_0_0_4;
}

void admin_metrics(struct http_service *service, struct weir_slice peer,
                   const struct wr_http_request *request, struct http_response *response)
{
    struct admin_door *door = admin_door_of(service);
    struct wr_handle *handle = wr_server_handle(service->loop->server);
    struct wr_exposition *text = &door->metrics;
    struct wr_scrape scrape;

    (void)peer;
    wr_exposition_begin(text, form_for(request));
    if (wr_totals_read(wr_server_totals(service->loop->server), handle, &scrape.counted) == 0) {
        look(door, handle, &scrape);
        wr_series_write(text, &scrape);
    } else {
        text->failed = true;
    }
    wr_handle_unref(handle);
    if (text->failed)
        http_problem(service, response, 503, "out of memory", (struct weir_slice){NULL, 0});
    else
        *response = (struct http_response){
            .status = 200, .type = wr_exposition_type(text->form), .body = {text->text, text->len}};
}
