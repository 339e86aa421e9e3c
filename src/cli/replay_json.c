/* replay_json.c - a replay for machines: one line per request, or one object for all.
 *
 * The members named in docs/replay.md are a contract; others may be added. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli/replay.h"
#include "wire/json_write.h"
#include "wire/logtime.h"

#define STRING_BYTES_MAX 2048 /* of one string as JSON; nothing here has 300 bytes before */

static void print_string(FILE *out, const char *bytes, size_t len)
{
    char text[STRING_BYTES_MAX];
    size_t n = wr_json_write_string(text, sizeof text, (struct weir_slice){bytes, len});

    if (n <= sizeof text)
        (void)fwrite(text, 1, n, out);
    else
        (void)fputs("null", out);
}

/* Before it may stand a literal: ,"name": */
static void print_time(FILE *out, const char *before, int64_t ns)
{
    char text[WR_LOGTIME_TEXT_MAX];

    (void)wr_logtime_format(ns, text);
    (void)fprintf(out, "%s\"%s\"", before, text);
}

/* ---- verdicts ----------------------------------------------------------------------------- */

static int64_t ceil_ms(int64_t ns)
{
    return ns / WR_NS_PER_MS + (ns % WR_NS_PER_MS != 0);
}

static void print_decisive(const struct weir *w, const struct weir_answer *answer, FILE *out)
{
    const struct weir_verdict *verdict;

    if (answer == NULL || answer->decisive < 0) {
        (void)fputs(",\"limit\":null,\"remaining\":null", out);
        return;
    }
    verdict = &answer->verdicts[answer->decisive];
    (void)fprintf(out, ",\"limit\":\"%s\",\"remaining\":%" PRId64,
                  weir_limit_name(w, verdict->limit), verdict->remaining_units);
}

/* Members that are there only where they have something to say. */
static void print_extra(const struct weir *w, const struct wr_verdict_extra *extra, FILE *out)
{
    for (unsigned i = 0; i < extra->beyond_count; i++) {
        const struct wr_beyond *beyond = &extra->beyond[i];
        (void)fprintf(out, "%s{\"limit\":\"%s\",\"overage\":%" PRId64 ",\"grace\":%" PRId64 "}%s",
                      i == 0 ? ",\"beyond\":[" : ",", weir_limit_name(w, beyond->limit),
                      beyond->overage_units, beyond->grace_units,
                      i + 1 == extra->beyond_count ? "]" : "");
    }
    if (extra->upgraded)
        (void)fprintf(out, ",\"upgraded\":{\"from\":\"%s\",\"to\":\"%s\"}",
                      weir_plan_name(w, extra->from), weir_plan_name(w, extra->to));
}

void wr_verdict_json(const struct weir *w, const struct wr_verdict *verdict, FILE *out)
{
    static const char *const words[] = {[WEIR_ALLOW] = "allow",
                                        [WEIR_DELAY] = "delay",
                                        [WEIR_DENY] = "deny",
                                        [WEIR_SHADOW] = "shadow"};
    const struct weir_answer *answer = verdict->answer;
    bool denied = answer != NULL && answer->outcome == WEIR_DENY;

    (void)fprintf(out, "{\"line\":%" PRIu64, verdict->item->line);
    if (verdict->file != NULL) {
        (void)fputs(",\"file\":", out);
        print_string(out, verdict->file, strlen(verdict->file));
    }
    print_time(out, ",\"time\":", verdict->item->time_ns);
    (void)fprintf(out, ",\"verdict\":\"%s\"",
                  words[answer != NULL ? answer->outcome & 3 : WEIR_ALLOW]);
    print_decisive(w, answer, out);
    if (answer != NULL && answer->retry_after_ns > 0) /* of a shadow limit: what it would say */
        (void)fprintf(out, ",\"retry_after_ms\":%" PRId64, ceil_ms(answer->retry_after_ns));
    else
        (void)fputs(",\"retry_after_ms\":null", out);
    (void)fprintf(out, ",\"delay_ms\":%" PRId64,
                  answer != NULL && !denied ? ceil_ms(answer->delay_ns) : 0);
    print_extra(w, verdict->extra, out);
    (void)fputs("}\n", out);
}

/* ---- the object --------------------------------------------------------------------------- */

static void print_top(const struct wr_replay_options *options, const struct wr_tally *tally,
                      unsigned limit, FILE *out)
{
    const struct wr_touch **top = calloc(options->top + 1, sizeof(struct wr_touch *));
    size_t n = top != NULL ? wr_tally_top(tally, limit, options->top, top) : 0;

    (void)fputs(",\"top\":[", out);
    for (size_t i = 0; i < n; i++) {
        (void)fputs(i > 0 ? ",{\"client\":" : "{\"client\":", out);
        print_string(out, top[i]->client->name, top[i]->client->len);
        (void)fprintf(out,
                      ",\"requests\":%" PRIu64 ",\"denied\":%" PRIu64 ",\"delayed\":%" PRIu64 "}",
                      top[i]->requests, top[i]->denied, top[i]->delayed);
    }
    (void)fputs("]", out);
    free(top);
}

