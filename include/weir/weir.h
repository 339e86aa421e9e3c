/* weir.h - decide whether a request may pass.
 *
 * One handle is one policy bound to one arena (a memory-mapped table that every process of the host
 * may share). Two levels:
 *
 *   weir_decide   a described request, through every limit of the policy that matches it
 *   weir_check    one named limit, one key: the data plane's core, a few tens of nanoseconds
 *
 * Time is passed in: int64 nanoseconds since the Unix epoch on the arena's clock, see weir_now; 0
 * up to the year 2200, anything else is WEIR_EINVAL. Quantities are integers. Nothing here prints,
 * exits, aborts or starts a thread. After weir_open no function of this header allocates. A handle
 * may be used by any number of threads at once. */
#ifndef WEIR_H
#define WEIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define WEIR_API __attribute__((visibility("default")))
#else
#define WEIR_API
#endif

/* ---- errors ------------------------------------------------------------------------------- */

/* Every error: name, value, text. Being refused by a limit is a verdict, not an error. */
#define WEIR_ERRORS(X)                                                  \
    X(WEIR_EINVAL, -1, "an argument is out of its range")               \
    X(WEIR_ENOMEM, -2, "out of memory")                                 \
    X(WEIR_EIO, -3, "a file could not be read or written")              \
    X(WEIR_EPOLICY, -4, "the policy has errors")                        \
    X(WEIR_EFORMAT, -5, "the arena file is not one this build can use") \
    X(WEIR_ECORRUPT, -6, "the arena file is damaged")                   \
    X(WEIR_ENOENT, -7, "no such name")                                  \
    X(WEIR_EFULL, -8, "a table of fixed size is full")                  \
    X(WEIR_EAGAIN, -9, "another process changed it first")              \
    X(WEIR_EBUSY, -10, "another process holds it")                      \
    X(WEIR_EEXPIRED, -11, "the reservation has expired or was settled before")

enum weir_error {
    WEIR_OK = 0,
#define WEIR_ERROR_ENUM(name, value, text) name = value,
    WEIR_ERRORS(WEIR_ERROR_ENUM)
#undef WEIR_ERROR_ENUM
};

/* The text of |error|, never NULL, in static memory. */
WEIR_API const char *weir_strerror(int error);

/* As |now| of weir_check and weir_check_batch: read the arena's clock, after the key's cache lines
 * have been asked for, so that both waits overlap. */
#define WEIR_NOW INT64_C(-1)

/* ---- bounds ------------------------------------------------------------------------------- */

#define WEIR_LIMITS_MAX 16                /* limits that one request may meet */
#define WEIR_COST_MAX INT64_C(1000000000) /* units that one request may cost */
#define WEIR_KEY_PARTS_MAX 4              /* parts of one partition key */

/* Bytes owned by somebody else; may hold NUL; ptr may be NULL when len is 0. */
struct weir_slice {
    const char *ptr;
    size_t len;
};

/* ---- verdicts ----------------------------------------------------------------------------- */

enum weir_outcome {
    WEIR_ALLOW = 0,  /* goes through now */
    WEIR_DELAY = 1,  /* goes through after delay_ns */
    WEIR_DENY = 2,   /* refused; nothing was consumed anywhere */
    WEIR_SHADOW = 3, /* goes through (after delay_ns, if any), but a limit in shadow mode would have
                        refused it: the one that decisive names */
    WEIR_ASK = 4,    /* not decided, nothing was consumed: a limit is shared with other hosts, and
                        their store must be asked; see weir_ask */
};

enum weir_reason {
    WEIR_REASON_NONE = 0,
    WEIR_REASON_LIMIT = 1,    /* over the limit: come back after retry_after_ns */
    WEIR_REASON_CAPACITY = 2, /* the cost is above what the limit can ever hold: never */
    WEIR_REASON_ZERO = 3,     /* the limit is 0: never */
    WEIR_REASON_BANNED = 4,   /* the caller is on the policy's list of bans: never; or banned by
                                 weir_ban: until that ends */
    WEIR_REASON_MISSING = 5,  /* a key the limit needs is missing, when_missing: deny */
    WEIR_REASON_BUSY = 6,     /* the key's log is held by a stopped process, or no node is left */
    WEIR_REASON_STORE = 7,    /* the store of a shared limit is gone, when_store_gone: closed */
    WEIR_REASON_PLAN = 8,     /* the plan excludes the route: never, but by another plan */
};

