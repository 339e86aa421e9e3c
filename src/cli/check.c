/* check.c - `weir check FILE...`: is each policy right, and what does it say? */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "policy/envoy.h"
#include "policy/policy.h"
#include "serve/host_check.h"

#define ERRORS_BYTES                                                            \
    65536U /* WR_DIAG_MAX messages of WR_DIAG_TEXT_MAX bytes, with their places \
            */
#define CELL_BYTES 256U

static const char usage[] =
    "usage: weir check [--quiet] FILE...\n"
    "\n"
    "Check each policy FILE (- for standard input), and the certificates, keys, tokens and\n"
    "passwords that it names for weir serve. Prints \"FILE: ok\" and a summary, or every\n"
    "error as file:line:column with what was found and what was expected. Warnings go to standard\n"
    "error and do not fail the check.\n"
    "\n"
    "  -q, --quiet   no summary\n"
    "  -h, --help    this text\n"
    "\n"
    "Exit status: 0 all ok, 1 a policy has errors, 2 wrong usage.\n";

/* ---- the summary ------------------------------------------------------------------------- */

enum column { NAME, ALGORITHM, RATE, KEYS, MODE, SHARED, COLUMNS };

struct row {
    char cell[COLUMNS][CELL_BYTES];
};

static const char *algorithm_of(const struct wr_policy *policy, const struct wr_policy_limit *limit)
{
    if (limit->quota != NULL)
        return "quota";
    for (size_t plan = 0; plan < wr_policy_plan_count(policy); plan++)
        if (!limit->unlimited[plan])
            return wr_algo_name((enum wr_algo)limit->by[plan].algo);
    return "-";
}

/* The row of limit |index| for |plan|; rows after a limit's first have its rate only. */
static void fill_row(const struct wr_policy *policy, size_t index, size_t plan, struct row *row)
{
    const struct wr_policy_limit *limit = wr_policy_limit(policy, index);
    char rate[CELL_BYTES - WR_NAME_MAX - 3];

    memset(row, 0, sizeof *row);
    wr_policy_describe_rate(policy, index, plan, rate, sizeof rate);
    if (limit->by_plan)
        (void)snprintf(row->cell[RATE], CELL_BYTES, "%s: %s", wr_policy_plan(policy, plan), rate);
    else
        (void)snprintf(row->cell[RATE], CELL_BYTES, "%s", rate);
    if (plan > 0)
        return;
    (void)snprintf(row->cell[NAME], CELL_BYTES, "%s", limit->name);
    (void)snprintf(row->cell[ALGORITHM], CELL_BYTES, "%s", algorithm_of(policy, limit));
    wr_policy_describe_keys(policy, index, row->cell[KEYS], CELL_BYTES);
    (void)snprintf(row->cell[MODE], CELL_BYTES, "%s", limit->shadow ? "shadow" : "enforce");
    wr_policy_describe_shared(policy, index, row->cell[SHARED], CELL_BYTES);
}

static void print_row(const struct row *row, const size_t widths[COLUMNS], FILE *out)
{
    size_t last = COLUMNS - 1;

    while (last > 0 && row->cell[last][0] == '\0')
        last--;
    for (size_t c = 0; c < last; c++)
        (void)fprintf(out, "  %-*s", (int)widths[c], row->cell[c]);
    (void)fprintf(out, "  %s\n", row->cell[last]);
}

/* Go over all rows: measure them, or print them when |out| is not NULL. */
static void each_row(const struct wr_policy *policy, size_t widths[COLUMNS], FILE *out)
{
    struct row row;

    for (size_t i = 0; i < wr_policy_limit_count(policy); i++) {
        size_t plans = wr_policy_limit(policy, i)->by_plan ? wr_policy_plan_count(policy) : 1;
        for (size_t plan = 0; plan < plans; plan++) {
            fill_row(policy, i, plan, &row);
            for (size_t c = 0; c < COLUMNS && out == NULL; c++)
                if (strlen(row.cell[c]) > widths[c])
                    widths[c] = strlen(row.cell[c]);
            if (out != NULL)
                print_row(&row, widths, out);
        }
    }
}

