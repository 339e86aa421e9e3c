/* door_admin_bans.c - /v1/bans: who is banned at run time, banning, lifting.
 *
 * Invariants: a change is answered only when it is in the arena, and every process obeys it; it is
 * logged, with the address that is banned, but with no other value, which may be a secret. */
#include <stdlib.h>
#include <string.h>

#include "doors/bans.h"
#include "doors/door_admin.h"
#include "serve/log.h"
#include "wire/banjson.h"
#include "wire/query.h"

static const struct weir_slice nothing = {NULL, 0};

static struct weir_slice text_of(const char *text)
{
    return (struct weir_slice){text, strlen(text)};
}

static bool refuse(struct admin_door *door, struct http_response *response, int status,
                   const char *detail, struct weir_slice member)
{
    http_problem(&door->service, response, status, detail, member);
    return false;
}

static int status_of(int error)
{
    return error == WEIR_EINVAL ? 400 : error == WEIR_ENOENT ? 404 : 503;
}

static void log_change(const char *event, const struct weir_banned *ban)
{
    char id[WR_BAN_ID_MAX];

    wr_ban_id_write(ban->id, id);
    wr_log(WR_LOG_INFO, event, wr_log_text("id", id), wr_log_text("identity", ban->identity),
           wr_log_text("value", ban->value), wr_log_text("reason", ban->reason));
}

/* ---- listing ------------------------------------------------------------------------------- */

void admin_bans_get(struct http_service *service, struct weir_slice peer,
                    const struct wr_http_request *request, struct http_response *response)
{
    struct admin_door *door = admin_door_of(service);
    struct weir *weir = service->loop->handle->weir;
    struct wr_ban_clock clock = wr_ban_clock_now(weir);
    struct wr_page *page = &door->page;
    size_t count;
    struct weir_banned *list = wr_ban_list(weir, clock.arena_ns, &count);

    (void)peer;
    (void)request;
    if (list == NULL) {
        (void)refuse(door, response, 503, "out of memory", nothing);
        return;
    }
    wr_page_open(page, '{');
    wr_page_key(page, "bans");
    wr_page_open(page, '[');
    for (size_t i = 0; i < count; i++)
        wr_put_ban(page, &list[i], clock);
    wr_page_close(page, ']');
    admin_put_int(page, "room", (int64_t)wr_ban_left_over(weir, count));
    wr_page_close(page, '}');
    free(list);
    admin_page(door, response, 200, "application/json");
}

/* ---- banning ------------------------------------------------------------------------------- */

/* Which member of the body weir_ban's refusal is about. */
static struct weir_slice blamed(int error, const struct weir_ban_order *order, const char *why)
{
    if (error == WEIR_EINVAL && strstr(why, "reason") != NULL)
        return text_of("reason");
    return error == WEIR_EINVAL || error == WEIR_ENOENT ? order->identity : nothing;
}

void admin_bans_post(struct http_service *service, struct weir_slice peer,
                     const struct wr_http_request *request, struct http_response *response)
{
    struct admin_door *door = admin_door_of(service);
    struct weir *weir = service->loop->handle->weir;
    struct wr_ban_clock clock = wr_ban_clock_now(weir);
    struct weir_ban_order order;
    struct weir_banned ban;
    struct wr_ban_body body;
    const char *wrong;
    int result;

    (void)peer;
    if (!wr_ban_body_read(&body, request->body, door->decoded)) {
        (void)refuse(door, response, 400, body.error, body.member);
        return;
    }
    order = (struct weir_ban_order){
        .identity = body.identity, .value = body.value, .reason = body.reason};
    wrong = wr_ban_end(body.lasts, body.until, clock, &order.until_ns);
    if (wrong != NULL) {
        (void)refuse(door, response, 400, wrong, text_of(body.lasts.ptr != NULL ? "for" : "until"));
        return;
    }
    if (wr_ban_is_everyone(&order) && !http_is(body.confirm, "everyone")) {
        (void)refuse(door, response, 400,
                     "this bans every caller; \"confirm\": \"everyone\" says that it is meant",
                     text_of("confirm"));
        return;
    }
    result = weir_ban(weir, &order, clock.arena_ns, &ban);
    if (result != 0) {
        wrong = wr_ban_refusal(result, &order);
        (void)refuse(door, response, status_of(result), wrong, blamed(result, &order, wrong));
        return;
    }
    log_change("banned", &ban);
    wr_put_ban(&door->page, &ban, clock);
    admin_page(door, response, 200, "application/json");
}

/* ---- lifting ------------------------------------------------------------------------------- */

struct asked {
    struct weir_slice id, by;
};

/* One of id=ID and by=IDENTITY:VALUE. */
static bool read_query(struct admin_door *door, const struct wr_http_request *request,
                       struct asked *asked, struct http_response *response)
{
    struct weir_slice text = http_query(request), name, value;
    struct wr_query query = {.at = text.ptr, .end = text.ptr + text.len, .scratch = door->decoded};

    *asked = (struct asked){nothing, nothing};
    while (wr_query_next(&query, &name, &value)) {
        struct weir_slice *to = http_is(name, "id") ? &asked->id : &asked->by;
        *to = value;
    }
    if (query.error != NULL)
        return refuse(door, response, 400, query.error, name);
    if ((asked->id.ptr != NULL) == (asked->by.ptr != NULL))
        return refuse(door, response, 400, "expected one of id=ID and by=IDENTITY:VALUE", nothing);
    return true;
}

static int lift(struct weir *weir, const struct asked *asked)
{
    int64_t now = weir_now(weir);
    const char *colon;
    uint64_t id;

    if (asked->id.ptr != NULL)
        return wr_ban_id_read(asked->id, &id) ? weir_unban_id(weir, id, now) : WEIR_EINVAL;
    colon = memchr(asked->by.ptr, ':', asked->by.len);
    if (colon == NULL)
        return WEIR_EINVAL;
    return weir_unban(
        weir, (struct weir_slice){asked->by.ptr, (size_t)(colon - asked->by.ptr)},
        (struct weir_slice){colon + 1, (size_t)(asked->by.ptr + asked->by.len - colon - 1)}, now);
}

void admin_bans_delete(struct http_service *service, struct weir_slice peer,
                       const struct wr_http_request *request, struct http_response *response)
{
    struct admin_door *door = admin_door_of(service);
    struct asked asked;
    int result;

    (void)peer;
    if (!read_query(door, request, &asked, response))
        return;
    result = lift(service->loop->handle->weir, &asked);
    if (result != 0) {
        (void)refuse(door, response, status_of(result),
                     result == WEIR_EINVAL && asked.id.ptr != NULL ? "expected an id of the list"
                     : result == WEIR_EINVAL ? "expected by=ip:ADDRESS, or the name of an identity "
                                               "and a value"
                     : result == WEIR_ENOENT ? "there is no such ban"
                                             : wr_ban_refusal(result, NULL),
                     text_of(asked.id.ptr != NULL ? "id" : "by"));
        return;
    }
    wr_log(WR_LOG_INFO, "ban lifted", wr_log_text("by", asked.id.ptr != NULL ? "id" : "value"));
    wr_page_open(&door->page, '{');
    admin_put_bool(&door->page, "lifted", true);
    wr_page_close(&door->page, '}');
    admin_page(door, response, 200, "application/json");
}
