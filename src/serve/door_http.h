/* door_http.h - what the files of the HTTP door share: door_http.c (the door and its paths),
 * door_http_check.c (/v1/check and its kin), door_http_auth.c (/v1/auth), door_http_json.c (/json).
 */
#ifndef WR_SERVE_DOOR_HTTP_H
#define WR_SERVE_DOOR_HTTP_H

#include "serve/http_policy.h"
#include "serve/http_service.h"
#include "wire/checkjson.h"

#define HTTP_BATCH 32U /* decided at once */

/* One listening socket. All but the service's connections is scratch memory for the request at
 * hand. */
struct http_door {
    struct http_service service; /* first */
    struct http_policy policy;
    char *decoded;                 /* WR_HTTP_BODY_MAX: strings of JSON */
    struct weir_request *requests; /* WR_CHECK_BATCH_MAX */
    struct weir_slice *fields;     /* of them, of the policy in force */
    size_t fields_room;
    struct weir_answer answers[HTTP_BATCH];
    struct http_json *json;          /* of /json */
    char values[WEIR_HEADERS_BYTES]; /* of the response's fields */
    char status[4];                  /* of X-Weir-Status */
};

static inline struct http_door *http_door_of(struct http_service *service)
{
    return (struct http_door *)service;
}

http_handler http_check, http_reserve, http_settle, http_release, http_auth, http_json;

/* Room for the fields of |requests| requests at door->fields. False: out of memory. */
bool http_fields_room(struct http_door *door, size_t requests);

/* door_http_json.c: its part of a door, to be freed by free(). NULL: out of memory. */
struct http_json *http_json_new(void);

#endif
