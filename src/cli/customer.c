/* customer.c - `weir customer`: who the customers are, and what is changed about them.
 *
 * It acts on the database itself; a running daemon sees each change within customers.flush. Keys
 * are taken from standard input or made here, and printed once: the database has their digests. */
#include <getopt.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/customer.h"
#include "policy/rate.h"
#include "wire/logtime.h"

static const char usage[] =
    "usage: weir customer [-c FILE] ACTION [NAME] [OPTION]...\n"
    "\n"
    "Look at the customers of the policy in FILE (" WR_POLICY_DEFAULT "), and change them.\n"
    "A running weir serve obeys each change within its customers.flush.\n"
    "\n"
    "  list                 all of them, by name; --plan, --tenant: those; --all: ended ones too\n"
    "  show NAME            one, with keys and what was changed\n"
    "  create NAME          --plan PLAN, and what set can say; --key makes a key and prints it\n"
    "  set NAME             --plan, --tenant, --anchor, --partner, --suspended, --trial\n"
    "  end NAME             no customer any more: keys lead nowhere, usage stays\n"
    "  resume NAME          again one, without keys\n"
    "  key-add NAME         make a key and print it, once; --value: this one\n"
    "  key-revoke NAME ID   the key leads nowhere from now on; ID as show prints it\n"
    "  log [NAME]           who changed what, when and why\n"
    "\n"
    "      --plan PLAN          a plan of the policy\n"
    "      --tenant TEXT        whom it belongs to\n"
    "      --anchor DAY         day of the month its billing months begin on, 1 to 31\n"
    "      --partner yes|no     verified\n"
    "      --suspended yes|no   its keys lead nowhere meanwhile\n"
    "      --trial PLAN         this plan until --until MOMENT, or --for DURATION; - ends a trial\n"
    "      --identity NAME      which identity a key is a value of; default: the first of "
    "customers.by\n"
    "      --value VALUE        a key that is there already; - reads it from standard input\n"
    "      --prefix TEXT        what a key that is made begins with\n"
    "      --reason TEXT        for the log\n"
    "      --who NAME           who it is; default: the user who runs this\n"
    "  -j, --json               JSON\n"
    "  -c, --config FILE        the policy\n"
    "  -h, --help               this text\n"
    "\n"
    "Exit status: 0 done, 1 could not be done, 2 wrong usage.\n";

enum {
    PLAN = 256,
    TENANT,
    ANCHOR,
    PARTNER,
    SUSPENDED,
    TRIAL,
    UNTIL,
    LASTS,
    IDENTITY,
    VALUE,
    PREFIX,
    REASON,
    WHO,
    ALL,
    KEY,
    OPTIONS_END
};

