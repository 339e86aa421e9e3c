/* door_http.h - what the files of the HTTP door share: door_http.c (the door and its paths),
 * door_http_check.c (/v1/check and its kin), door_http_auth.c (/v1/auth), door_http_json.c (/json).
 */
#ifndef WR_DOORS_DOOR_HTTP_H
#define WR_DOORS_DOOR_HTTP_H

#include "doors/http_job.h"
#include "doors/http_policy.h"
#include "doors/http_service.h"
#include "wire/checkjson.h"

#define HTTP_BATCH 32U /* decided at once */

struct http_batches;

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
    struct http_batches *batches;    /* long arrays of /v1/check */
    struct http_jobs jobs;           /* of /v1/usage */
    char values[WEIR_HEADERS_BYTES]; /* of the response's fields */
    char status[4];                  /* of X-Weir-Status */
};

static inline struct http_door *http_door_of(struct http_service *service)
{
    return (struct http_door *)service;
}

http_handler http_check, http_reserve, http_settle, http_release, http_auth, http_json, http_usage;

/* Room for the fields of |requests| requests at door->fields. False: out of memory. */
bool http_fields_room(struct http_door *door, size_t requests);

/* Refuse |request| if a field that tells one caller comes twice. False: none does. */
bool http_refuse_repeated(struct http_door *door, const struct wr_http_request *request,
                          struct http_response *response);

/* What the policy asks for of |request|'s own fields, into door->fields, which has room for them.
 */
void http_collect_fields(struct http_door *door, const struct wr_http_request *request);

/* ---- door_http_check.c: questions of one body ------------------------------------------------ */

/* Where they are read to, by which policy they are decided, where the answers are put together. */
struct http_questions {
    struct wr_loop *loop;
    struct wr_handle *handle;
    const struct http_policy *policy;
    struct wr_asks *asks;         /* where the policy shares limits: all are decided there */
    struct weir_request *request; /* WR_CHECK_BATCH_MAX */
    struct weir_slice *fields;    /* of them */
    char *decoded;                /* WR_HTTP_BODY_MAX */
    struct weir_answer *answers;  /* HTTP_BATCH */
    size_t count, told;
    bool decided; /* all at once, into |answers| */
    int64_t now_ns;
};

/* Read |body|. False: reader->error. */
bool http_questions_read(struct http_questions *questions, enum wr_check_form form,
                         struct weir_slice body, struct wr_check_reader *reader);

/* Decide up to HTTP_BATCH more and write what is told of them to |out|, of HTTP_TOLD_BYTES, a comma
 * between. Returns the length. */
#define HTTP_TOLD_BYTES ((size_t)HTTP_BATCH * (WR_CHECK_ANSWER_MAX + 1U))
size_t http_questions_tell(struct http_questions *questions, char *out);

/* ---- http_batch.c: long arrays --------------------------------------------------------------- */

struct http_batches *http_batches_new(struct http_door *door);
/* Before the door is freed, after its connections are closed. */
void http_batches_free(struct http_batches *batches);

/* Answer |body|, an array of |count| questions that was read without an error, a piece a turn of
 * the loop: |response| waits, until it is there. */
void http_batch(struct http_door *door, struct weir_slice body, size_t count,
                struct http_response *response);
/* The caller has gone. */
void http_batches_abandon(struct http_batches *batches, const struct wr_asks *asks);
/* Is the answer of the request at hand there? */
bool http_batch_done(struct http_door *door, struct http_response *response);

/* door_http_json.c: its part of a door, to be freed by free(). NULL: out of memory. */
struct http_json *http_json_new(void);

#endif