static void print_size(FILE *out, uint64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;

    while (unit < 4 && bytes >= 1024 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    (void)fprintf(out, "%llu %s", (unsigned long long)bytes, units[unit]);
}

static void print_summary(const struct wr_policy *policy, FILE *out)
{
    const struct wr_policy_settings *settings = wr_policy_settings(policy);
    size_t widths[COLUMNS] = {0};
    uint64_t slots = wr_policy_slots(policy);
    char line[512];

    each_row(policy, widths, NULL);
    each_row(policy, widths, out);
    (void)fprintf(out, "  plans:");
    for (size_t i = 0; i < wr_policy_plan_count(policy); i++) {
        wr_policy_describe_plan(policy, i, line, sizeof line);
        (void)fprintf(out, "%s %s", i > 0 ? "," : "", line);
    }
    (void)fprintf(out, "\n  arena: %s, ",
                  settings->arena_path != NULL ? settings->arena_path : "no path given");
    print_size(out, settings->arena_bytes);
    (void)fprintf(out, ", for about %llu to %llu live keys", (unsigned long long)slots / 4,
                  (unsigned long long)slots / 2);
    (void)fprintf(out, "; %u%% of it for lists\n", settings->arena_log_percent);
    if (wr_policy_envoy(policy) != NULL)
        (void)fprintf(out, "  envoy_ratelimit: %zu rules with a limit\n",
                      wr_envoy_rule_count(wr_policy_envoy(policy)));
    if (settings->customers != NULL) {
        wr_policy_describe_customers(policy, line, sizeof line);
        (void)fprintf(out, "  customers: %s\n", line);
    }
    if (settings->store != NULL) {
        wr_policy_describe_store(policy, line, sizeof line);
        (void)fprintf(out, "  store: %s\n", line);
    }
}

/* ---- the command ------------------------------------------------------------------------- */

/* Standard input may be a pipe, which the daemon takes no policy from: it is read here, to its end
 * or to one byte more than a policy may have. */
static int load_stdin(struct wr_policy **out, struct wr_diag *diag)
{
    char *text = malloc(WR_POLICY_BYTES_MAX + 1);
    size_t len;
    int result;

    *out = NULL;
    if (text == NULL)
        return WEIR_ENOMEM;
    len = fread(text, 1, WR_POLICY_BYTES_MAX + 1, stdin);
    result = wr_policy_load_text(out, text, len, diag);
    free(text);
    return result;
}

/* Returns whether the policy is right. */
static bool check_file(const char *file, bool quiet, struct wr_diag *diag, char *errors)
{
    struct wr_policy *policy;
    int result;

    wr_diag_init(diag, file);
    result =
        strcmp(file, "-") == 0 ? load_stdin(&policy, diag) : wr_policy_load(&policy, file, diag);
    if (result == 0)
        wr_host_check(policy, diag);
    (void)wr_diag_format(diag, errors, ERRORS_BYTES);
    (void)fflush(stdout); /* keep the order where both go to one place */
    (void)fputs(errors, stderr);
    if (result == WEIR_ENOMEM)
        (void)fprintf(stderr, "%s: error: %s\n", file, weir_strerror(result));
    if (result != 0)
        return false;
    if (diag->errors > 0) {
        wr_policy_free(policy);
        return false;
    }
    (void)printf("%s: ok\n", file);
    if (!quiet)
        print_summary(policy, stdout);
    wr_policy_free(policy);
    return true;
}

int wr_cmd_check(int argc, char **argv)
{
    static const struct option options[] = {
        {"quiet", no_argument, NULL, 'q'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    struct wr_diag *diag;
    char *errors;
    bool quiet = false, ok = true;
    int option;

    while ((option = getopt_long(argc, argv, "qh", options, NULL)) != -1) {
        if (option == 'h') {
            (void)fputs(usage, stdout);
            return 0;
        }
        if (option != 'q') {
            (void)fputs(usage, stderr);
            return 2;
        }
        quiet = true;
    }
    if (optind >= argc) {
        (void)fputs(usage, stderr);
        return 2;
    }
    diag = malloc(sizeof *diag);
    errors = malloc(ERRORS_BYTES);
    for (int i = optind; i < argc && diag != NULL && errors != NULL; i++)
        ok = check_file(argv[i], quiet, diag, errors) && ok;
    if (diag == NULL || errors == NULL) {
        (void)fprintf(stderr, "weir check: %s\n", weir_strerror(WEIR_ENOMEM));
        ok = false;
    }
    free(diag);
    free(errors);
    return ok && fflush(stdout) == 0 ? 0 : 1;
}
