/* replay.h - what the files of `weir replay` share. */
#ifndef WR_CLI_REPLAY_H
#define WR_CLI_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/tally.h"
#include "weir/weir.h"
#include "wire/accesslog.h"

#define WR_REPLAY_LOGS_MAX 256 /* files at a time; each takes about a megabyte */
#define WR_REPLAY_TOP_MAX 1000

struct wr_replay_options {
    const char *policy;
    enum wr_log_format format;
    bool json;
    bool verdicts;
    size_t top;
    int64_t window_ns;
    const char *const *logs;
    size_t log_count;
};

/* ---- replay_decide.c: requests in order -> verdicts --------------------------------------- */

struct wr_decider;

/* Borrows all. |verdicts_to| NULL: verdicts are only counted. |files| (may be NULL) are the names
 * to be said in them. */
struct wr_decider *wr_decider_new(struct weir *w, struct wr_order *order, struct wr_tally *tally,
                                  FILE *verdicts_to, const char *const *files);
void wr_decider_free(struct wr_decider *decider);

/* Decide |item|, now or with those that follow at the same time; takes it over. False when out of
 * memory. */
bool wr_decider_add(struct wr_decider *decider, struct wr_item *item);
bool wr_decider_flush(struct wr_decider *decider);

/* ---- replay_report.c, replay_json.c: what came of it -------------------------------------- */

/* |errors|: files that could not be read to their end. */
void wr_report_text(const struct wr_replay_options *options, const struct wr_tally *tally,
                    FILE *out);
void wr_report_brief(const struct wr_replay_options *options, const struct wr_tally *tally,
                     FILE *out);
void wr_report_json(const struct wr_replay_options *options, const struct wr_tally *tally,
                    FILE *out);

struct wr_verdict {
    const struct wr_item *item;
    const char *file;                 /* NULL: not to be said */
    const struct weir_answer *answer; /* NULL: not counted */
    const struct wr_verdict_extra *extra;
};

/* {"line":..,"time":..,"verdict":..,...} of one request. */
void wr_verdict_json(const struct weir *w, const struct wr_verdict *verdict, FILE *out);

/* |bytes| with control characters, backslash and what is not ASCII as \xNN. */
void wr_print_escaped(FILE *out, const char *bytes, size_t len);

#endif
