/* arena.c - `weir arena FILE`: what is in an arena, and is it sound? */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "algo/limit.h"
#include "base/units.h"
#include "cli/commands.h"
#include "engine/engine.h"
#include "store/check.h"

#define ERRORS_BYTES 65536U /* WR_DIAG_MAX messages with their places */
#define CELL_BYTES 64U
#define LIMIT_BYTES 128U

static const char usage[] =
    "usage: weir arena [--repair] [--json] FILE\n"
    "\n"
    "Look through the arena FILE: how full it is, what was lost to a full table, and whether all "
    "of\n"
    "it makes sense. Keys cannot be shown: only keyed hashes of them are stored. While it is in "
    "use,\n"
    "figures are of different moments.\n"
    "\n"
    "  -r, --repair  first empty what is damaged and give back what kills have leaked; only while\n"
    "                no process has it open\n"
    "  -j, --json    one JSON object\n"
    "  -h, --help    this text\n"
    "\n"
    "Exit status: 0 sound, 1 damaged or not an arena, 2 wrong usage.\n";

/* Names for people and for JSON, by enum wr_arena_counter. */
static const struct {
    const char *text, *key;
} counters[WR_ARENA_COUNTERS] = {
    [WR_EVICTED_LIVE] = {"evicted while in use", "evicted_live"},
    [WR_UNSTORED] = {"decided without being stored", "unstored"},
    [WR_QUARANTINED] = {"found damaged and emptied", "quarantined"},
    [WR_STOLEN_LOCKS] = {"locks taken from the dead", "stolen_locks"},
    [WR_BUSY_LISTS] = {"lists held by stopped processes", "busy_lists"},
    [WR_NO_NODES] = {"refused for want of nodes", "no_nodes"},
};

/* ---- describing a class -------------------------------------------------------------------- */

static void write_duration(char out[CELL_BYTES], int64_t ns)
{
    static const struct {
        int64_t ns;
        const char *unit;
    } units[] = {{WR_NS_PER_DAY, "d"}, {WR_NS_PER_HOUR, "h"}, {WR_NS_PER_MINUTE, "m"},
                 {WR_NS_PER_S, "s"},   {WR_NS_PER_MS, "ms"},  {1, "ns"}};
    size_t i = 0;

    while (ns % units[i].ns != 0)
        i++;
    (void)snprintf(out, CELL_BYTES, "%" PRId64 "%s", ns / units[i].ns, units[i].unit);
}

static void write_limit(char out[LIMIT_BYTES], const struct wr_limit *limit)
{
    char window[CELL_BYTES];
    int at;

    write_duration(window, limit->window_ns);
    if (limit->algo == WR_CONCURRENCY) {
        (void)snprintf(out, LIMIT_BYTES, "%" PRId64 " at once, hold %s", limit->units, window);
        return;
    }
    at = snprintf(out, LIMIT_BYTES, "%" PRId64 "/%s", limit->units, window);
    if (limit->algo == WR_TOKEN_BUCKET && limit->burst != limit->units)
        (void)snprintf(out + at, LIMIT_BYTES - (size_t)at, " burst %" PRId64, limit->burst);
    if (limit->algo == WR_LEAKY_BUCKET)
        (void)snprintf(out + at, LIMIT_BYTES - (size_t)at, " queue %" PRId64, limit->burst);
}

static bool class_at(const struct wr_arena_report *report, unsigned number, struct wr_limit *limit)
{
    memcpy(limit, report->reports[number].spec.params, sizeof *limit);
    return wr_limit_valid(limit);
}

/* ---- text ---------------------------------------------------------------------------------- */

static void print_classes(const struct wr_arena_report *report)
{
    char text[LIMIT_BYTES];
    struct wr_limit limit;

    (void)printf("  %-15s %-32s %10s %10s %10s %10s\n", "algorithm", "limit", "keys", "in use",
                 "exhausted", "stamps");
    for (unsigned i = 1; i < WR_CLASSES_MAX; i++) {
        const struct wr_class_report *r = &report->reports[i];
        if (!class_at(report, i, &limit))
            continue;
        write_limit(text, &limit);
        (void)printf("  %-15s %-32s %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64 "\n",
                     wr_algo_name((enum wr_algo)limit.algo), text, r->slots, r->live, r->full,
                     r->stamps);
    }
}