#define WEIR_NEVER INT64_C(-1) /* as retry_after_ns: no waiting helps */

/* What one limit says. All times in ns, rounded up, relative to the decision's now. */
struct weir_verdict {
    uint8_t outcome;         /* enum weir_outcome, never WEIR_SHADOW */
    uint8_t reason;          /* enum weir_reason */
    uint8_t shadow;          /* 1: this limit decides and counts but does not enforce */
    uint8_t plan;            /* index of the plan it was decided by */
    uint16_t limit;          /* index of the limit: weir_limit_name */
    uint16_t flags;          /* private */
    int64_t capacity_units;  /* the most that can be remaining */
    int64_t remaining_units; /* after this request, 0..capacity_units */
    int64_t retry_after_ns;  /* denied: > 0, or WEIR_NEVER; otherwise 0 */
    int64_t delay_ns;        /* outcome WEIR_DELAY: > 0; otherwise 0 */
    uint64_t priv[2];        /* private: what weir_verdict_times works from */
};

/* What was taken from one limit, so that it can be given back exactly. Opaque. */
struct weir_receipt {
    uint64_t word[6];
};

/* What the whole policy says of one request. The caller's memory, written in full up to count. */
struct weir_answer {
    uint8_t outcome;  /* enum weir_outcome */
    uint8_t reason;   /* enum weir_reason of the limit that decides */
    uint8_t plan;     /* index: weir_plan_name */
    uint8_t flags;    /* private */
    uint16_t count;   /* verdicts that follow, in the order of the policy file */
    int16_t decisive; /* index in verdicts of the limit to speak of; -1: no limit matched */
    int64_t cost_units;
    int64_t delay_ns;
    int64_t retry_after_ns;
    int64_t decided_ns; /* the now it was decided at */
    int64_t expires_ns; /* of a reservation; 0: not a reservation */
    int16_t upgrade_to; /* with WEIR_REASON_PLAN: the next plan up that has the route; else -1 */
    uint8_t customer_anchor; /* private, as is: */
    uint32_t customer;
    struct weir_verdict verdicts[WEIR_LIMITS_MAX];
    struct weir_receipt receipts[WEIR_LIMITS_MAX];
};

/* ---- open and close ----------------------------------------------------------------------- */

struct weir;

struct weir_options {
    const char *arena_path; /* instead of the policy's; "" : anonymous; NULL: as the policy says */
    uint64_t arena_bytes;   /* instead of the policy's; 0: as the policy says */
    const char *arena_default; /* path of the arena where the policy names none; NULL: anonymous */
    uint32_t flags;            /* WEIR_OPEN_* */
};

/* Shared limits are this arena's alone, as if there were no store; with an anonymous arena each
 * value that can lead to a customer is taken for a customer of its own, as if there were no
 * database; what they use is counted in files of $TMPDIR that have no name. */
#define WEIR_OPEN_LOCAL 1u

/* Read the policy in the file |policy_path| and open or create its arena.
 *
 * Owns:    |*out| is the caller's, to be closed with weir_close; NULL on error.
 * Errors:  one line each, "file:line:column: error: text", into |errors| (always terminated);
 * warnings too. |errors| may be NULL when |errors_size| is 0. Returns: 0, WEIR_EPOLICY, WEIR_EIO,
 * WEIR_EFORMAT, WEIR_ECORRUPT, WEIR_ENOMEM, WEIR_EFULL (the arena's table of classes). */
WEIR_API int weir_open(struct weir **out, const char *policy_path,
                       const struct weir_options *options, char *errors, size_t errors_size);

/* Tell the handle that it now lives in a forked child, before the first decision there. The child's
 * claim on the arena must be its own, so that its death is noticed.
 * Returns: 0, WEIR_EIO, WEIR_EFULL (too many processes). */
WEIR_API int weir_after_fork(struct weir *w);

/* Close and free. NULL is allowed. What was decided stays in the arena. */
WEIR_API void weir_close(struct weir *w);

/* Now on the arena's clock: ns since the Unix epoch when the arena was made, steady since: neither
 * reboots nor steps of the wall clock move it. One clock_gettime. */
