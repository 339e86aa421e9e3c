/* checkjson.h - the JSON of the HTTP door: requests to be decided, and what was decided.
 *
 *   POST /v1/check    {"ip", "method", "path", "headers", "keys", "plan", "cost", "peek", "status"}
 *                     or an array of those
 *   POST /v1/reserve  the same without peek, and "ttl"
 *   POST /v1/settle   {"id", "cost", "status"}
 *   POST /v1/release  {"id"}
 *
 * Strict: a member that is unknown, given twice or of the wrong type is an error that names it,
 * as in "[2].headers.X-Api-Key". docs/http.md is the reference. */
#ifndef WR_WIRE_CHECKJSON_H
#define WR_WIRE_CHECKJSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/weir.h"

#define WR_CHECK_BATCH_MAX 1000 /* requests in one array */
#define WR_CHECK_MEMBER_MAX 160 /* bytes of the path to a member, cut there */

enum wr_check_form { WR_CHECK_FORM, WR_RESERVE_FORM, WR_SETTLE_FORM, WR_RELEASE_FORM };

struct wr_check_reader {
    /* To be set: what the policy asks for, and whether it knows a plan (its index, or < 0). */
    enum wr_check_form form;
    size_t field_count;
    const char *const *field_names;
    const enum weir_field_kind *field_kinds;
    int (*find_plan)(const void *context, struct weir_slice name);
    const void *context;
    /* The caller's memory: |scratch| as long as the body; |requests| for WR_CHECK_BATCH_MAX; and
     * |fields| for field_count times as many. */
    char *scratch;
    struct weir_request *requests;
    struct weir_slice *fields;

    /* What was read. Slices point into the body and |scratch|. */
    bool array;
    size_t count;
    struct weir_slice id;  /* settle and release */
    struct weir_slice ttl; /* of a reservation, in words ("30s"), where it is a string; else: */
    int64_t ttl_s;
    int64_t status; /* of the last one, 0..999; 0: not said */

    /* What is wrong: a static text, where, and at which byte of the body. */
    const char *error;
    size_t offset;
    size_t member_len;
    char member[WR_CHECK_MEMBER_MAX]; /* empty: the body as a whole */
};

/* Read |body|. Returns whether it is well-formed; if not, see error. Nothing was decided yet. */
bool wr_check_read(struct wr_check_reader *reader, struct weir_slice body);

/* The word for an enum weir_reason: "limit", "capacity", "banned" and so on; static. */
const char *wr_check_reason(unsigned reason);

/* What is told of one answer. */
struct wr_check_told {
    const struct weir_answer *answer;   /* NULL: not counted (OPTIONS) */
    int spoken;                         /* index in answer->verdicts of the one to speak of; -1 */
    const char *names[WEIR_LIMITS_MAX]; /* of the limits, as in answer->verdicts */
    int64_t reset_ns[WEIR_LIMITS_MAX];  /* until all of it is available */
    const char *plan;                   /* NULL: the policy has no plans */
    bool reservation;                   /* tell the id, or that there is none */
    const char *id;                     /* NULL: denied */
};

#define WR_CHECK_ANSWER_MAX 8192 /* enough for any answer */

/* Write one answer, of at most WR_CHECK_ANSWER_MAX bytes. Returns its length. */
size_t wr_check_write(const struct wr_check_told *told, char *out);

#endif
