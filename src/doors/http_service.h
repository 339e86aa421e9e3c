/* http_service.h - HTTP/1.1 on a listening socket of a loop: connections, routing, responses. Two
 * doors are made of it, door_http.c and door_admin.c, each with one of these as its first member.
 */
#ifndef WR_DOORS_HTTP_SERVICE_H
#define WR_DOORS_HTTP_SERVICE_H

#include "serve/asks.h"
#include "serve/conn.h"
#include "serve/serve.h"
#include "wire/http1.h"
#include "wire/http1_reply.h"

#define HTTP_FIELDS_MAX (WEIR_HEADERS_MAX + 8) /* of a response */
#define HTTP_HELD_MAX 10000U                   /* answers of a loop that wait, at a time */
#define HTTP_METHODS_BYTES 64U
#define HTTP_BODY_BYTES (8192U + WEIR_PROBLEM_BYTES)

struct http_conn;
struct http_held;
struct http_service;

/* What a handler answers. Slices and names live until the next request. */
struct http_response {
    int status;
    const char *type; /* of the body; NULL: there is none */
    struct weir_slice body;
    unsigned field_count;
    struct weir_header field[HTTP_FIELDS_MAX];
    int64_t delay_ns; /* hold it so long */
    bool waits;       /* there is none yet: the handler is called again when asks.resume is */
};

/* The request of |peer|, answered. |service| is the first member of the door. */
typedef void http_handler(struct http_service *service, struct weir_slice peer,
                          const struct wr_http_request *request, struct http_response *response);

/* On one loop, behind one listening socket. All but the connections is scratch memory for the
 * request at hand. */
struct http_service {
    /* set by the door */
    struct wr_loop *loop;
    enum wr_door_id id;
    http_handler *answer; /* all requests */
    /* A caller has gone, whether an answer is being made for it or not; NULL: not wanted. */
    void (*abandoned)(struct http_service *service, const struct wr_asks *asks);
    /* private to http_service.c and http_hold.c, but to look at */
    struct wr_acceptor *acceptor;
    bool draining;
    unsigned held;       /* answers that wait */
    int64_t hold_max_ns; /* longer none may: the connection's own deadlines would end it */
    struct wr_http_request request;
    struct wr_asks *asks; /* of the request at hand */
    char *scratch;        /* WR_HTTP_BODY_MAX: bodies in chunks, joined fields */
    char *body;           /* of the response; at least HTTP_BODY_BYTES */
    size_t body_room;
    int64_t date_s; /* of |date| */
    char date[WR_HTTP_DATE_BYTES];
    char allow[HTTP_METHODS_BYTES]; /* of a response with status 405 */
};

/* ---- its life: what a door's functions do --------------------------------------------------- */

/* Serve |fd|; what the door has to set is set, the rest is zero. Owns |fd|, and on errors closes
 * it. Returns 0, WEIR_EIO, WEIR_ENOMEM; then there is nothing to close. */
int http_service_open(struct http_service *service, int fd, const struct wr_listener *listener);
void http_service_drain(struct http_service *service);
unsigned http_service_connections(const struct http_service *service);
void http_service_close(struct http_service *service);

/* ---- routing -------------------------------------------------------------------------------- */

struct http_route {
    const char *method; /* GET answers HEAD as well */
    const char *path;   /* without a query */
    http_handler *handler;
    /* Its parameters, between blanks, with a * behind those that may be repeated and a ? behind
     * those that may be empty; "": none; NULL: the handler looks itself. */
    const char *takes;
};

/* Answer by the row of |routes| that has the request's path and method; 404 and 405 where none has.
 * |detail|: what to say at 404. */
struct http_routes {
    const struct http_route *route;
    size_t count;
    const char *detail;
};
void http_route(const struct http_routes *routes, struct http_service *service,
                struct weir_slice peer, struct http_response *response);

/* Is the query of the request at hand one of |takes|? Otherwise 400 says what is wrong. */
bool http_query_takes(struct http_service *service, const char *takes,
                      struct http_response *response);

/* The target up to its query, and the query without its question mark (empty: none). */
struct weir_slice http_path(const struct wr_http_request *request);
struct weir_slice http_query(const struct wr_http_request *request);

/* ---- responses ------------------------------------------------------------------------------ */

bool http_is(struct weir_slice slice, const char *text);

/* A field of the response; dropped where there is no room (there is, for all that are made). */
void http_add_field(struct http_response *response, const char *name, struct weir_slice value);

/* Is the body compressed or otherwise encoded, which nobody decodes? Answered by 415 then. */
bool http_refuses_encoded(struct http_service *service, const struct wr_http_request *request,
                          struct http_response *response);

/* A body that cannot be read: 400. Where no member is to blame, the byte of the body is said,
 * unless it is the first. */
void http_body_problem(struct http_service *service, struct http_response *response,
                       const char *detail, struct weir_slice member, size_t offset);

/* A problem of input. |member|: empty, or what it speaks of. */
void http_problem(struct http_service *service, struct http_response *response, int status,
                  const char *detail, struct weir_slice member);

/* At least |room| bytes at service->body; false: out of memory, and |response| says so. */
bool http_body_room(struct http_service *service, struct http_response *response, size_t room);

/* ---- answers that wait: http_hold.c ---------------------------------------------------- */

/* Keep the |len| bytes at |bytes| until |delay_ns| have passed, then call http_deliver_held for
 * |conn|. NULL: out of memory. */
struct http_held *http_hold(struct http_service *service, struct http_conn *conn, int64_t delay_ns,
                            const char *bytes, size_t len, bool keep_alive);
/* The caller has gone: the answer is dropped when its time comes. */
void http_held_abandon(struct http_held *held);
/* http_service.c: the time has come. */
void http_deliver_held(struct http_conn *conn, const char *bytes, size_t len, bool keep_alive);

#endif