WEIR_API int64_t weir_now(const struct weir *w);

/* ---- names -------------------------------------------------------------------------------- */

/* The index of the limit called |name|, or WEIR_ENOENT. */
WEIR_API int weir_limit_find(const struct weir *w, const char *name);
WEIR_API size_t weir_limit_count(const struct weir *w);
/* Borrowed for the life of |w|; NULL when out of range. */
WEIR_API const char *weir_limit_name(const struct weir *w, unsigned limit);
WEIR_API const char *weir_plan_name(const struct weir *w, unsigned plan);
/* The index of the plan called |name|, or WEIR_ENOENT. */
WEIR_API int weir_plan_find(const struct weir *w, struct weir_slice name);

/* What the policy wants to know of a request beyond method, path and peer: request header fields
 * and values given by the host program. A request carries one slice for each, in this order. */
enum weir_field_kind {
    WEIR_FIELD_HEADER = 0, /* the value of the header field; lines of a list joined by ", " */
    WEIR_FIELD_KEY = 1,    /* a value the host program gives for the identity of that name */
};
WEIR_API size_t weir_field_count(const struct weir *w);
WEIR_API const char *weir_field_name(const struct weir *w, size_t field);
WEIR_API enum weir_field_kind weir_field_kind(const struct weir *w, size_t field);
/* May the header field come in several lines? True for lists, as X-Forwarded-For. Others tell one
 * identity, address or plan: a request that repeats one means somebody else to each that reads it,
 * and should be refused (400). */
WEIR_API bool weir_field_is_list(const struct weir *w, size_t field);
/* Must the host program give it? True for a WEIR_FIELD_KEY whose identity has no header, and that
 * some limit counts by: left out, it is missing (when_missing) from every request. */
WEIR_API bool weir_field_only_given(const struct weir *w, size_t field);

/* ---- one limit, one key ------------------------------------------------------------------- */

/* Charge |cost| against the limit behind |key| and say whether the request may pass. For limits
 * whose rate differs by plan, the default plan's is used.
 *
 * Time:    |now| is passed in, or WEIR_NOW; a clock that stepped back counts as standing still.
 * Units:   cost in units, 0..WEIR_COST_MAX (0 only looks).
 * Owns:    |key| is borrowed for the call; |out| is the caller's and always fully written.
 * Threads: any number, any process on the same arena.
 * Bounds:  two cache lines for limits of one word; no allocation, no system call.
 * Returns: 0 (see out->outcome), WEIR_EINVAL. */
WEIR_API int weir_check(struct weir *w, unsigned limit, struct weir_slice key, int64_t cost,
                        int64_t now, struct weir_verdict *out);

struct weir_charge {
    struct weir_slice key;
    int64_t cost_units;
    unsigned limit;
};

/* weir_check for |n| independent charges, in order, with their cache misses overlapped. Equal keys
 * see each other's charges. Returns: as weir_check; on error nothing was charged. */
WEIR_API int weir_check_batch(struct weir *w, const struct weir_charge *charges, size_t n,
                              int64_t now, struct weir_verdict *out);

/* The two durations that response fields speak of, in ns from |now|, rounded up; 0 when nothing is
 * used:
 * |*next_ns| until one unit more than remaining_units is available, |*reset_ns| until all are.
 * Apart from the decision because they cost two divisions that most callers never look at. */
WEIR_API void weir_verdict_times(const struct weir *w, const struct weir_verdict *verdict,
                                 int64_t now, int64_t *next_ns, int64_t *reset_ns);

/* ---- the whole policy --------------------------------------------------------------------- */

struct weir_request {
    struct weir_slice method;        /* as on the wire */
    struct weir_slice path;          /* as on the wire; a query string is cut off */
    struct weir_slice peer;          /* the address that connected, as text, or a host name */
    const struct weir_slice *fields; /* weir_field_count of them; ptr NULL: absent */
    size_t field_count;
    int64_t cost_units; /* -1: by the policy's costs */
    int plan;           /* index of a plan the host program vouches for; -1: by the policy */
    bool peek;          /* say what would happen, take nothing */
};

