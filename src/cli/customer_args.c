/* customer_args.c - reading the words behind `weir customer`. */
#include "cli/customer_args.h"

#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "cli/options.h"
#include "policy/rate.h"
#include "wire/logtime.h"

#define BIT(option) (UINT32_C(1) << ((option)-WR_ARG_PLAN))
#define LOGGED (BIT(WR_ARG_REASON) | BIT(WR_ARG_WHO))
#define SETS                                                                            \
    (BIT(WR_ARG_PLAN) | BIT(WR_ARG_TENANT) | BIT(WR_ARG_ANCHOR) | BIT(WR_ARG_PARTNER) | \
     BIT(WR_ARG_SUSPENDED) | BIT(WR_ARG_TRIAL))
#define TRIALS (BIT(WR_ARG_UNTIL) | BIT(WR_ARG_LASTS))
#define KEYS (BIT(WR_ARG_IDENTITY) | BIT(WR_ARG_VALUE) | BIT(WR_ARG_PREFIX))

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

/* What each action takes: words behind it, and options; --config and --help are everyone's. */
struct wr_customer_action {
    const char *name;
    const char *words;
    int least, most; /* of them */
    uint32_t takes;
    bool writes;
};

static const struct wr_customer_action actions[] = {
    {"list", "no word", 0, 0,
     BIT(WR_ARG_PLAN) | BIT(WR_ARG_TENANT) | BIT(WR_ARG_ALL) | BIT(WR_ARG_JSON), false},
    {"show", "one NAME", 1, 1, BIT(WR_ARG_JSON), false},
    {"create", "one NAME", 1, 1, SETS | TRIALS | KEYS | BIT(WR_ARG_KEY) | LOGGED, true},
    {"set", "one NAME", 1, 1, SETS | TRIALS | LOGGED | BIT(WR_ARG_JSON), true},
    {"end", "one NAME", 1, 1, LOGGED, true},
    {"resume", "one NAME", 1, 1, LOGGED, true},
    {"key-add", "one NAME", 1, 1, KEYS | LOGGED, true},
    {"key-revoke", "one NAME and the ID of a key", 2, 2, LOGGED, true},
    {"log", "at most one NAME", 0, 1, BIT(WR_ARG_JSON), false},
    {"hash", "no word", 0, 0, BIT(WR_ARG_IDENTITY) | BIT(WR_ARG_VALUE), false},
    {"recover", "no word", 0, 0, 0, true},
};

bool wr_customer_acts(const struct wr_customer_args *a, const char *action)
{
    return strcmp(a->action->name, action) == 0;
}

bool wr_customer_writes(const struct wr_customer_args *a)
{
    return a->action->writes;
}

static bool find_action(struct wr_customer_args *a, const char *name)
{
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(actions[i].name, name) == 0)
            a->action = &actions[i];
    if (a->action == NULL)
        (void)fprintf(stderr, "weir customer: there is no action \"%s\"\n", name);
    return a->action != NULL;
}

static const char *name_of(int option)
{
    for (const struct option *at = options; at->name != NULL; at++)
        if (at->val == (option == WR_ARG_JSON ? 'j' : option))
            return at->name;
    return "?";
}

/* "list takes no --key; it takes --plan, --tenant" */
static bool refuse_option(struct wr_customer_args *a, int wrong)
{
    const char *before = "; it takes --";

    (void)fprintf(stderr, "weir customer: %s takes no --%s", a->action->name, name_of(wrong));
    for (int option = WR_ARG_PLAN; option < WR_ARG_END; option++) {
        if ((a->action->takes & BIT(option)) == 0)
            continue;
        (void)fprintf(stderr, "%s%s", before, name_of(option));
        before = ", --";
    }
    (void)fputs("\n", stderr);
    a->complained = true;
    return false;
}

static bool refuse(struct wr_customer_args *a, const char *what)
{
    (void)fprintf(stderr, "weir customer: %s: %s\n", a->action->name, what);
    a->complained = true;
    return false;
}

