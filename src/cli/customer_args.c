/* customer_args.c - reading the words behind `weir customer`. */
#include "cli/customer_args.h"

#include <getopt.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "policy/rate.h"
#include "wire/logtime.h"

static const struct option options[] = {{"plan", required_argument, NULL, WR_ARG_PLAN},
                                        {"tenant", required_argument, NULL, WR_ARG_TENANT},
                                        {"anchor", required_argument, NULL, WR_ARG_ANCHOR},
                                        {"partner", required_argument, NULL, WR_ARG_PARTNER},
                                        {"suspended", required_argument, NULL, WR_ARG_SUSPENDED},
                                        {"trial", required_argument, NULL, WR_ARG_TRIAL},
                                        {"until", required_argument, NULL, WR_ARG_UNTIL},
                                        {"for", required_argument, NULL, WR_ARG_LASTS},
                                        {"identity", required_argument, NULL, WR_ARG_IDENTITY},
                                        {"value", required_argument, NULL, WR_ARG_VALUE},
                                        {"prefix", required_argument, NULL, WR_ARG_PREFIX},
                                        {"reason", required_argument, NULL, WR_ARG_REASON},
                                        {"who", required_argument, NULL, WR_ARG_WHO},
                                        {"all", no_argument, NULL, WR_ARG_ALL},
                                        {"key", no_argument, NULL, WR_ARG_KEY},
                                        {"json", no_argument, NULL, 'j'},
                                        {"config", required_argument, NULL, 'c'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

bool wr_customer_parse(struct wr_customer_args *a, int argc, char **argv)
{
    int option;

    *a = (struct wr_customer_args){.policy = WR_POLICY_DEFAULT};
    while ((option = getopt_long(argc, argv, "c:jh", options, NULL)) != -1) {
        if (option == 'c')
            a->policy = optarg;
        else if (option == 'j')
            a->json = true;
        else if (option == 'h')
            a->help = true;
        else if (option >= WR_ARG_PLAN && option < WR_ARG_END)
            a->given[option - WR_ARG_PLAN] = optarg != NULL ? optarg : "";
        else
            return false;
    }
    a->action = optind < argc ? argv[optind++] : NULL;
    a->name = optind < argc ? argv[optind++] : NULL;
    a->more = optind < argc ? argv[optind++] : NULL;
    return optind == argc && (a->help || a->action != NULL);
}

int wr_customer_complain(const char *option, const char *expected)
{
    (void)fprintf(stderr, "weir customer: %s: expected %s\n", option, expected);
    return 1;
}

/* ---- what a change says ---------------------------------------------------------------------- */

static bool is_plan(const struct wr_book *book, const char *name)
{
    for (size_t i = 0; i < wr_policy_plan_count(book->policy); i++)
        if (strcmp(wr_policy_plan(book->policy, i), name) == 0)
            return true;
    return false;
}

/* -1: neither. */
static int yes_or_no(const char *text)
{
    return strcmp(text, "yes") == 0 ? 1 : strcmp(text, "no") == 0 ? 0 : -1;
}

static int read_flag(const struct wr_customer_args *a, int option, const char *name, int *out)
{
    if (wr_customer_given(a, option) == NULL)
        return 0;
    *out = yes_or_no(wr_customer_given(a, option));
    return *out >= 0 ? 0 : wr_customer_complain(name, "yes or no");
}

static int read_trial(const struct wr_book *book, const struct wr_customer_args *a,
                      struct wr_customer_change *change)
{
    const char *trial = wr_customer_given(a, WR_ARG_TRIAL),
               *until = wr_customer_given(a, WR_ARG_UNTIL),
               *lasts = wr_customer_given(a, WR_ARG_LASTS);
    int64_t ns;
    size_t at;

    if (trial == NULL)
        return until == NULL && lasts == NULL
                   ? 0
                   : wr_customer_complain("--until, --for", "--trial beside it");
    change->trial_plan = strcmp(trial, "-") == 0 ? "" : trial;
    if (change->trial_plan[0] == '\0')
        return 0;
    if (!is_plan(book, trial))
        return wr_customer_complain("--trial", "a plan of the policy, or -");
    if ((until == NULL) == (lasts == NULL))
        return wr_customer_complain("--trial", "--until MOMENT or --for DURATION beside it");
    if (lasts != NULL) {
        if (wr_duration_parse((struct weir_slice){lasts, strlen(lasts)}, &ns, &at) != NULL)
            return wr_customer_complain("--for", "a duration such as 14d");
        change->trial_until_ns = book->now_ns + ns;
    } else if (!wr_logtime_until((struct weir_slice){until, strlen(until)},
                                 &change->trial_until_ns)) {
        return wr_customer_complain(
            "--until", "a day, which is included, such as 2026-12-31, or 2026-12-31T18:00:00Z");
    }
    if (change->trial_until_ns <= book->now_ns)
        return wr_customer_complain("--until", "a moment to come");
    return 0;
}

static int read_anchor(const struct wr_customer_args *a, int *out)
{
    const char *anchor = wr_customer_given(a, WR_ARG_ANCHOR);
    int64_t day = 0;
    size_t at;

    if (anchor == NULL)
        return 0;
    if (strcmp(anchor, "none") != 0 &&
        (wr_count_parse((struct weir_slice){anchor, strlen(anchor)}, 31, &day, &at) != NULL ||
         day < 1))
        return wr_customer_complain("--anchor", "a day of the month, 1 to 31, or none");
    *out = (int)day;
    return 0;
}

/* 0, or 1 after it was said what is wrong. */
int wr_customer_read_change(const struct wr_book *book, const struct wr_customer_args *a,
                            struct wr_customer_change *change)
{
    *change = WR_CUSTOMER_UNCHANGED;
    change->plan = wr_customer_given(a, WR_ARG_PLAN);
    change->tenant = wr_customer_given(a, WR_ARG_TENANT);
    if (change->plan != NULL && !is_plan(book, change->plan))
        return wr_customer_complain("--plan", "a plan of the policy");
    if (read_anchor(a, &change->anchor) != 0 ||
        read_flag(a, WR_ARG_PARTNER, "--partner", &change->partner) != 0 ||
        read_flag(a, WR_ARG_SUSPENDED, "--suspended", &change->suspended) != 0)
        return 1;
    return read_trial(book, a, change);
}

struct wr_author wr_customer_author(const struct wr_book *book, const struct wr_customer_args *a)
{
    static char who[WR_CUSTOMER_WHO_MAX + 1];
    const struct passwd *user = getpwuid(getuid());

    if (wr_customer_given(a, WR_ARG_WHO) != NULL)
        (void)snprintf(who, sizeof who, "cli:%s", wr_customer_given(a, WR_ARG_WHO));
    else
        (void)snprintf(who, sizeof who, "cli:%s", user != NULL ? user->pw_name : "?");
    return (struct wr_author){
        who, wr_customer_given(a, WR_ARG_REASON) != NULL ? wr_customer_given(a, WR_ARG_REASON) : "",
        book->now_ns};
}