/* Decide a request by every limit that matches it, all or none: if one enforced limit refuses,
 * nothing is consumed anywhere (but by limits that say count_denied).
 *
 * Owns:    |request| and all it points to are borrowed; |answer| is the caller's.
 * Bounds:  at most WEIR_LIMITS_MAX limits.
 * Returns: 0 (see answer->outcome), WEIR_EINVAL. */
WEIR_API int weir_decide(struct weir *w, const struct weir_request *request, int64_t now,
                         struct weir_answer *answer);

/* What weir_decide answered with WEIR_ASK, decided without the store, as each shared limit wants it
 * when the store is gone (when_store_gone: open, closed, or local with its part of the limit).
 * Returns: as weir_decide; answer->outcome is never WEIR_ASK. */
WEIR_API int weir_decide_alone(struct weir *w, const struct weir_request *request, int64_t now,
                               struct weir_answer *answer);

/* weir_decide for |n| requests, in order, with their cache misses overlapped. */
WEIR_API int weir_decide_batch(struct weir *w, const struct weir_request *requests, size_t n,
                               int64_t now, struct weir_answer *answers);

/* As weir_decide, for a cost that is known only afterwards: request->cost_units is an estimate, to
 * be corrected by weir_settle within |ttl_ns| (> 0). Left alone, the estimate stands. One of 0
 * takes nothing, and what it is settled at is not counted. */
WEIR_API int weir_reserve(struct weir *w, const struct weir_request *request, int64_t ttl_ns,
                          int64_t now, struct weir_answer *answer);

/* Replace the estimate of an allowed reservation by the true |cost|: what is too much is given
 * back, what is missing is taken even if that leaves less than nothing. Cost 0 undoes the request.
 * Returns: 0, WEIR_EINVAL, WEIR_EEXPIRED (too late, settled before, or nothing was reserved). */
WEIR_API int weir_settle(struct weir *w, struct weir_answer *answer, int64_t cost, int64_t now);

/* The request has ended: free the places it holds in concurrency limits. To be called once for
 * every answer that was not denied (harmless where there is none); a place not freed expires by
 * itself. */
WEIR_API void weir_release(struct weir *w, struct weir_answer *answer, int64_t now);

/* The request was answered with |status|: quotas that count only some answers (count: {status:
 * [2xx]}) give back what they took for one that they do not count, to the window it was taken in.
 * To be called once for every answer that weir_awaits_status; harmless for others.
 * Returns: 0, WEIR_EINVAL (no status of HTTP: 100..599). */
WEIR_API int weir_finish(struct weir *w, struct weir_answer *answer, int status, int64_t now);

/* Did any quota take something for |answer| that its status may give back? */
WEIR_API bool weir_awaits_status(const struct weir *w, const struct weir_answer *answer);

/* Does |answer| hold a place that weir_release would free? */
WEIR_API bool weir_holds(const struct weir *w, const struct weir_answer *answer);

/* Who the policy takes the caller to be: the client's address after walking back through trusted
 * proxies (RFC 5952 text; of IPv6 the network that callers are told apart by, 2001:db8:1:2::/64),
 * or the peer's host name as it stands. Writes at most |size| bytes, terminated; returns the length
 * it would have. */
WEIR_API size_t weir_client(const struct weir *w, const struct weir_request *request, char *out,
                            size_t size);

/* ---- limits shared with other hosts -------------------------------------------------------- */

/* What weir_decide answers with WEIR_ASK can be asked of the host's weir serve, which speaks with
 * the store, over its unix socket. The library does that itself for a program that may wait
 * (weir_ask); for one with an event loop it reads and writes the bytes and the program does the
 * rest: it connects to weir_ask_socket, sends what weir_ask_begin has written, several before the
 * first answer if it likes, hands what comes to weir_ask_next, and decides by weir_decide_alone
 * what is not answered within weir_ask_deadline. Answers come in any order.
 *
 * Caller and daemon must have the same fields, limits and plans in the same order, and for leases
 * and local limits to be counted together the same arena. After fork each process needs a
 * connection of its own. */

#define WEIR_ASK_BYTES 65536U   /* enough for any request that can be asked */
#define WEIR_ANSWER_BYTES 2048U /* enough for any answer */

/* Where weir serve answers: the path of a unix socket; NULL: nothing is shared. Borrowed. */
WEIR_API const char *weir_ask_socket(const struct weir *w);