static void print_when(const struct wr_limit_tally *limit, FILE *out)
{
    if (limit->denied == 0) {
        (void)fputs(",\"first_denied\":null,\"last_denied\":null,\"busiest_minute\":null", out);
        return;
    }
    print_time(out, ",\"first_denied\":", limit->first_denied_ns);
    print_time(out, ",\"last_denied\":", limit->last_denied_ns);
    print_time(out, ",\"busiest_minute\":{\"start\":", limit->busiest_minute * WR_NS_PER_MINUTE);
    (void)fprintf(out, ",\"denied\":%" PRIu64 "}", limit->busiest_denied);
}

static void print_limit(const struct wr_replay_options *options, const struct wr_tally *tally,
                        unsigned index, FILE *out)
{
    const struct wr_limit_tally *limit = &tally->limits[index];

    (void)fprintf(out,
                  "{\"name\":\"%s\",\"shadow\":%s,\"requests\":%" PRIu64 ",\"denied\":%" PRIu64
                  ",\"delayed\":%" PRIu64 ",\"clients\":%" PRIu64 ",\"clients_denied\":%" PRIu64,
                  limit->name, limit->shadow ? "true" : "false", limit->requests, limit->denied,
                  limit->delayed, limit->clients, limit->clients_denied);
    print_when(limit, out);
    if (limit->counts_beyond)
        (void)fprintf(out,
                      ",\"overage\":{\"requests\":%" PRIu64 ",\"units\":%" PRId64
                      "},\"grace\":{\"requests\":%" PRIu64 ",\"units\":%" PRId64 "}",
                      limit->overage_requests, limit->overage_units, limit->grace_requests,
                      limit->grace_units);
    print_top(options, tally, index, out);
    (void)fputs("}", out);
}

static void print_bad(const struct wr_replay_options *options, const struct wr_tally *tally,
                      FILE *out)
{
    (void)fputs(",\"bad\":[", out);
    for (size_t i = 0; i < tally->bad_kept; i++) {
        const struct wr_bad_line *bad = &tally->bad[i];
        const char *file = options->logs[bad->source];
        (void)fputs(i > 0 ? ",{\"file\":" : "{\"file\":", out);
        print_string(out, file, strlen(file));
        (void)fprintf(out, ",\"line\":%" PRIu64 ",\"column\":%zu,\"reason\":", bad->line,
                      bad->column);
        print_string(out, bad->reason, strlen(bad->reason));
        (void)fputs("}", out);
    }
    (void)fputs("]", out);
}

void wr_report_json(const struct wr_replay_options *options, const struct wr_tally *tally,
                    FILE *out)
{
    (void)fprintf(out,
                  "{\"lines\":%" PRIu64 ",\"bad_lines\":%" PRIu64 ",\"requests\":%" PRIu64
                  ",\"clients\":%zu",
                  tally->lines, tally->bad_lines, tally->requests, wr_tally_clients(tally));
    if (tally->requests > 0) {
        print_time(out, ",\"first\":", tally->first_ns);
        print_time(out, ",\"last\":", tally->last_ns);
    } else {
        (void)fputs(",\"first\":null,\"last\":null", out);
    }
    (void)fprintf(out,
                  ",\"allowed\":%" PRIu64 ",\"delayed\":%" PRIu64 ",\"denied\":%" PRIu64
                  ",\"shadow\":%" PRIu64 ",\"uncounted\":%" PRIu64 ",\"late\":%" PRIu64
                  ",\"logged_429\":%" PRIu64,
                  tally->outcomes[WEIR_ALLOW], tally->outcomes[WEIR_DELAY],
                  tally->outcomes[WEIR_DENY], tally->outcomes[WEIR_SHADOW], tally->uncounted,
                  tally->late, tally->logged_429);
    (void)fputs(",\"upgrades\":[", out);
    for (size_t i = 0; i < tally->upgrade_count; i++)
        (void)fprintf(out, "%s{\"from\":\"%s\",\"to\":\"%s\",\"customers\":%" PRIu64 "}",
                      i > 0 ? "," : "", weir_plan_name(tally->w, tally->upgrades[i].from),
                      weir_plan_name(tally->w, tally->upgrades[i].to), tally->upgrades[i].count);
    (void)fputs("],\"limits\":[", out);
    for (unsigned i = 0; i < tally->limit_count; i++) {
        (void)fputs(i > 0 ? "," : "", out);
        print_limit(options, tally, i, out);
    }
    (void)fputs("]", out);
    print_bad(options, tally, out);
    (void)fputs("}\n", out);
}
