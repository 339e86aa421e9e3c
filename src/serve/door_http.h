/* door_http.h - what the files of the HTTP door share: door_http.c (connections), door_http_check.c
 * (/v1/check and its kin), door_http_auth.c (/v1/auth), door_http_json.c (/json), door_http_hold.c
 * (answers that wait). */
#ifndef WR_SERVE_DOOR_HTTP_H
#define WR_SERVE_DOOR_HTTP_H

#include "serve/conn.h"
#include "serve/serve.h"
#include "wire/checkjson.h"
#include "wire/http1.h"

#define HTTP_FIELDS_MAX (WEIR_HEADERS_MAX + 8) /* of a response */
#define HTTP_BATCH 32U                         /* decided at once */
#define HTTP_HELD_MAX 10000U                   /* answers of a loop that wait, at a time */
#define HTTP_HOLD_MAX_NS (INT64_C(25) * 1000000000)

struct http_conn;
struct http_held;

/* What the door looks up in the policy in force, once for each policy. */
struct http_policy {
    uint64_t generation; /* 0: none yet */
    size_t field_count;
    const char *names[WR_POLICY_FIELDS_MAX];
    size_t lens[WR_POLICY_FIELDS_MAX];
    enum weir_field_kind kinds[WR_POLICY_FIELDS_MAX];
    struct weir_answer_options answers;
    bool has_plans;
};

/* On one loop, behind one listening socket. All but the connections is scratch memory for the
 * request at hand. */
struct http_door {
    struct wr_loop *loop;
    struct wr_acceptor *acceptor;
    bool draining;
    unsigned held; /* answers that wait */
    struct http_policy policy;
    struct wr_http_request request;
    char *scratch;                 /* WR_HTTP_BODY_MAX: bodies in chunks, joined fields */
    char *decoded;                 /* as much: strings of JSON */
    struct weir_request *requests; /* WR_CHECK_BATCH_MAX */
    struct weir_slice *fields;     /* of them, of the policy in force */
    size_t fields_room;
    struct weir_answer answers[HTTP_BATCH];
    char *body; /* of the response */
    size_t body_room;
    struct http_json *json;          /* of /json */
    char values[WEIR_HEADERS_BYTES]; /* of the response's fields */
    char status[4];                  /* of X-Weir-Status */
};

/* What a handler answers. Slices and names live until the next request. */
struct http_response {
    int status;
    const char *type; /* of the body; NULL: there is none */
    struct weir_slice body;
    unsigned field_count;
    struct weir_header field[HTTP_FIELDS_MAX];
    int64_t delay_ns; /* hold it so long */
};

/* The request of |peer|, answered. */
typedef void http_handler(struct http_door *door, struct weir_slice peer,
                          const struct wr_http_request *request, struct http_response *response);

http_handler http_check, http_reserve, http_settle, http_release, http_auth, http_json;

/* A field of the response; dropped where there is no room (there is, for all that are made). */
void http_add_field(struct http_response *response, const char *name, struct weir_slice value);

/* A problem of input. |member|: empty, or what it speaks of. */
void http_problem(struct http_door *door, struct http_response *response, int status,
                  const char *detail, struct weir_slice member);

/* At least |room| bytes at door->body; false: out of memory, and |response| says so. */
bool http_body_room(struct http_door *door, struct http_response *response, size_t room);

/* Fields of the policy in force, from |request|; in door->fields. False: out of memory. */
bool http_fields_room(struct http_door *door, size_t requests);

/* door_http_json.c: its part of a door, to be freed by free(). NULL: out of memory. */
struct http_json *http_json_new(void);

/* ---- answers that wait --------------------------------------------------------------------- */

/* Keep the |len| bytes at |bytes| until |delay_ns| have passed, then call http_release_held for
 * |conn|. NULL: out of memory. */
struct http_held *http_hold(struct http_door *door, struct http_conn *conn, int64_t delay_ns,
                            const char *bytes, size_t len, bool keep_alive);
/* The caller has gone: the answer is dropped when its time comes. */
void http_held_abandon(struct http_held *held);
/* door_http.c: the time has come. */
void http_deliver_held(struct http_conn *conn, const char *bytes, size_t len, bool keep_alive);

#endif
