/* replay_report.c - a replay for people: what would have been refused, whose, when, and what to do.
 *
 * All text that comes from a log is escaped before it reaches a terminal. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli/replay.h"
#include "wire/logtime.h"

#define NAME_WIDTH 32

void wr_print_escaped(FILE *out, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c < 0x20 || c > 0x7e || c == '\\')
            (void)fprintf(out, "\\x%02x", c);
        else
            (void)fputc(c, out);
    }
}

/* "1 client", "2 clients". */
static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

/* "12.3 %", in integers; "<0.1 %" for what would be 0.0 but is not. */
static const char *percent(uint64_t part, uint64_t whole, char out[16])
{
    uint64_t tenths = whole > 0 ? (uint64_t)((unsigned __int128)part * 1000 / whole) : 0;

    if (part > 0 && tenths == 0)
        (void)snprintf(out, 16, "<0.1 %%");
    else
        (void)snprintf(out, 16, "%d.%d %%", (int)(tenths / 10), (int)(tenths % 10));
    return out;
}

static void print_time(FILE *out, int64_t ns)
{
    char text[WR_LOGTIME_TEXT_MAX];

    (void)wr_logtime_format(ns, text);
    (void)fputs(text, out);
}

static void print_span(FILE *out, int64_t ns)
{
    int64_t s = ns / WR_NS_PER_S;

    if (s >= INT64_C(2) * 86400)
        (void)fprintf(out, "%d days", (int)(s / 86400));
    else if (s >= INT64_C(2) * 3600)
        (void)fprintf(out, "%d hours", (int)(s / 3600));
    else if (s >= 120)
        (void)fprintf(out, "%d minutes", (int)(s / 60));
    else
        (void)fprintf(out, "%d second%s", (int)s, plural((uint64_t)s));
}

/* ---- parts -------------------------------------------------------------------------------- */

static void print_bad_lines(const struct wr_replay_options *options, const struct wr_tally *tally,
                            FILE *out)
{
    if (tally->bad_lines == 0)
        return;
    (void)fprintf(out, "bad lines: %" PRIu64 " of %" PRIu64 "%s\n", tally->bad_lines, tally->lines,
                  tally->bad_lines > tally->bad_kept ? ", the first of them:" : "");
    for (size_t i = 0; i < tally->bad_kept; i++) {
        const struct wr_bad_line *bad = &tally->bad[i];
        const char *file = options->logs[bad->source];
        (void)fputs("  ", out);
        wr_print_escaped(out, file, strlen(file));
        (void)fprintf(out, ":%" PRIu64 ":%zu: %s: ", bad->line, bad->column, bad->reason);
        wr_print_escaped(out, bad->excerpt, bad->len);
        (void)fputs(bad->len == WR_TALLY_EXCERPT ? "...\n" : "\n", out);
    }
}

