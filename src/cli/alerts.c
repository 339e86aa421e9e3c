/* alerts.c - `weir alerts`: which thresholds of quotas were reached, who was told, and what nobody
 * took. */
#include <inttypes.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/customer.h"
#include "cli/options.h"
#include "doors/alert_page.h"
#include "wire/logtime.h"

static const char usage[] =
    "usage: weir alerts [-c FILE] list [CUSTOMER] [OPTION]...\n"
    "       weir alerts [-c FILE] retry EVENT | --all\n"
    "\n"
    "Thresholds of quotas that customers have reached, and questions whether one may move to the\n"
    "next plan: the newest first, with how far telling them is.\n"
    "\n"
    "  list [CUSTOMER]      all of them, or this customer's\n"
    "  retry EVENT          post it anew, as list prints it; --all: all that were given up\n"
    "\n"
    "      --state STATE        claiming, waiting, sent, dead, elsewhere, told or refused\n"
    "  -j, --json               JSON\n"
    "  -c, --config FILE        the policy (" WR_POLICY_DEFAULT ")\n"
    "  -h, --help               this text\n"
    "\n"
    "Exit status: 0 done, 1 could not be done, 2 wrong usage.\n";

struct arguments {
    const char *policy, *action, *name;
    int state; /* -1: any */
    bool json, all, help;
    bool complained; /* it was said what is wrong */
};

static bool complain(struct arguments *a)
{
    (void)fprintf(
        stderr,
        "weir alerts: --state: expected claiming, waiting, sent, dead, elsewhere, told or "
        "refused, found \"%s\"\n",
        optarg);
    a->complained = true;
    return false;
}

static bool parse(struct arguments *a, int argc, char **argv)
{
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'}, {"json", no_argument, NULL, 'j'},
        {"state", required_argument, NULL, 's'},  {"all", no_argument, NULL, 'a'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
    struct wr_options reading = {.shorts = "c:jh", .longs = options};
    enum wr_alert_state state;
    int option;

    *a = (struct arguments){.policy = WR_POLICY_DEFAULT, .state = -1};
    while ((option = wr_options_next(&reading, argc, argv)) != -1) {
        if (option == 'c')
            a->policy = optarg;
        else if (option == 'j')
            a->json = true;
        else if (option == 'a')
            a->all = true;
        else if (option == 'h')
            a->help = true;
        else if (option != 's')
            return false;
        else if (wr_alert_state_of((struct weir_slice){optarg, strlen(optarg)}, &state))
            a->state = (int)state;
        else
            return complain(a);
    }
    if (optind < argc)
        a->action = argv[optind++];
    if (optind < argc)
        a->name = argv[optind++];
    return optind == argc;
}

/* ---- list ------------------------------------------------------------------------------------ */

struct printing {
    bool json;
    struct wr_page page;
};

static void print_line(const struct wr_alert *a)
{
    char at[WR_LOGTIME_TEXT_MAX], next[WR_LOGTIME_TEXT_MAX];

    (void)printf("%s  %s  %-9s  %-24s  ", a->event, wr_moment_words(a->at_ns, at, sizeof at),
                 wr_alert_state_name(a->state), a->name);
    if (a->kind == WR_ALERT_UPGRADE)
        (void)printf("may it move from %s to %s?", a->plan, a->after);
    else
        (void)printf("%u%% of %s: %" PRIu64 " of %" PRId64, a->percent, a->quota, a->used,
                     a->limit);
    if (a->tries > 0)
        (void)printf("; %u %s failed%s%s", a->tries, a->tries == 1 ? "try" : "tries",
                     a->error[0] != '\0' ? ", the last: " : "", a->error);
    if (a->tries > 0 && a->state == WR_ALERT_WAITING)
        (void)printf("; next %s", wr_moment_words(a->next_ns, next, sizeof next));
    (void)putchar('\n');
}

static bool print_one(void *context, const struct wr_alert *alert)
{
    struct printing *p = context;

    if (p->json)
        wr_put_alert(&p->page, alert);
    else
        print_line(alert);
    return !ferror(stdout) && !p->page.full;
}

static int list(struct wr_book *book, const struct arguments *a)
{
    struct wr_alert_filter filter = {.state = a->state};
    struct printing p = {.json = a->json};
    struct wr_customer customer = {.id = 0};
    int result = a->name != NULL ? wr_customer_find(book->database, a->name, &customer) : 0;

    filter.customer = customer.id;
    if (p.json) {
        wr_page_open(&p.page, '{');
        wr_page_key(&p.page, "alerts");
        wr_page_open(&p.page, '[');
    }
    if (result == 0)
        result = wr_alerts_each(book->database, &filter, print_one, &p);
    if (result != 0) {
        wr_page_free(&p.page);
        return wr_book_fail(book, "alerts", result);
    }
    if (!p.json)
        return 0;
    wr_page_close(&p.page, ']');
    wr_page_close(&p.page, '}');
    return wr_book_print_page(&p.page) ? 0 : 1;
}

/* ---- retry ----------------------------------------------------------------------------------- */

static int retry(struct wr_book *book, const struct arguments *a)
{
    int64_t count = wr_alerts_retry(book->database, a->name, book->now_ns);

    if (count < 0)
        return wr_book_fail(book, "alerts", (int)count);
    if (count == 0 && a->name != NULL) {
        (void)fprintf(stderr, "weir alerts: %s: no such event that can be sent\n", a->name);
        return 1;
    }
    (void)printf("%" PRId64 " to be sent by weir serve\n", count);
    return 0;
}

static bool is_action(const struct arguments *a)
{
    if (a->action == NULL)
        return false;
    if (strcmp(a->action, "retry") == 0)
        return (a->name != NULL) != a->all && a->state < 0 && !a->json;
    return strcmp(a->action, "list") == 0 && !a->all;
}

int wr_cmd_alerts(int argc, char **argv)
{
    struct arguments a;
    struct wr_book book;
    bool writes;
    int status = 1;

    if (!parse(&a, argc, argv) || (!a.help && !is_action(&a))) {
        if (!a.complained)
            (void)fputs(usage, stderr);
        return 2;
    }
    if (a.help)
        return fputs(usage, stdout) == EOF;
    writes = strcmp(a.action, "retry") == 0;
    if (wr_book_open(&book, a.policy, writes))
        status = writes ? retry(&book, &a) : list(&book, &a);
    wr_book_close(&book);
    return fflush(stdout) == 0 ? status : 1;
}