/* How long to wait for an answer: a little longer than weir serve waits for the store. */
WEIR_API int64_t weir_ask_deadline(const struct weir *w);

/* Write |request|, under the number |id|, to |buffer| of |size| bytes, to be sent. Any number will
 * do that is not being asked already. Returns: the number of bytes, WEIR_EINVAL (as weir_decide),
 * WEIR_EFULL (it does not fit, or is longer than WEIR_ASK_BYTES). */
WEIR_API int weir_ask_begin(const struct weir *w, const struct weir_request *request, uint64_t id,
                            void *buffer, size_t size);

/* One answer. */
struct weir_asked {
    uint64_t id;
    int status; /* 0; or not decided: WEIR_EPOLICY (the daemon has another policy), WEIR_EBUSY */
    struct weir_answer answer; /* with status 0 */
};

/* Read the first answer in the |len| bytes that have come. Returns: how many bytes it took; 0: it
 * is not there whole yet; WEIR_EFORMAT: no answers, the connection is to be closed. |*out| is
 * written in full. An answer that comes too late is to be given to weir_ask_release. */
WEIR_API int weir_ask_next(const struct weir *w, const void *bytes, size_t len, int64_t now,
                           struct weir_asked *out);

/* The request of an answer from weir_ask_next has ended: write to |buffer| of |size| bytes, to be
 * sent, that the places it holds are free; there is no answer to that. Returns: the number of
 * bytes, 0 (it holds none, or has been written before), WEIR_EFULL (WEIR_ANSWER_BYTES always do).
 */
WEIR_API int weir_ask_release(const struct weir *w, struct weir_answer *answer, void *buffer,
                              size_t size);

/* weir_decide, and where the store must be asked the host's weir serve; if that does not answer
 * within |deadline_ns| (0: weir_ask_deadline), weir_decide_alone. weir_release releases what it has
 * answered.
 *
 * Time:    by the arena's clock; blocks for |deadline_ns| at most, and not at all unless asking.
 * Owns:    the handle keeps a few connections, each used by one thread at a time; closed by
 *          weir_close. A forked child opens its own. No signal is raised.
 * Threads: any number.
 * Returns: 0: decided by arena or store. 1: decided alone. WEIR_EINVAL. */
WEIR_API int weir_ask(struct weir *w, const struct weir_request *request, int64_t deadline_ns,
                      struct weir_answer *answer);

/* ---- bans --------------------------------------------------------------------------------- */

/* Besides the policy's list: bans made while the policy is in force. They lie in the arena, so all
 * processes that share it obey each from the next decision on, and they outlive processes and
 * policies. weir_decide, weir_decide_batch and weir_reserve refuse a banned caller as one on the
 * policy's list, before any limit is looked at: nothing is consumed, and no plan is exempt.
 * weir_check knows limits and keys but no callers, and asks for no bans.
 *
 * The value of an identity other than ip is kept as a keyed hash only: it cannot be listed. */

#define WEIR_BAN_FOREVER INT64_C(0)
#define WEIR_BAN_NAME_MAX 64    /* bytes of the name of an identity */
#define WEIR_BAN_REASON_MAX 120 /* bytes of a reason */

/* A ban to be made. */
struct weir_ban_order {
    struct weir_slice identity; /* "ip", or the name of one of the policy's identities */
    struct weir_slice value;    /* of ip: an address or a network without host bits */
    struct weir_slice reason;   /* for those who read the list: UTF-8 without control characters */
    int64_t until_ns;           /* on the arena's clock; WEIR_BAN_FOREVER */
};

/* A ban in force. Texts are terminated. */
struct weir_banned {
    uint64_t id;      /* names it for weir_unban_id; tells nothing of whom it bans */
    int64_t since_ns; /* when it was made, or last changed */
    int64_t until_ns; /* WEIR_BAN_FOREVER, or when it ends */
    char identity[WEIR_BAN_NAME_MAX + 1];
    char value[64]; /* of ip: the address or network; otherwise empty */
    char reason[WEIR_BAN_REASON_MAX + 1];
};