static void print_totals(const struct wr_tally *tally, FILE *out)
{
    size_t clients = wr_tally_clients(tally);
    char share[16];

    (void)fprintf(out, "%" PRIu64 " request%s of %zu client%s", tally->requests,
                  plural(tally->requests), clients, plural(clients));
    if (tally->requests > 0) {
        (void)fputs(", ", out);
        print_time(out, tally->first_ns);
        (void)fputs(" to ", out);
        print_time(out, tally->last_ns);
        (void)fputs(" (", out);
        print_span(out, tally->last_ns - tally->first_ns);
        (void)fputs(")", out);
    }
    (void)fputs("\n", out);
    (void)fprintf(out, "  refused  %" PRIu64 " (%s)\n", tally->outcomes[WEIR_DENY],
                  percent(tally->outcomes[WEIR_DENY], tally->requests, share));
    if (tally->outcomes[WEIR_DELAY] > 0)
        (void)fprintf(out, "  delayed  %" PRIu64 " (%s)\n", tally->outcomes[WEIR_DELAY],
                      percent(tally->outcomes[WEIR_DELAY], tally->requests, share));
    if (tally->outcomes[WEIR_SHADOW] > 0)
        (void)fprintf(out, "  passed, but a shadow limit would refuse  %" PRIu64 " (%s)\n",
                      tally->outcomes[WEIR_SHADOW],
                      percent(tally->outcomes[WEIR_SHADOW], tally->requests, share));
    for (size_t i = 0; i < tally->upgrade_count; i++)
        (void)fprintf(out, "  upgraded from %s to %s  %" PRIu64 " customer%s\n",
                      weir_plan_name(tally->w, tally->upgrades[i].from),
                      weir_plan_name(tally->w, tally->upgrades[i].to), tally->upgrades[i].count,
                      plural(tally->upgrades[i].count));
    if (tally->uncounted > 0)
        (void)fprintf(out, "  not counted  %" PRIu64 " (OPTIONS)\n", tally->uncounted);
    if (tally->late > 0)
        (void)fprintf(out,
                      "  out of order by more than the window  %" PRIu64
                      " (decided at the time reached; see --reorder-window)\n",
                      tally->late);
    if (tally->logged_429 > 0)
        (void)fprintf(out, "  logged with status 429  %" PRIu64 "\n", tally->logged_429);
}

static void print_worst(const struct wr_replay_options *options, const struct wr_tally *tally,
                        unsigned index, FILE *out)
{
    const struct wr_touch **top = calloc(options->top + 1, sizeof(struct wr_touch *));
    size_t n = top != NULL ? wr_tally_top(tally, index, options->top, top) : 0;

    for (size_t i = 0; i < n; i++) {
        (void)fputs(i == 0 ? "    worst   " : "            ", out);
        wr_print_escaped(out, top[i]->client->name, top[i]->client->len);
        (void)fprintf(out, ": %" PRIu64 " of %" PRIu64 " refused", top[i]->denied,
                      top[i]->requests);
        if (top[i]->delayed > 0)
            (void)fprintf(out, ", %" PRIu64 " delayed", top[i]->delayed);
        (void)fputs("\n", out);
    }
    free(top);
}

static void print_limit(const struct wr_replay_options *options, const struct wr_tally *tally,
                        unsigned index, FILE *out)
{
    const struct wr_limit_tally *limit = &tally->limits[index];
    char share[16], client_share[16];

    (void)fprintf(out, "\n%s%s\n", limit->name, limit->shadow ? " (shadow: refuses nothing)" : "");
    if (limit->requests == 0) {
        (void)fputs("    no request met it\n", out);
        return;
    }
    (void)fprintf(out, "    met     %" PRIu64 " request%s of %" PRIu64 " client%s\n",
                  limit->requests, plural(limit->requests), limit->clients, plural(limit->clients));
    if (limit->delayed > 0)
        (void)fprintf(out, "    delayed %" PRIu64 " (%s)\n", limit->delayed,
                      percent(limit->delayed, limit->requests, share));
    if (limit->overage_requests > 0)
        (void)fprintf(out, "    overage %" PRId64 " unit%s of %" PRIu64 " request%s\n",
                      limit->overage_units, plural((uint64_t)limit->overage_units),
                      limit->overage_requests, plural(limit->overage_requests));
    if (limit->grace_requests > 0)
        (void)fprintf(out, "    grace   %" PRId64 " unit%s of %" PRIu64 " request%s\n",
                      limit->grace_units, plural((uint64_t)limit->grace_units),
                      limit->grace_requests, plural(limit->grace_requests));
    if (limit->denied > 0) {
        (void)fprintf(out, "    refused %" PRIu64 " (%s), of %" PRIu64 " client%s (%s of them)\n",
                      limit->denied, percent(limit->denied, limit->requests, share),
                      limit->clients_denied, plural(limit->clients_denied),
                      percent(limit->clients_denied, limit->clients, client_share));
        (void)fputs("    when    first ", out);
        print_time(out, limit->first_denied_ns);
        (void)fputs(", last ", out);
        print_time(out, limit->last_denied_ns);
        (void)fprintf(out, ", most in one minute %" PRIu64 " at ", limit->busiest_denied);
        print_time(out, limit->busiest_minute * WR_NS_PER_MINUTE);
        (void)fputs("\n", out);
    } else {
        (void)fprintf(
            out, "    refused none; the nearest anyone came was %" PRId64 " of %" PRId64 " left\n",
            limit->least_remaining, limit->capacity);
    }
    print_worst(options, tally, index, out);
}

