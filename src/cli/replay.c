/* replay.c - `weir replay`: access logs through a policy, under the logs' own clock.
 *
 *   files -> lines -> requests (wire/accesslog) -> in order (order.c) -> verdicts (replay_decide.c)
 *         -> counts (tally.c) -> a report (replay_report.c, replay_json.c)
 *
 * Several files are merged by the time of their next request, so that the logs of several servers,
 * or rotated ones in any order, are one stream. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/replay.h"
#include "engine/engine.h"
#include "lib/handle.h"
#include "policy/customers.h"

#define ERRORS_BYTES 65536U
#define WINDOW_DEFAULT_NS (5 * WR_NS_PER_MINUTE)
#define TOP_DEFAULT 10
#define PROGRESS_LINES 8192U /* between two looks at the clock */

static const char usage[] =
    "usage: weir replay -c POLICY [OPTION]... [LOG]...\n"
    "\n"
    "Run access logs (plain or gzip; none or - : standard input) through POLICY, under the logs'\n"
    "own clock, and report what it would refuse, whose and when.\n"
    "\n"
    "  -c, --config POLICY       the policy file\n"
    "  -f, --format FORMAT       auto (default), common, combined or json\n"
    "      --json                the report as one JSON object\n"
    "      --verdicts            one JSON line for each request instead of the report\n"
    "      --top N               clients listed for each limit (default 10)\n"
    "      --reorder-window T    sort requests that are out of order by up to T (default 5m)\n"
    "  -h, --help                this text\n"
    "\n"
    "Exit status: 0 done, 1 the policy or a log could not be read, 2 wrong usage. Lines that are "
    "no\n"
    "requests are counted and the first few are shown; they are no failure.\n";

/* ---- one log ------------------------------------------------------------------------------ */

struct source {
    struct wr_input *input; /* NULL: at its end */
    struct wr_log_parser *parser;
    uint64_t line;
    struct wr_log_record next; /* the request to come */
};

struct replay {
    const struct wr_replay_options *options;
    struct weir *w;
    const char **field_names;
    struct source *sources;
    struct wr_order *order;
    struct wr_decider *decider;
    struct wr_tally tally;
    bool failed; /* a log could not be read to its end */
    bool progress;
    int64_t started_ns, shown_ns;
    uint64_t size_bytes; /* of all logs; 0: not known */
    uint64_t done_bytes; /* of those that are at their end */
};

static const char *log_name(const struct replay *r, size_t index)
{
    const char *name = r->options->logs[index];
    return strcmp(name, "-") == 0 ? "(standard input)" : name;
}

static void end_source(struct replay *r, size_t index)
{
    struct source *source = &r->sources[index];
    const char *error = wr_input_error(source->input);

    if (error != NULL) {
        (void)fprintf(stderr, "weir replay: %s: %s, after line %" PRIu64 "\n", log_name(r, index),
                      error, source->line);
        r->failed = true;
    }
    r->done_bytes += wr_input_offset(source->input);
    wr_input_close(source->input);
    source->input = NULL;
}

/* Read on to the next request of the source; at its end, source->input becomes NULL. */
static void advance(struct replay *r, size_t index)
{
    struct source *source = &r->sources[index];
    const char *line;
    size_t len, column;

    while (wr_input_line(source->input, &line, &len)) {
        const char *reason = wr_log_parse(source->parser, line, len, &source->next, &column);
        source->line++;
        r->tally.lines++;
        if (reason == NULL)
            return;
        struct wr_bad_line bad = {
            .source = (uint32_t)index, .line = source->line, .column = column};
        (void)snprintf(bad.reason, sizeof bad.reason, "%s", reason);
        wr_tally_bad(&r->tally, &bad, line, len);
    }
    end_source(r, index);
}

/* The source with the earliest request to come, or log_count; ties go to the first named. */
static size_t earliest(const struct replay *r)
{
    size_t best = r->options->log_count;

    for (size_t i = 0; i < r->options->log_count; i++)
        if (r->sources[i].input != NULL &&
            (best == r->options->log_count ||
             r->sources[i].next.time_ns < r->sources[best].next.time_ns))
            best = i;
    return best;
}

/* ---- progress ----------------------------------------------------------------------------- */

static void show_progress(struct replay *r)
{
    int64_t now_ns = wr_clock_mono().ns;
    uint64_t done = r->done_bytes, seconds = (uint64_t)((now_ns - r->started_ns) / WR_NS_PER_S);

    if (seconds == 0 || now_ns - r->shown_ns < WR_NS_PER_S / 4)
        return;
    r->shown_ns = now_ns;
    for (size_t i = 0; i < r->options->log_count; i++)
        if (r->sources[i].input != NULL)
            done += wr_input_offset(r->sources[i].input);
    (void)fprintf(stderr, "\r%" PRIu64 " lines, %" PRIu64 " a second", r->tally.lines,
                  r->tally.lines / seconds);
    if (r->size_bytes > 0)
        (void)fprintf(stderr, ", %d %%  ", (int)(done * 100 / r->size_bytes));
    (void)fflush(stderr);
}