/* Ban a caller; one who is banned already gets the new end and reason. Waits for another process
 * that changes bans or opens the arena: moments, at most ten seconds.
 *
 * Owns:    |order| and what it points to are borrowed; |out|, which may be NULL, gets the ban as it
 *          is listed, zeros on error.
 * Threads: any number, any process on the same arena.
 * Returns: 0: every process obeys it. WEIR_EINVAL (no address, host bits, an empty value, a reason
 *          too long or with control characters, an end that is not after |now|), WEIR_ENOENT (the
 *          policy has no such identity), WEIR_EFULL (see weir_ban_room; nothing was changed),
 *          WEIR_EBUSY (a stopped process is in the way). */
WEIR_API int weir_ban(struct weir *w, const struct weir_ban_order *order, int64_t now,
                      struct weir_banned *out);

/* Lift the ban of exactly this caller: a network's ban is not lifted by an address in it. Any
 * identity may be named, of the policy or not. Returns: 0, WEIR_EINVAL (no address), WEIR_ENOENT
 * (not banned), WEIR_EBUSY. */
WEIR_API int weir_unban(struct weir *w, struct weir_slice identity, struct weir_slice value,
                        int64_t now);
WEIR_API int weir_unban_id(struct weir *w, uint64_t id, int64_t now);

/* Copy out up to |room| bans in force at |now|, in no particular order; |out| may be NULL when
 * |room| is 0. Returns how many there are, which may be more than |room|. */
WEIR_API size_t weir_bans(const struct weir *w, int64_t now, struct weir_banned *out, size_t room);

/* How many there can be: 4094 in an arena of 32 MiB or more, fewer in a smaller one. */
WEIR_API size_t weir_ban_room(const struct weir *w);

/* ---- answers over HTTP -------------------------------------------------------------------- */

/* Families of response fields, to be or-ed. Where two would use one field name, each name is sent
 * once, in the shape of the older draft. */
#define WEIR_HEADERS_X 0x01u       /* X-RateLimit-Limit/-Remaining/-Reset, reset as epoch seconds */
#define WEIR_HEADERS_X_DELTA 0x02u /* the same, reset as seconds from now */
#define WEIR_HEADERS_DRAFT_03 0x04u
#define WEIR_HEADERS_DRAFT_06 0x08u
#define WEIR_HEADERS_DRAFT_07 0x10u
#define WEIR_HEADERS_DRAFT_11 0x20u /* RateLimit-Policy, RateLimit */
#define WEIR_HEADERS_DEFAULT (WEIR_HEADERS_X | WEIR_HEADERS_DRAFT_11)

struct weir_header {
    const char *name; /* static */
    struct weir_slice value;
};
#define WEIR_HEADERS_MAX 12     /* header fields of one answer */
#define WEIR_HEADERS_BYTES 8192 /* enough for the values of any answer */

/* Render the response fields for |answer|: Retry-After and Cache-Control on refusals, the families
 * in |families|, and Access-Control-Expose-Headers where the policy wants it.
 *
 * Owns:    values point into |buffer|, the caller's, of |size| bytes (WEIR_HEADERS_BYTES always
 * do). Returns: the number of fields written to |out| (room for WEIR_HEADERS_MAX), or WEIR_EFULL.
 */
WEIR_API int weir_answer_headers(const struct weir *w, const struct weir_answer *answer,
                                 unsigned families, struct weir_header *out, char *buffer,
                                 size_t size);

#define WEIR_PROBLEM_BYTES 8192 /* enough for the body of any answer */

/* Render the RFC 9457 body of a refusal with |status| into |buffer| of |size| bytes.
 * Returns: its length, or WEIR_EFULL. */
WEIR_API int weir_answer_problem(const struct weir *w, const struct weir_answer *answer, int status,
                                 char *buffer, size_t size);

/* What a policy says of answers, as the defaults of a front door. */
struct weir_answer_options {
    int status;        /* of refusals */
    int ban_status;    /* of refusals with WEIR_REASON_BANNED */
    unsigned families; /* WEIR_HEADERS_* */
    bool skip_options; /* do not count OPTIONS requests */
};
WEIR_API void weir_answer_defaults(const struct weir *w, struct weir_answer_options *out);

/* The status of a refusal: ban_status of banned callers, 503 with WEIR_REASON_STORE, 403 with
 * WEIR_REASON_PLAN, else status. */
WEIR_API int weir_answer_status(const struct weir_answer_options *options,
                                const struct weir_answer *answer);

#ifdef __cplusplus
}
#endif
#endif