/* ---- advice ------------------------------------------------------------------------------- */

/* The limit that refuses the largest share of its clients, among the enforced or the shadow ones;
 * NULL: none refuses. */
static const struct wr_limit_tally *strictest(const struct wr_tally *tally, bool shadow)
{
    const struct wr_limit_tally *best = NULL;

    for (size_t i = 0; i < tally->limit_count; i++) {
        const struct wr_limit_tally *limit = &tally->limits[i];
        if (limit->denied > 0 && limit->shadow == shadow &&
            (best == NULL ||
             limit->clients_denied * best->clients > best->clients_denied * limit->clients))
            best = limit;
    }
    return best;
}

/* More clients than this share are rarely all abusive: the limit is what is wrong. */
#define MANY_PERCENT 5U

static void advise_limit(const struct wr_limit_tally *limit, FILE *out)
{
    char share[16];

    if (limit->clients == 1)
        (void)fprintf(out,
                      "\"%s\" saw a single client: if that is a proxy of yours, name it in "
                      "identity.ip.trusted.\n",
                      limit->name);
    else if (limit->clients_denied * 100 > limit->clients * MANY_PERCENT)
        (void)fprintf(out,
                      "\"%s\" would touch %s of its clients, more than abuse explains: raise it, "
                      "or run it with mode: shadow first.\n",
                      limit->name, percent(limit->clients_denied, limit->clients, share));
    else
        (void)fprintf(out,
                      "\"%s\" would touch %" PRIu64 " client%s (%s): look at the worst ones above; "
                      "if they are not welcome, %s.\n",
                      limit->name, limit->clients_denied, plural(limit->clients_denied),
                      percent(limit->clients_denied, limit->clients, share),
                      limit->shadow ? "enforce it" : "it is safe to enforce");
}

static void print_advice(const struct wr_tally *tally, FILE *out)
{
    const struct wr_limit_tally *enforced = strictest(tally, false);
    const struct wr_limit_tally *shadow = strictest(tally, true);

    (void)fputs("\nadvice: ", out);
    if (tally->requests == 0)
        (void)fputs("no line could be read as a request; is it an access log? See --format.\n",
                    out);
    else if (tally->bad_lines > tally->requests)
        (void)fputs("most lines could not be read, so this says little; see the reasons above.\n",
                    out);
    else if (enforced != NULL)
        advise_limit(enforced, out);
    else if (shadow != NULL)
        advise_limit(shadow, out);
    else if (tally->outcomes[WEIR_DENY] > 0)
        (void)fputs("all refusals come from the list of bans.\n", out);
    else
        (void)fputs("nothing would have been refused: the policy is safe to enforce, or too wide "
                    "to protect anything.\n",
                    out);
}

void wr_report_text(const struct wr_replay_options *options, const struct wr_tally *tally,
                    FILE *out)
{
    print_totals(tally, out);
    for (unsigned i = 0; i < tally->limit_count; i++)
        print_limit(options, tally, i, out);
    if (tally->bad_lines > 0)
        (void)fputs("\n", out);
    print_bad_lines(options, tally, out);
    print_advice(tally, out);
}

void wr_report_brief(const struct wr_replay_options *options, const struct wr_tally *tally,
                     FILE *out)
{
    print_totals(tally, out);
    print_bad_lines(options, tally, out);
}