static void clear_progress(const struct replay *r)
{
    if (r->progress && r->shown_ns > 0)
        (void)fputs("\r                                                        \r", stderr);
}

/* ---- the run ------------------------------------------------------------------------------ */

static bool decide_due(struct replay *r, bool flush)
{
    struct wr_item *item;

    while ((item = wr_order_pop(r->order, flush)) != NULL)
        if (!wr_decider_add(r->decider, item))
            return false;
    return true;
}

static bool run(struct replay *r)
{
    size_t index;

    for (size_t i = 0; i < r->options->log_count; i++)
        advance(r, i);
    for (uint64_t n = 1; (index = earliest(r)) < r->options->log_count; n++) {
        struct source *source = &r->sources[index];
        if (!wr_order_push(r->order, &source->next, source->line, (uint32_t)index) ||
            !decide_due(r, false))
            return false;
        advance(r, index);
        if (r->progress && n % PROGRESS_LINES == 0)
            show_progress(r);
    }
    return decide_due(r, true) && wr_decider_flush(r->decider);
}

static bool open_sources(struct replay *r)
{
    const struct wr_replay_options *options = r->options;
    size_t fields = weir_field_count(r->w);
    bool sized = true;

    r->field_names = calloc(fields + 1, sizeof *r->field_names);
    r->sources = calloc(options->log_count, sizeof *r->sources);
    if (r->field_names == NULL || r->sources == NULL)
        return false;
    for (size_t i = 0; i < fields; i++)
        r->field_names[i] = weir_field_kind(r->w, i) == WEIR_FIELD_HEADER ? weir_field_name(r->w, i)
                                                                          : "\n"; /* matches none */
    for (size_t i = 0; i < options->log_count; i++) {
        struct source *source = &r->sources[i];
        source->parser = wr_log_parser_new(options->format, r->field_names, fields);
        source->input = wr_input_open(options->logs[i]);
        if (source->parser == NULL || source->input == NULL) {
            (void)fprintf(stderr, "weir replay: %s: %s\n", log_name(r, i), strerror(errno));
            return false;
        }
        sized = sized && wr_input_size(source->input) > 0;
        r->size_bytes += wr_input_size(source->input);
    }
    if (!sized)
        r->size_bytes = 0;
    return true;
}

static void say_of_customers(const struct wr_policy *policy)
{
    const struct wr_policy_customers *customers = wr_policy_settings(policy)->customers;

    if (customers == NULL)
        return;
    (void)fprintf(stderr, "weir replay: there is no database of customers here: each value of ");
    for (unsigned i = 0; i < customers->by_count; i++)
        (void)fprintf(stderr, "%s%s", i > 0 ? ", " : "", customers->by[i]);
    (void)fprintf(stderr, " is taken for a customer of its own, with the plan that the policy or "
                          "the log gives it until it is upgraded, for which nobody is asked\n");
}

static bool open_policy(struct replay *r)
{
    /* Anonymous: a replay must not see, nor change, what a running gateway counts. */
    const struct weir_options weir_options = {.arena_path = "", .flags = WEIR_OPEN_LOCAL};
    char *errors = malloc(ERRORS_BYTES);
    int result;

    if (errors == NULL)
        return false;
    result = weir_open(&r->w, r->options->policy, &weir_options, errors, ERRORS_BYTES);
    (void)fputs(errors, stderr);
    if (result != 0 && errors[0] == '\0')
        (void)fprintf(stderr, "weir replay: %s: %s\n", r->options->policy, weir_strerror(result));
    free(errors);
    if (result == 0)
        say_of_customers(r->w->policy);
    return result == 0;
}

static bool open_all(struct replay *r)
{
    const struct wr_replay_options *options = r->options;

    if (!open_policy(r) || !open_sources(r))
        return false;
    r->order = wr_order_new(options->window_ns, weir_field_count(r->w));
    if (r->order == NULL || !wr_tally_init(&r->tally, r->w))
        return false;
    r->decider = wr_decider_new(r->w, r->order, &r->tally, options->verdicts ? stdout : NULL,
                                options->log_count > 1 ? options->logs : NULL);
    return r->decider != NULL;
}

static void close_all(struct replay *r)
{
    wr_decider_free(r->decider);
    wr_order_free(r->order);
    if (r->tally.limits != NULL)
        wr_tally_fini(&r->tally);
    for (size_t i = 0; r->sources != NULL && i < r->options->log_count; i++) {
        wr_input_close(r->sources[i].input);
        wr_log_parser_free(r->sources[i].parser);
    }
    free(r->sources);
    free(r->field_names);
    weir_close(r->w);
}

static void report(const struct replay *r)
{
    if (r->options->json)
        wr_report_json(r->options, &r->tally, stdout);
    else if (r->options->verdicts)
        wr_report_brief(r->options, &r->tally, stderr);
    else
        wr_report_text(r->options, &r->tally, stdout);
}