static void print_text(const char *file, const struct wr_arena_report *r, bool sound)
{
    time_t made = (time_t)(r->created_ns / WR_NS_PER_S);
    struct tm tm;
    char date[CELL_BYTES] = "?";

    if (gmtime_r(&made, &tm) != NULL)
        (void)strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S UTC", &tm);
    (void)printf("%s: %s\n", file, sound ? "sound" : "damaged");
    (void)printf("  %" PRIu64 " bytes, made %s, open in %u processes\n", r->size_bytes, date,
                 r->processes);
    (void)printf("  slots: %" PRIu64 ", of which %" PRIu64 " have a key and %" PRIu64
                 " are in use; meant for %" PRIu64 " to %" PRIu64 " in use%s\n",
                 r->slots, r->used, r->live, r->slots / 4, r->slots / 2,
                 r->live > r->slots / 2 ? ": TOO SMALL" : "");
    if (r->nodes > 0)
        (void)printf("  lists: %" PRIu64 " of %" PRIu64 ", nodes: %" PRIu64 " of %" PRIu64 "\n",
                     r->heads_used, r->heads, r->nodes_used, r->nodes);
    (void)printf("  bans: %" PRIu64 " of %" PRIu64 "\n", r->bans, r->bans_room);
    if (r->nodes_lost + r->heads_lost > 0)
        (void)printf("  lost to killed processes: %" PRIu64 " lists, %" PRIu64
                     " nodes; the next process to open it alone takes them back\n",
                     r->heads_lost, r->nodes_lost);
    if (r->duplicates > 0)
        (void)printf("  keys stored twice: %" PRIu64 "\n", r->duplicates);
    for (unsigned i = 0; i < WR_ARENA_COUNTERS; i++)
        (void)printf("  %s: %" PRIu64 "\n", counters[i].text, r->counters[i]);
    print_classes(r);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void print_json(const struct wr_arena_report *r, bool sound)
{
    struct wr_limit limit;
    const char *comma = "";

    (void)printf("{\"sound\":%s,\"size_bytes\":%" PRIu64 ",\"created_ns\":%" PRId64
                 ",\"now_ns\":%" PRId64 ",\"processes\":%u",
                 sound ? "true" : "false", r->size_bytes, r->created_ns, r->now_ns, r->processes);
    (void)printf(",\"slots\":%" PRIu64 ",\"used\":%" PRIu64 ",\"live\":%" PRIu64
                 ",\"duplicates\":%" PRIu64 ",\"damaged\":%" PRIu64,
                 r->slots, r->used, r->live, r->duplicates, r->damaged);
    (void)printf(",\"lists\":%" PRIu64 ",\"lists_used\":%" PRIu64 ",\"lists_lost\":%" PRIu64
                 ",\"nodes\":%" PRIu64 ",\"nodes_used\":%" PRIu64 ",\"nodes_lost\":%" PRIu64,
                 r->heads, r->heads_used, r->heads_lost, r->nodes, r->nodes_used, r->nodes_lost);
    (void)printf(",\"bans\":%" PRIu64 ",\"bans_room\":%" PRIu64, r->bans, r->bans_room);
    for (unsigned i = 0; i < WR_ARENA_COUNTERS; i++)
        (void)printf(",\"%s\":%" PRIu64, counters[i].key, r->counters[i]);
    (void)printf(",\"classes\":[");
    for (unsigned i = 1; i < WR_CLASSES_MAX; i++) {
        const struct wr_class_report *c = &r->reports[i];
        if (!class_at(r, i, &limit))
            continue;
        (void)printf("%s{\"class\":%u,\"algorithm\":\"%s\",\"units\":%" PRId64
                     ",\"window_ns\":%" PRId64 ",\"burst\":%" PRId64 ",\"keys\":%" PRIu64
                     ",\"live\":%" PRIu64 ",\"full\":%" PRIu64 ",\"stamps\":%" PRIu64 "}",
                     comma, i, wr_algo_name((enum wr_algo)limit.algo), limit.units, limit.window_ns,
                     limit.burst, c->slots, c->live, c->full, c->stamps);
        comma = ",";
    }
    (void)printf("]}\n");
}

/* ---- the command --------------------------------------------------------------------------- */

struct room {
    struct wr_diag diag;
    struct wr_arena_report report;
    char errors[ERRORS_BYTES];
};

static void complain(struct room *room)
{
    (void)wr_diag_format(&room->diag, room->errors, sizeof room->errors);
    (void)fflush(stdout);
    (void)fputs(room->errors, stderr);
}

static int show(const char *file, bool repair, bool json, struct room *room)
{
    struct wr_arena_options options = {
        .path = file, .must_exist = true, .read_only = !repair, .judge = wr_engine_judge};
    struct wr_arena *arena;
    int rc;

    wr_diag_init(&room->diag, file);
    if (wr_arena_open(&arena, &options, &room->diag) != 0) {
        complain(room);
        return 1;
    }
    if (repair && wr_arena_repair(arena, wr_arena_now(arena)) != 0) {
        (void)fprintf(stderr, "%s: error: other processes have it open; stop them to repair it\n",
                      file);
        wr_arena_close(arena);
        return 1;
    }
    rc = wr_arena_check(arena, wr_arena_now(arena), &room->report, &room->diag);
    wr_arena_close(arena);
    if (rc == WEIR_ENOMEM) {
        (void)fprintf(stderr, "%s: error: %s\n", file, weir_strerror(rc));
        return 1;
    }
    if (json)
        print_json(&room->report, rc == 0);
    else
        print_text(file, &room->report, rc == 0);
    complain(room);
    return rc == 0 ? 0 : 1;
}

int wr_cmd_arena(int argc, char **argv)
{
    static const struct option options[] = {{"repair", no_argument, NULL, 'r'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    bool repair = false, json = false;
    struct room *room;
    int option, status;

    while ((option = getopt_long(argc, argv, "rjh", options, NULL)) != -1) {
        if (option == 'h') {
            (void)fputs(usage, stdout);
            return 0;
        }
        if (option != 'r' && option != 'j') {
            (void)fputs(usage, stderr);
            return 2;
        }
        repair |= option == 'r';
        json |= option == 'j';
    }
    if (optind + 1 != argc) {
        (void)fputs(usage, stderr);
        return 2;
    }
    room = (struct room *)malloc(sizeof *room);
    if (room == NULL) {
        (void)fprintf(stderr, "weir arena: %s\n", weir_strerror(WEIR_ENOMEM));
        return 1;
    }
    status = show(argv[optind], repair, json, room);
    free(room);
    return fflush(stdout) == 0 ? status : 1;
}
