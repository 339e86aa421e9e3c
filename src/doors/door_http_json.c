/* door_http_json.c - /json, as envoyproxy/ratelimit has it: a question of its service in proto3
 * JSON. 200 within the limits, 429 over one, and 400 with a problem for whatever is no question. */
#include <stdlib.h>

#include "doors/door_http.h"
#include "doors/rls.h"
#include "wire/ratejson.h"

struct http_json {
    struct wr_rate_reader reader;
    struct wr_rate_response response;
    struct wr_rls_scratch scratch;
};

struct http_json *http_json_new(void)
{
    struct http_json *json = calloc(1, sizeof *json);

    if (json != NULL)
        json->scratch.door = WR_DOOR_HTTP;
    return json;
}

/* Which member of the question a refusal is about. */
static struct weir_slice blamed(const struct wr_rate_reader *reader)
{
    if (reader->error != NULL)
        return (struct weir_slice){reader->member, reader->member_len};
    if (reader->request.domain.len == 0)
        return (struct weir_slice){"domain", 6};
    if (reader->request.count == 0)
        return (struct weir_slice){"descriptors", 11};
    return (struct weir_slice){NULL, 0};
}

void http_json(struct http_service *service, struct weir_slice peer,
               const struct wr_http_request *request, struct http_response *response)
{
    struct http_door *door = http_door_of(service);
    struct http_json *json = door->json;
    int result = WEIR_EINVAL;
    const char *why = "the body is no question";

    (void)peer;
    if (http_refuses_encoded(service, request, response))
        return;
    json->scratch.asks = service->asks;
    if (wr_rate_read(&json->reader, request->body, door->decoded))
        result = wr_rls_answer(door->service.loop, &json->reader.request, &json->scratch,
                               &json->response, &why);
    else if (json->reader.error != NULL)
        why = json->reader.error;
    if (result == WR_RLS_WAITS) {
        response->waits = true;
        return;
    }
    if (result == WR_RLS_STORE) {
        http_problem(service, response, 503, why, (struct weir_slice){NULL, 0});
        return;
    }
    if (result != 0) {
        http_body_problem(service, response, why, blamed(&json->reader), json->reader.offset);
        return;
    }
    if (!http_body_room(&door->service, response, wr_rate_write_max(&json->response)))
        return;
    *response = (struct http_response){
        .status = json->response.code == WR_RATE_OVER_LIMIT ? 429 : 200,
        .type = "application/json",
        .body = {door->service.body, wr_rate_write(&json->response, door->service.body)}};
}