static int replay(const struct wr_replay_options *options)
{
    struct replay *r = calloc(1, sizeof *r);
    int status = 1;

    if (r == NULL) {
        (void)fputs("weir replay: out of memory\n", stderr);
        return 1;
    }
    r->options = options;
    r->progress = isatty(STDERR_FILENO) != 0;
    r->started_ns = wr_clock_mono().ns;
    if (open_all(r)) {
        if (!run(r)) {
            (void)fputs("weir replay: out of memory\n", stderr);
            r->failed = true;
        }
        clear_progress(r);
        if (wr_engine_supposed_full(r->w->engine))
            (void)fprintf(stderr,
                          "weir replay: there are more customers than there is room for "
                          "(customers.room, at most %u here): those that came last were "
                          "unknown\n",
                          WR_SUPPOSED_MAX);
        report(r);
        status = r->failed ? 1 : 0;
    }
    close_all(r);
    free(r);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        (void)fprintf(stderr, "weir replay: standard output: %s\n", strerror(errno));
        return 1;
    }
    return status;
}

/* ---- arguments ---------------------------------------------------------------------------- */

static int misuse(const char *what, const char *value)
{
    (void)fprintf(stderr, "weir replay: %s%s%s\n\n%s", what, value != NULL ? ": " : "",
                  value != NULL ? value : "", usage);
    return 2;
}

static bool parse_count(const char *text, size_t max, size_t *out)
{
    char *end;
    unsigned long value;

    errno = 0;
    value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || value > max)
        return false;
    *out = value;
    return true;
}

/* "0", "250ms", "30s", "15m", "1h". */
static bool parse_duration(const char *text, int64_t *out)
{
    static const struct {
        const char *name;
        int64_t ns;
    } units[] = {{"ms", WR_NS_PER_MS},
                 {"s", WR_NS_PER_S},
                 {"m", WR_NS_PER_MINUTE},
                 {"h", WR_NS_PER_HOUR},
                 {"d", WR_NS_PER_DAY}};
    char number[24];
    size_t digits = strspn(text, "0123456789"), value;

    if (digits == 0 || digits >= sizeof number)
        return false;
    memcpy(number, text, digits);
    number[digits] = '\0';
    if (!parse_count(number, 1000000, &value))
        return false;
    if (value == 0 && text[digits] == '\0') {
        *out = 0;
        return true;
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(text + digits, units[i].name) == 0) {
            *out = (int64_t)value * units[i].ns;
            return true;
        }
    }
    return false;
}

enum { OPT_JSON = 256, OPT_VERDICTS, OPT_TOP, OPT_WINDOW };

static const struct option long_options[] = {
    {"config", required_argument, NULL, 'c'},
    {"format", required_argument, NULL, 'f'},
    {"json", no_argument, NULL, OPT_JSON},
    {"verdicts", no_argument, NULL, OPT_VERDICTS},
    {"top", required_argument, NULL, OPT_TOP},
    {"reorder-window", required_argument, NULL, OPT_WINDOW},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* 0, or the exit status. |*help| is set where it was asked for. */
static int take_option(int option, struct wr_replay_options *options, bool *help)
{
    switch (option) {
    case 'c':
        options->policy = optarg;
        return 0;
    case 'f':
        return wr_log_format_named(optarg, &options->format)
                   ? 0
                   : misuse("--format is auto, common, combined or json, not", optarg);
    case OPT_JSON:
        options->json = true;
        return 0;
    case OPT_VERDICTS:
        options->verdicts = true;
        return 0;
    case OPT_TOP:
        return parse_count(optarg, WR_REPLAY_TOP_MAX, &options->top)
                   ? 0
                   : misuse("--top is a number from 0 to 1000, not", optarg);
    case OPT_WINDOW:
        return parse_duration(optarg, &options->window_ns)
                   ? 0
                   : misuse("--reorder-window is a duration as 30s or 5m, not", optarg);
    case 'h':
        *help = true;
        return 0;
    default:
        (void)fprintf(stderr, "\n%s", usage);
        return 2;
    }
}

int wr_cmd_replay(int argc, char **argv)
{
    static const char *const standard_input[] = {"-"};
    struct wr_replay_options options = {.format = WR_LOG_UNKNOWN,
                                        .top = TOP_DEFAULT,
                                        .window_ns = WINDOW_DEFAULT_NS,
                                        .logs = standard_input,
                                        .log_count = 1};
    struct wr_options reading = {.shorts = "c:f:h", .longs = long_options};
    bool help = false;
    int option, status;

    while ((option = wr_options_next(&reading, argc, argv)) != -1) {
        status = take_option(option, &options, &help);
        if (status != 0)
            return status;
    }
    if (help) {
        (void)fputs(usage, stdout);
        return 0;
    }
    if (options.policy == NULL)
        return misuse("a policy is needed: -c POLICY", NULL);
    if (options.json && options.verdicts)
        return misuse("--json is the report, and --verdicts stands instead of it: one of them",
                      NULL);
    if (optind < argc) {
        options.logs = (const char *const *)(argv + optind);
        options.log_count = (size_t)(argc - optind);
    }
    if (options.log_count > WR_REPLAY_LOGS_MAX)
        return misuse("at most 256 logs at a time", NULL);
    return replay(&options);
}
