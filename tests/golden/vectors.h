/* vectors.h - read golden vectors (README.md) and ask whoever decides for each; for golden.c and
 * for tests/remote. */
#ifndef TESTS_GOLDEN_VECTORS_H
#define TESTS_GOLDEN_VECTORS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "algo/limit.h"
#include "base/units.h"
#include "base/zone.h"

#define BASE_NS (INT64_C(1700006400) * WR_NS_PER_S)
#define WORDS_MAX 12

struct vectors {
    const char *file;
    unsigned line;
    unsigned count;
    unsigned failures;
    struct wr_limit limit;
    char zone[WR_ZONE_NAME_MAX + 1]; /* of a quota */
    /* Whoever decides: */
    void (*start)(struct vectors *vectors); /* a new limit and a new key */
    /* False: it cannot be asked that. */
    bool (*decide)(struct vectors *vectors, int64_t now_ns, int64_t cost, struct wr_take *out);
    void *context;
};

static void complain(struct vectors *run, const char *what)
{
    (void)fprintf(stderr, "%s:%u: %s\n", run->file, run->line, what);
    run->failures++;
}

static int64_t number(const char *text, char **end)
{
    return strtoll(text, end, 10);
}

/* "second" or "15m"; 0 when it is neither. */
static int64_t window_of(const char *text)
{
    static const struct {
        const char *name;
        int64_t ns;
    } units[] = {{"second", WR_NS_PER_S}, {"minute", WR_NS_PER_MINUTE}, {"hour", WR_NS_PER_HOUR},
                 {"day", WR_NS_PER_DAY},  {"ms", WR_NS_PER_MS},         {"s", WR_NS_PER_S},
                 {"m", WR_NS_PER_MINUTE}, {"h", WR_NS_PER_HOUR}};
    char *unit;
    int64_t count = number(text, &unit);

    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(unit, units[i].name) == 0)
            return units[i].ns * (unit == text ? 1 : count);
    }
    return 0;
}

/* limit ALGORITHM UNITS/WINDOW [burst N | queue N] [count_denied], or limit concurrency N hold D */
static void start_limit(struct vectors *run, char **words, int count)
{
    enum wr_algo algo = WR_TOKEN_BUCKET;
    int64_t units, window_ns, burst = -1;
    bool count_denied = strcmp(words[count - 1], "count_denied") == 0;
    const char *problem;
    char *rest;

    while (algo < WR_ALGO_MAX && strcmp(wr_algo_name(algo), words[1]) != 0)
        algo++;
    units = number(words[2], &rest);
    window_ns = window_of(algo == WR_CONCURRENCY ? words[4] : rest + (*rest == '/'));
    if (algo != WR_CONCURRENCY && count >= 5)
        burst = number(words[4], &rest);
    problem = wr_limit_make(&run->limit, algo, units, window_ns, burst, count_denied);
    if (problem != NULL)
        complain(run, problem);
    run->start(run);
}

/* quota UNITS/day|week|month ZONE [anchor N] */
static void start_quota(struct vectors *run, char **words, int count)
{
    static const char *const pers[] = {"", "/day", "/week", "/month"};
    struct wr_civil civil = {.per = WR_PER_DAY, .anchor = 1};
    const char *problem;
    const struct wr_zone *zone;
    char *rest, why[100];
    int64_t units = number(words[1], &rest);

    while (civil.per < WR_PER_MONTH && strcmp(rest, pers[civil.per]) != 0)
        civil.per++;
    if (count >= 5)
        civil.anchor = (uint8_t)number(words[4], NULL);
    zone = wr_zone_find(words[2], why, sizeof why);
    if (zone == NULL) {
        complain(run, why);
        return;
    }
    civil.zone = wr_zone_id(zone);
    (void)snprintf(run->zone, sizeof run->zone, "%s", words[2]);
    problem = wr_limit_make_civil(&run->limit, &civil, units, false);
    if (problem != NULL)
        complain(run, problem);
    run->start(run);
}

/* Ns after BASE_NS, or 2025-03-29T23:59:59.999Z; since the epoch. */
static int64_t moment(const char *text)
{
    struct tm date = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &date);
    int64_t ns = 0;

    if (rest == NULL)
        return BASE_NS + number(text, NULL);
    if (*rest == '.')
        ns = number(rest + 1, NULL) * WR_NS_PER_MS;
    return timegm(&date) * WR_NS_PER_S + ns;
}

static int64_t ms_up(int64_t ns)
{
    return (ns + WR_NS_PER_MS - 1) / WR_NS_PER_MS;
}

/* T COST -> VERDICT REMAINING RETRY_MS DELAY_MS */
static void check_vector(struct vectors *run, char **words)
{
    int64_t now = moment(words[0]);
    int64_t cost = number(words[1], NULL);
    char want[100], got[100];
    struct wr_take out;

    if (!run->decide(run, now, cost, &out))
        return;
    (void)snprintf(want, sizeof want, "%s %s %s %s", words[3], words[4], words[5], words[6]);
    (void)snprintf(got, sizeof got, "%s %lld %lld %lld",
                   !out.allowed        ? "deny"
                   : out.delay_ns == 0 ? "allow"
                                       : "delay",
                   (long long)out.remaining,
                   out.never ? -1LL : (long long)ms_up(out.retry_after_ns),
                   (long long)ms_up(out.delay_ns));
    if (strcmp(want, got) != 0) {
        complain(run, "differs");
        (void)fprintf(stderr, "  want %s\n  got  %s\n", want, got);
    }
    run->count++;
}

static void read_line(struct vectors *run, char *line)
{
    char *words[WORDS_MAX];
    char *rest = NULL;
    int count = 0;

    line[strcspn(line, "#\n")] = '\0';
    for (char *w = strtok_r(line, " \t", &rest); w != NULL && count < WORDS_MAX;
         w = strtok_r(NULL, " \t", &rest))
        words[count++] = w;
    if (count == 0)
        return;
    if (strcmp(words[0], "limit") == 0 && count >= 3)
        start_limit(run, words, count);
    else if (strcmp(words[0], "quota") == 0 && count >= 3)
        start_quota(run, words, count);
    else if (count == 7 && strcmp(words[2], "->") == 0 && run->limit.algo != 0)
        check_vector(run, words);
    else
        complain(run, "neither a limit nor a vector");
}

/* All of the files named in |argv|. Returns main's status. */
static int read_files(struct vectors *run, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char line[300];
        FILE *file = fopen(argv[i], "r");

        if (file == NULL) {
            perror(argv[i]);
            return 1;
        }
        run->file = argv[i];
        run->line = 0;
        while (fgets(line, sizeof line, file) != NULL) {
            run->line++;
            read_line(run, line);
        }
        (void)fclose(file);
    }
    (void)printf("%u vectors, %u failures\n", run->count, run->failures);
    return run->failures != 0 || run->count == 0;
}

#endif
