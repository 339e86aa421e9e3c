/* agent.h - what processes of a host ask its weir serve, byte by byte: a request to be decided, its
 * answer, and the end of a request. Frames in, frames out; no I/O, no memory of its own.
 *
 * The two ends may be of different builds and of different policies: integers are little-endian of
 * fixed size, every frame carries its length and version, and what stands for a name (the order of
 * fields, the number of a limit) is covered by a fingerprint. docs/formats/agent.md is the table.
 */
#ifndef WR_WIRE_AGENT_H
#define WR_WIRE_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/weir.h"

#define WR_AGENT_VERSION 1
#define WR_AGENT_FIELDS_MAX 64U
#define WR_AGENT_FRAME_MAX WEIR_ASK_BYTES /* bytes of any frame, its length among them */
#define WR_AGENT_HEAD_BYTES (52U + 4U * WR_AGENT_FIELDS_MAX) /* of a request, before its texts */
#define WR_AGENT_TEXTS_MAX (3U + WR_AGENT_FIELDS_MAX)
#define WR_AGENT_ANSWER_MAX (72U + 56U * WEIR_LIMITS_MAX)
#define WR_AGENT_HOLD_BYTES 16U
#define WR_AGENT_RELEASE_BYTES 40U

enum wr_agent_kind { WR_AGENT_ASK = 1, WR_AGENT_ANSWER = 2, WR_AGENT_RELEASE = 3 };

enum wr_agent_status {
    WR_AGENT_DECIDED = 0,
    WR_AGENT_OTHER_POLICY = 1, /* not decided: the fingerprints differ */
    WR_AGENT_BUSY = 2,         /* not decided: too many are asking */
};

/* A frame, as its first bytes tell. */
struct wr_agent_frame {
    enum wr_agent_kind kind;
    size_t len; /* bytes, all of it */
    uint64_t id;
    uint64_t fingerprint;
};

/* What an answer says beyond struct weir_answer. */
struct wr_agent_more {
    int64_t next_ns[WEIR_LIMITS_MAX], reset_ns[WEIR_LIMITS_MAX]; /* weir_verdict_times */
    uint8_t hold[WR_AGENT_HOLD_BYTES]; /* names the places it holds; zeros: none */
};

/* Look for a whole frame. Returns its length; 0: there is more to come; negative (WEIR_EFORMAT):
 * what follows cannot be understood. */
int wr_agent_find(const uint8_t *bytes, size_t len, struct wr_agent_frame *out);

/* ---- requests ------------------------------------------------------------------------------ */

/* A request in pieces: head, then its texts, so that whoever can send pieces copies nothing. */
struct wr_agent_ask {
    size_t len; /* of the frame */
    unsigned head_len, text_count;
    uint8_t head[WR_AGENT_HEAD_BYTES];
    struct weir_slice text[WR_AGENT_TEXTS_MAX]; /* borrowed from the request */
};

/* Returns 0, or WEIR_EFULL: it is longer than a frame may be. */
int wr_agent_put_ask(struct wr_agent_ask *out, uint64_t id, uint64_t fingerprint,
                     const struct weir_request *request);

/* Read the whole frame |bytes|. |fields| has room for WR_AGENT_FIELDS_MAX; all of |out| points into
 * it and into |bytes|. False: it is malformed. */
bool wr_agent_get_ask(const uint8_t *bytes, size_t len, struct weir_slice *fields,
                      struct weir_request *out);

/* ---- answers ------------------------------------------------------------------------------- */

/* The length of the answer written to |out|, which has room for WR_AGENT_ANSWER_MAX. |answer| and
 * |more| are of WR_AGENT_DECIDED alone. */
size_t wr_agent_put_answer(uint8_t *out, uint64_t id, uint64_t fingerprint,
                           enum wr_agent_status status, const struct weir_answer *answer,
                           const struct wr_agent_more *more);

/* Read the whole frame |bytes|. |*answer| and |*more| are written in full: what is a process's own,
 * as zeros. False: it is malformed, or out of any range. */
bool wr_agent_get_answer(const uint8_t *bytes, size_t len, enum wr_agent_status *status,
                         struct weir_answer *answer, struct wr_agent_more *more);

/* ---- releases: the request whose answer said |hold| has ended ------------------------------ */

void wr_agent_put_release(uint8_t out[WR_AGENT_RELEASE_BYTES], uint64_t fingerprint,
                          const uint8_t hold[WR_AGENT_HOLD_BYTES]);
bool wr_agent_get_release(const uint8_t *bytes, size_t len, uint8_t hold[WR_AGENT_HOLD_BYTES]);

#endif