static const struct option options[] = {{"plan", required_argument, NULL, PLAN},
                                        {"tenant", required_argument, NULL, TENANT},
                                        {"anchor", required_argument, NULL, ANCHOR},
                                        {"partner", required_argument, NULL, PARTNER},
                                        {"suspended", required_argument, NULL, SUSPENDED},
                                        {"trial", required_argument, NULL, TRIAL},
                                        {"until", required_argument, NULL, UNTIL},
                                        {"for", required_argument, NULL, LASTS},
                                        {"identity", required_argument, NULL, IDENTITY},
                                        {"value", required_argument, NULL, VALUE},
                                        {"prefix", required_argument, NULL, PREFIX},
                                        {"reason", required_argument, NULL, REASON},
                                        {"who", required_argument, NULL, WHO},
                                        {"all", no_argument, NULL, ALL},
                                        {"key", no_argument, NULL, KEY},
                                        {"json", no_argument, NULL, 'j'},
                                        {"config", required_argument, NULL, 'c'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

struct arguments {
    const char *policy, *action, *name, *more;
    const char *given[OPTIONS_END - PLAN]; /* by option; "" for flags */
    bool json, help;
};

static const char *given(const struct arguments *a, int option)
{
    return a->given[option - PLAN];
}

static bool parse(struct arguments *a, int argc, char **argv)
{
    int option;

    *a = (struct arguments){.policy = WR_POLICY_DEFAULT};
    while ((option = getopt_long(argc, argv, "c:jh", options, NULL)) != -1) {
        if (option == 'c')
            a->policy = optarg;
        else if (option == 'j')
            a->json = true;
        else if (option == 'h')
            a->help = true;
        else if (option >= PLAN && option < OPTIONS_END)
            a->given[option - PLAN] = optarg != NULL ? optarg : "";
        else
            return false;
    }
    a->action = optind < argc ? argv[optind++] : NULL;
    a->name = optind < argc ? argv[optind++] : NULL;
    a->more = optind < argc ? argv[optind++] : NULL;
    return optind == argc && (a->help || a->action != NULL);
}

static int complain(const char *option, const char *expected)
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

static int read_flag(const struct arguments *a, int option, const char *name, int *out)
{
    if (given(a, option) == NULL)
        return 0;
    *out = yes_or_no(given(a, option));
    return *out >= 0 ? 0 : complain(name, "yes or no");
}

static int read_trial(const struct wr_book *book, const struct arguments *a,
                      struct wr_customer_change *change)
{
    const char *trial = given(a, TRIAL), *until = given(a, UNTIL), *lasts = given(a, LASTS);
    int64_t ns;
    size_t at;

    if (trial == NULL)
        return until == NULL && lasts == NULL ? 0 : complain("--until, --for", "--trial beside it");
    change->trial_plan = strcmp(trial, "-") == 0 ? "" : trial;
    if (change->trial_plan[0] == '\0')
        return 0;
    if (!is_plan(book, trial))
        return complain("--trial", "a plan of the policy, or -");
    if ((until == NULL) == (lasts == NULL))
        return complain("--trial", "--until MOMENT or --for DURATION beside it");
    if (lasts != NULL) {
        if (wr_duration_parse((struct weir_slice){lasts, strlen(lasts)}, &ns, &at) != NULL)
            return complain("--for", "a duration such as 14d");
        change->trial_until_ns = book->now_ns + ns;
    } else if (!wr_logtime_rfc3339((struct weir_slice){until, strlen(until)},
                                   &change->trial_until_ns)) {
        return complain("--until", "a moment such as 2026-12-31T00:00:00Z");
    }
    if (change->trial_until_ns <= book->now_ns)
        return complain("--until", "a moment to come");
    return 0;
}

/* 0, or 1 after it was said what is wrong. */
static int read_change(const struct wr_book *book, const struct arguments *a,
                       struct wr_customer_change *change)
{
    const char *anchor = given(a, ANCHOR);
    int64_t day;
    size_t at;

    *change = WR_CUSTOMER_UNCHANGED;
    change->plan = given(a, PLAN);
    change->tenant = given(a, TENANT);
    if (change->plan != NULL && !is_plan(book, change->plan))
        return complain("--plan", "a plan of the policy");
    if (anchor != NULL) {
        if (wr_count_parse((struct weir_slice){anchor, strlen(anchor)}, 31, &day, &at) != NULL ||
            day < 1)
            return complain("--anchor", "a day of the month, 1 to 31");
        change->anchor = (int)day;
    }
    if (read_flag(a, PARTNER, "--partner", &change->partner) != 0 ||
        read_flag(a, SUSPENDED, "--suspended", &change->suspended) != 0)
        return 1;
    return read_trial(book, a, change);
}

static struct wr_author author_of(const struct wr_book *book, const struct arguments *a)
{
    static char who[WR_CUSTOMER_WHO_MAX + 1];
    const struct passwd *user = getpwuid(getuid());

    if (given(a, WHO) != NULL)
        (void)snprintf(who, sizeof who, "cli:%s", given(a, WHO));
    else
        (void)snprintf(who, sizeof who, "cli:%s", user != NULL ? user->pw_name : "?");
    return (struct wr_author){who, given(a, REASON) != NULL ? given(a, REASON) : "", book->now_ns};
}

/* ---- keys ------------------------------------------------------------------------------------ */

static const char *identity_of(const struct wr_book *book, const struct arguments *a)
{
    const char *name = given(a, IDENTITY);

    if (name == NULL)
        return book->customers->by[0];
    for (unsigned i = 0; i < book->customers->by_count; i++)
        if (strcmp(book->customers->by[i], name) == 0)
            return name;
    (void)complain("--identity", "a name of customers.by");
    return NULL;
}

/* The key that is given, read, or made. NULL: said. |*made|: it is to be printed. */
static const char *value_of(const struct arguments *a, char *buffer, size_t size, bool *made)
{
    const char *value = given(a, VALUE);

    *made = value == NULL;
    if (*made) {
        if (wr_key_make(given(a, PREFIX) != NULL ? given(a, PREFIX) : "", buffer) != 0) {
            (void)complain("--prefix", "up to 32 of A-Z a-z 0-9 _ -");
            return NULL;
        }
        return buffer;
    }
    if (strcmp(value, "-") != 0)
        return value;
    if (fgets(buffer, (int)size, stdin) == NULL)
        buffer[0] = '\0';
    buffer[strcspn(buffer, "\r\n")] = '\0';
    return buffer;
}

static int add_key(struct wr_book *book, const struct arguments *a, int64_t customer)
{
    char buffer[WR_KEY_VALUE_MAX + 3];
    const char *identity = identity_of(book, a);
    struct wr_author author = author_of(book, a);
    struct wr_customer_key key;
    const char *value;
    bool made;
    int result;

    value = identity != NULL ? value_of(a, buffer, sizeof buffer, &made) : NULL;
    if (value == NULL)
        return 1;
    result = wr_customer_add_key(book->database, customer,
                                 (struct weir_slice){identity, strlen(identity)},
                                 (struct weir_slice){value, strlen(value)}, &author, &key);
    if (result != 0)
        return wr_book_fail(book, "customer", result);
    if (made)
        (void)printf("%s\n", value);
    return 0;
}

static int revoke_key(struct wr_book *book, const struct arguments *a, int64_t customer)
{
    struct wr_author author = author_of(book, a);
    struct wr_customer_key key;
    int result;

    if (a->more == NULL)
        return complain("key-revoke", "NAME and the ID of a key");
    result = wr_customer_find_key(book->database, customer, a->more, &key);
    if (result == 0)
        result = wr_customer_revoke_key(book->database, key.digest, &author);
    return result == 0 ? 0 : wr_book_fail(book, "customer", result);
}

/* ---- actions --------------------------------------------------------------------------------- */

struct printing {
    bool json, more; /* another came before */
    int64_t now_ns;
};

static void between(struct printing *p)
{
    if (p->json && p->more)
        (void)putchar(',');
    p->more = true;
}

static bool print_one(void *context, const struct wr_customer *customer)
{
    struct printing *p = context;

    between(p);
    wr_book_print_customer(customer, p->now_ns, p->json);
    return !ferror(stdout);
}

static bool print_key(void *context, const struct wr_customer_key *key)
{
    struct printing *p = context;

    between(p);
    wr_book_print_key(key, p->json);
    return !ferror(stdout);
}

static bool print_audit(void *context, const struct wr_audit *audit)
{
    struct printing *p = context;

    between(p);
    wr_book_print_audit(audit, p->json);
    return !ferror(stdout);
}

static int list(struct wr_book *book, const struct arguments *a)
{
    const struct wr_customer_filter filter = {
        .plan = given(a, PLAN), .tenant = given(a, TENANT), .with_ended = given(a, ALL) != NULL};
    struct printing p = {.json = a->json, .now_ns = book->now_ns};
    int result;

    if (a->json)
        (void)fputs("{\"customers\":[", stdout);
    result = wr_customers_each(book->database, &filter, print_one, &p);
    if (a->json)
        (void)fputs("]}\n", stdout);
    return result == 0 ? 0 : wr_book_fail(book, "customer", result);
}

static int show(struct wr_book *book, const struct arguments *a, const struct wr_customer *customer)
{
    struct printing keys = {.json = a->json}, changes = {.json = a->json};
    int result;

    if (a->json)
        (void)fputs("{\"customer\":", stdout);
    wr_book_print_customer(customer, book->now_ns, a->json);
    if (a->json)
        (void)fputs(",\"keys\":[", stdout);
    result = wr_customer_keys(book->database, customer->id, print_key, &keys);
    if (a->json)
        (void)fputs("],\"changes\":[", stdout);
    if (result == 0)
        result = wr_audit_each(book->database, customer->id, 0, print_audit, &changes);
    if (a->json)
        (void)fputs("]}\n", stdout);
    return result == 0 ? 0 : wr_book_fail(book, "customer", result);
}

static int print_log(struct wr_book *book, const struct arguments *a, int64_t customer)
{
    struct printing p = {.json = a->json};
    int result;

    if (a->json)
        (void)fputs("{\"changes\":[", stdout);
    result = wr_audit_each(book->database, customer, 0, print_audit, &p);
    if (a->json)
        (void)fputs("]}\n", stdout);
    return result == 0 ? 0 : wr_book_fail(book, "customer", result);
}

static int create(struct wr_book *book, const struct arguments *a)
{
    struct wr_author author = author_of(book, a);
    struct wr_customer_change c;
    struct wr_customer_new made = {.name = a->name, .room = book->customers->room};
    struct wr_customer customer;
    int result;

    if (read_change(book, a, &c) != 0)
        return 1;
    made.plan = c.plan != NULL ? c.plan
                               : wr_policy_plan(book->policy, wr_policy_default_plan(book->policy));
    made.tenant = c.tenant;
    made.anchor = (uint8_t)(c.anchor > 0 ? c.anchor : 0);
    made.partner = c.partner == 1;
    made.suspended = c.suspended == 1;
    made.trial_plan = c.trial_plan;
    made.trial_until_ns = c.trial_until_ns;
    result = wr_customer_create(book->database, &made, &author, &customer);
    if (result != 0)
        return wr_book_fail(book, "customer", result);
    return given(a, KEY) != NULL || given(a, VALUE) != NULL ? add_key(book, a, customer.id) : 0;
}

static int set(struct wr_book *book, const struct arguments *a, int64_t id)
{
    struct wr_author author = author_of(book, a);
    struct wr_customer_change change;
    struct wr_customer customer;
    int result;

    if (read_change(book, a, &change) != 0)
        return 1;
    result = wr_customer_change(book->database, id, &change, &author, &customer);
    if (result != 0)
        return wr_book_fail(book, "customer", result);
    wr_book_print_customer(&customer, book->now_ns, a->json);
    if (a->json)
        (void)putchar('\n');
    return 0;
}

/* With the customer called a->name. */
static int act_on(struct wr_book *book, const struct arguments *a)
{
    struct wr_author author = author_of(book, a);
    struct wr_customer customer;
    int result = wr_customer_find(book->database, a->name, &customer);

    if (result != 0)
        return wr_book_fail(book, "customer", result);
    if (strcmp(a->action, "show") == 0)
        return show(book, a, &customer);
    if (strcmp(a->action, "set") == 0)
        return set(book, a, customer.id);
    if (strcmp(a->action, "key-add") == 0)
        return add_key(book, a, customer.id);
    if (strcmp(a->action, "key-revoke") == 0)
        return revoke_key(book, a, customer.id);
    if (strcmp(a->action, "log") == 0)
        return print_log(book, a, customer.id);
    result = strcmp(a->action, "end") == 0
                 ? wr_customer_end(book->database, customer.id, &author)
                 : wr_customer_resume(book->database, customer.id, &author);
    return result == 0 ? 0 : wr_book_fail(book, "customer", result);
}

static const struct {
    const char *name;
    bool named, writes; /* needs a NAME; changes something */
} actions[] = {
    {"list", false, false}, {"show", true, false},      {"create", true, true},
    {"set", true, true},    {"end", true, true},        {"resume", true, true},
    {"log", false, false},  {"key-revoke", true, true}, {"key-add", true, true},
};

static int run(const struct arguments *a, bool writes)
{
    struct wr_book book;
    int status = 1;

    if (wr_book_open(&book, a->policy, writes)) {
        if (strcmp(a->action, "list") == 0)
            status = list(&book, a);
        else if (strcmp(a->action, "create") == 0)
            status = create(&book, a);
        else if (a->name == NULL)
            status = print_log(&book, a, 0);
        else
            status = act_on(&book, a);
    }
    wr_book_close(&book);
    return fflush(stdout) == 0 ? status : 1;
}

int wr_cmd_customer(int argc, char **argv)
{
    struct arguments a;

    if (!parse(&a, argc, argv)) {
        (void)fputs(usage, stderr);
        return 2;
    }
    if (a.help)
        return fputs(usage, stdout) == EOF;
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(actions[i].name, a.action) == 0 && (!actions[i].named || a.name != NULL))
            return run(&a, actions[i].writes);
    (void)fprintf(stderr, "weir customer: expected an action, and NAME where it needs one\n");
    (void)fputs(usage, stderr);
    return 2;
}