/* Do the options that are taken go together? */
static bool is_whole(struct wr_customer_args *a)
{
    const char *trial = wr_customer_given(a, WR_ARG_TRIAL);
    bool value = wr_customer_given(a, WR_ARG_VALUE) != NULL;
    bool key = wr_customer_given(a, WR_ARG_KEY) != NULL || wr_customer_acts(a, "key-add");
    int ends =
        (wr_customer_given(a, WR_ARG_UNTIL) != NULL) + (wr_customer_given(a, WR_ARG_LASTS) != NULL);
    bool sets = false;

    for (int option = WR_ARG_PLAN; option <= WR_ARG_TRIAL; option++)
        sets = sets || wr_customer_given(a, option) != NULL;
    if (trial == NULL && ends > 0)
        return refuse(a, "--until and --for: expected --trial PLAN beside it");
    if (trial != NULL && strcmp(trial, "-") == 0 && ends > 0)
        return refuse(a,
                      "--trial - ends the trial now: expected no --until and no --for beside it");
    if (trial != NULL && strcmp(trial, "-") != 0 && ends != 1)
        return refuse(a, "--trial: expected one of --until MOMENT and --for DURATION beside it");
    if (wr_customer_acts(a, "create") && key && value)
        return refuse(a, "expected one of --key, which makes a key, and --value, which is one");
    if (value && wr_customer_given(a, WR_ARG_PREFIX) != NULL)
        return refuse(a, "--prefix: expected no --value beside it: that key is made already");
    if (wr_customer_acts(a, "create") && !key &&
        (wr_customer_given(a, WR_ARG_PREFIX) != NULL ||
         (wr_customer_given(a, WR_ARG_IDENTITY) != NULL && !value)))
        return refuse(a, "--identity and --prefix: expected --key beside it, or --value");
    if (wr_customer_acts(a, "hash") && !value)
        return refuse(a, "expected --value KEY, or --value - to read it");
    if (wr_customer_acts(a, "set") && !sets)
        return refuse(a, "expected something to set: --plan, --tenant, --anchor, --partner, "
                         "--suspended or --trial");
    return true;
}

static bool is_taken(struct wr_customer_args *a, int words, const char *last)
{
    char found[128];

    for (int option = WR_ARG_PLAN; option < WR_ARG_END; option++)
        if (wr_customer_given(a, option) != NULL && (a->action->takes & BIT(option)) == 0)
            return refuse_option(a, option);
    if (words < a->action->least)
        (void)snprintf(found, sizeof found, "expected %s, found %s", a->action->words,
                       words == 0 ? "none" : "the NAME alone");
    else if (words > a->action->most)
        (void)snprintf(found, sizeof found, "expected %s, found also \"%.60s\"", a->action->words,
                       last);
    else
        return is_whole(a);
    return refuse(a, found);
}

static bool take(struct wr_customer_args *a, int option)
{
    if (option == 'c')
        a->policy = optarg;
    else if (option == 'h')
        a->help = true;
    else if (option == 'j')
        a->given[WR_ARG_JSON - WR_ARG_PLAN] = "";
    else if (option >= WR_ARG_PLAN && option < WR_ARG_END)
        a->given[option - WR_ARG_PLAN] = optarg != NULL ? optarg : "";
    else
        return false;
    a->json = a->json || option == 'j';
    return true;
}

bool wr_customer_parse(struct wr_customer_args *a, int argc, char **argv)
{
    struct wr_options reading = {.shorts = "c:jh", .longs = options};
    int option, words;

    *a = (struct wr_customer_args){.policy = WR_POLICY_DEFAULT};
    while ((option = wr_options_next(&reading, argc, argv)) != -1)
        if (!take(a, option)) {
            a->complained = reading.twice;
            return false;
        }
    if (a->help)
        return true;
    if (optind == argc || !find_action(a, argv[optind++]))
        return false;
    words = argc - optind;
    a->name = words > 0 ? argv[optind] : NULL;
    a->more = words > 1 ? argv[optind + 1] : NULL;
    return is_taken(a, words, argv[argc - 1]);
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
        return 0;
    change->trial_plan = strcmp(trial, "-") == 0 ? "" : trial;
    if (change->trial_plan[0] == '\0')
        return 0;
    if (!is_plan(book, trial))
        return wr_customer_complain("--trial", "a plan of the policy, or -");
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
