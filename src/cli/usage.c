/* usage.c - `weir usage`: what customers used, from the ledger; what is to be billed; and whether
 * the ledger is right. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/customer.h"
#include "cli/options.h"
#include "cli/usage_verify.h"
#include "meter/known.h"
#include "meter/standing.h"
#include "policy/rate.h"

static const char usage[] =
    "usage: weir usage [-c FILE] [NAME] [OPTION]...\n"
    "       weir usage [-c FILE] --verify [DATABASE]...\n"
    "\n"
    "What the customers of the policy in FILE (" WR_POLICY_DEFAULT ") used of their quotas, from\n"
    "the ledger, which is at most customers.flush behind.\n"
    "\n"
    "  NAME                 how this customer stands: each quota's limit, use, and next reset\n"
    "      --month 2026-11  what was used in the windows that end in that month, a line for each\n"
    "                       customer and quota\n"
    "      --from DAY       the same from this day on (2026-11-01)\n"
    "      --to DAY         up to this day, which is included\n"
    "      --days           a line for each day\n"
    "      --windows        a line for each window of a quota\n"
    "      --over           windows with overage alone, for bills: a month has those that end in\n"
    "                       it, so that each is billed once. One that is open may still grow\n"
    "      --top N          who used most\n"
    "      --quota NAME     of this quota alone; lines, also of one customer\n"
    "      --tenant TEXT    of this tenant's customers alone\n"
    "      --csv            comma-separated, with a first line of names (RFC 4180); a text that a\n"
    "                       spreadsheet would take for a formula gets an apostrophe\n"
    "  -j, --json           JSON\n"
    "      --verify         is the ledger sound, and what the cells of this host say? With\n"
    "                       DATABASEs of other nodes: their sums as well, and of shared quotas\n"
    "                       whether they are what the store counts now\n"
    "  -c, --config FILE    the policy\n"
    "  -h, --help           this text\n"
    "\n"
    "Exit status: 0 done, 1 something is wrong, 2 wrong usage.\n";

enum { MONTH = 256, FROM, TO, DAYS, WINDOWS, OVER, TOP, QUOTA, TENANT, CSV, VERIFY };

enum shape { TEXT, JSON, CSV_LINES };

struct arguments {
    const char *policy;
    char **names;
    int name_count;
    struct wr_report_filter filter;
    bool month, dated, days, windows, top, csv, json, verify, help;
    bool complained; /* it was said what is wrong */
    enum shape shape;
};

/* Say what is wrong. */
static bool complain(struct arguments *a, const char *option, const char *expected)
{
    (void)fprintf(stderr, "weir usage: %s: expected %s, found \"%s\"\n", option, expected, optarg);
    a->complained = true;
    return false;
}

static bool read_span(struct arguments *a, int option)
{
    const struct weir_slice text = {optarg, strlen(optarg)};
    int32_t day;

    if (!wr_date_read(text, option == MONTH, &day))
        return option == MONTH
                   ? complain(a, "--month", "a month such as 2026-11")
                   : complain(a, option == FROM ? "--from" : "--to", "a day such as 2026-11-30");
    a->month = a->month || option == MONTH;
    a->dated = a->dated || option != MONTH;
    if (option != TO)
        a->filter.first = day;
    if (option == TO)
        a->filter.last = day;
    if (option == MONTH)
        a->filter.last = wr_month_end(day);
    return true;
}

static bool read_top(struct arguments *a)
{
    const struct weir_slice text = {optarg, strlen(optarg)};
    size_t at;

    a->top = true;
    return (wr_count_parse(text, 1000000, &a->filter.most, &at) == NULL && a->filter.most > 0) ||
           complain(a, "--top", "how many customers, 1 to 1000000");
}

static bool take(struct arguments *a, int option)
{
    if (option == 'c')
        a->policy = optarg;
    else if (option == 'j')
        a->json = true;
    else if (option == CSV)
        a->csv = true;
    else if (option == 'h')
        a->help = true;
    else if (option == DAYS)
        a->days = true;
    else if (option == WINDOWS)
        a->windows = true;
    else if (option == OVER)
        a->filter.over_only = a->windows = true;
    else if (option == QUOTA)
        a->filter.quota = optarg;
    else if (option == TENANT)
        a->filter.tenant = optarg;
    else if (option == VERIFY)
        a->verify = true;
    else if (option == TOP)
        return read_top(a);
    else if (option == MONTH || option == FROM || option == TO)
        return read_span(a, option);
    else
        return false;
    return true;
}

/* Of lines, or what chooses among them. */
static bool asks_lines(const struct arguments *a)
{
    return a->month || a->dated || a->days || a->windows || a->top || a->csv ||
           a->filter.quota != NULL;
}

/* Do the arguments go together? */
static bool is_whole(struct arguments *a)
{
    const char *wrong = NULL;

    if (a->verify && (asks_lines(a) || a->filter.tenant != NULL))
        wrong = "--verify looks at all there is: expected --json and DATABASEs beside it alone";
    else if (a->month && a->dated)
        wrong = "expected --month, or --from and --to, found both";
    else if (a->csv && a->json)
        wrong = "expected one of --csv and --json, found both";
    else if (a->name_count == 1 && a->filter.tenant != NULL)
        wrong = "expected NAME, who is one customer, or --tenant, found both";
    else if (a->days + a->windows + a->top + a->verify > 1)
        wrong = "expected one of --days, --windows or --over, --top and --verify, found several";
    else if (!a->verify && a->name_count > 1)
        wrong = "expected one NAME, found several";
    else if (a->filter.first > a->filter.last)
        wrong = "expected --from before --to, or on the same day";
    if (wrong == NULL)
        return true;
    (void)fprintf(stderr, "weir usage: %s\n", wrong);
    a->complained = true;
    return false;
}

static bool parse(struct arguments *a, int argc, char **argv)
{
    static const struct option options[] = {{"month", required_argument, NULL, MONTH},
                                            {"from", required_argument, NULL, FROM},
                                            {"to", required_argument, NULL, TO},
                                            {"days", no_argument, NULL, DAYS},
                                            {"windows", no_argument, NULL, WINDOWS},
                                            {"over", no_argument, NULL, OVER},
                                            {"top", required_argument, NULL, TOP},
                                            {"quota", required_argument, NULL, QUOTA},
                                            {"tenant", required_argument, NULL, TENANT},
                                            {"csv", no_argument, NULL, CSV},
                                            {"json", no_argument, NULL, 'j'},
                                            {"verify", no_argument, NULL, VERIFY},
                                            {"config", required_argument, NULL, 'c'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct wr_options reading = {.shorts = "c:jh", .longs = options};
    int option;

    *a = (struct arguments){.policy = WR_POLICY_DEFAULT, .filter = {.last = INT32_MAX / 2}};
    while ((option = wr_options_next(&reading, argc, argv)) != -1)
        if (!take(a, option)) {
            a->complained = a->complained || reading.twice;
            return false;
        }
    a->shape = a->csv ? CSV_LINES : a->json ? JSON : TEXT;
    a->names = argv + optind;
    a->name_count = argc - optind;
    return is_whole(a);
}

/* ---- lines ----------------------------------------------------------------------------------- */

struct printing {
    const struct arguments *a;
    struct wr_page page;
};

static void print_csv(struct wr_page *page, const struct wr_report_line *line, int32_t day)
{
    struct weir_slice text;

    wr_page_clear(page);
    wr_put_usage_csv(page, line, day);
    text = wr_page_text(page);
    (void)fwrite(text.ptr, 1, text.len, stdout);
}

static void print_text(const struct wr_report_line *line, const char *date)
{
    char last[16];

    (void)printf("%-24s  %-16s  %-10s  %12" PRIu64, line->name, line->quota.name, date, line->used);
    if (line->over_known)
        (void)printf("  over %" PRIu64, line->over);
    if (!line->closed)
        (void)printf("  open until %s is over", wr_date_text(line->last, last, sizeof last));
    (void)puts("");
}

static bool print_line(void *context, const struct wr_report_line *line)
{
    struct printing *p = context;
    int32_t day = p->a->days ? line->day : p->a->windows ? line->window : 0;
    char date[16] = "";

    if (day != 0)
        (void)wr_date_text(day, date, sizeof date);
    if (p->a->shape == CSV_LINES)
        print_csv(&p->page, line, day);
    else if (p->a->shape == JSON)
        wr_put_usage(&p->page, line, day);
    else
        print_text(line, date);
    return !ferror(stdout) && !p->page.full;
}

static void begin_json(struct wr_page *page, const char *member)
{
    wr_page_open(page, '{');
    wr_page_key(page, member);
    wr_page_open(page, '[');
}

static int end_report(struct wr_book *book, struct printing *p, int result)
{
    if (result != 0) {
        wr_page_free(&p->page);
        return wr_book_fail(book, "usage", result);
    }
    if (p->a->shape != JSON) {
        wr_page_free(&p->page); /* a line of CSV */
        return p->page.full ? 1 : 0;
    }
    wr_page_close(&p->page, ']');
    wr_page_close(&p->page, '}');
    return wr_book_print_page(&p->page) ? 0 : 1;
}

/* A month that is not kept any more is no month in which nothing was used. */
static int note_gone(struct wr_book *book, const struct arguments *a)
{
    char date[16];
    int32_t last;
    int result = wr_report_gone(book->database, &last);

    if (result == 0 && (a->month || a->dated) && a->filter.first <= last)
        (void)fprintf(stderr,
                      "weir usage: windows that ended until %s may be missing: customers.keep\n",
                      wr_date_text(last, date, sizeof date));
    return result;
}

static int print_report(struct wr_book *book, const struct arguments *a)
{
    struct printing p = {.a = a};
    int result = note_gone(book, a);

    if (result != 0)
        return wr_book_fail(book, "usage", result);
    if (a->shape == CSV_LINES)
        (void)fputs(WR_USAGE_CSV_NAMES, stdout);
    else if (a->shape == JSON)
        begin_json(&p.page, "usage");
    if (a->days)
        result = wr_report_days(book->database, &a->filter, print_line, &p);
    else if (a->windows)
        result = wr_report_windows(book->database, &a->filter, print_line, &p);
    else if (a->top)
        result = wr_report_top(book->database, &a->filter, print_line, &p);
    else
        result = wr_report_totals(book->database, &a->filter, print_line, &p);
    return end_report(book, &p, result);
}

/* ---- one customer ---------------------------------------------------------------------------- */

static bool print_standing(void *context, const struct wr_standing *s)
{
    struct printing *p = context;
    char reset[40];

    if (p->a->shape == JSON) {
        wr_put_standing(&p->page, s);
    } else {
        (void)printf("  %-16s  %12" PRIu64 " of ", s->quota, s->used);
        if (s->limit < 0)
            (void)fputs("unlimited", stdout);
        else if (s->shared)
            (void)printf("%" PRId64 " that all nodes share (this node's part: the store knows all)",
                         s->limit);
        else
            (void)printf("%" PRId64 ", %" PRId64 " left", s->limit, s->remaining);
        if (s->over > 0)
            (void)printf(", %" PRIu64 " of them overage", s->over);
        (void)printf("; a %s in %s, next from %s\n", wr_per_text(s->per), s->zone,
                     wr_moment_words(s->end_ns, reset, sizeof reset));
    }
    return !ferror(stdout) && !p->page.full;
}

static int print_standings(struct wr_book *book, const struct arguments *a,
                           const struct wr_customer *customer)
{
    struct printing p = {.a = a};
    int result;

    if (a->shape == JSON) {
        wr_page_open(&p.page, '{');
        wr_page_key(&p.page, "customer");
        wr_put_customer(&p.page, book->policy, customer, book->now_ns);
        wr_page_key(&p.page, "quotas");
        wr_page_open(&p.page, '[');
    } else {
        wr_book_print_customer(book, customer);
    }
    result =
        wr_standing_each(book->database, book->policy, customer, book->now_ns, print_standing, &p);
    return end_report(book, &p, result);
}

/* ---- names ------------------------------------------------------------------------------------
 */

static bool not_found(const char *option, const char *what, const char *name)
{
    (void)fprintf(stderr, "weir usage: %s: there is no %s \"%s\"\n", option, what, name);
    return false;
}

static bool is_known(struct wr_book *book, const struct arguments *a)
{
    int quota = 1, tenant = 1;

    if (a->filter.quota != NULL)
        quota = wr_there_is_quota(book->database, book->policy, a->filter.quota);
    if (quota == 1 && a->filter.tenant != NULL)
        tenant = wr_there_is_tenant(book->database, a->filter.tenant);
    if (quota < 0 || tenant < 0)
        return wr_book_fail(book, "usage", quota < 0 ? quota : tenant) == 0;
    if (quota == 0)
        return not_found("--quota", "quota by customer called", a->filter.quota);
    return tenant == 1 || not_found("--tenant", "customer of a tenant called", a->filter.tenant);
}

static int report(struct wr_book *book, struct arguments *a)
{
    struct wr_customer customer;

    if (!is_known(book, a))
        return 1;
    a->filter.now_ns = book->now_ns;
    if (a->name_count == 1) {
        int result = wr_customer_find(book->database, a->names[0], &customer);
        if (result != 0)
            return wr_book_fail(book, "usage", result);
        a->filter.customer = customer.id;
        if (!asks_lines(a))
            return print_standings(book, a, &customer);
    }
    return print_report(book, a);
}

int wr_cmd_usage(int argc, char **argv)
{
    struct arguments a;
    struct wr_book book;
    int status = 1;

    if (!parse(&a, argc, argv)) {
        if (!a.complained)
            (void)fputs(usage, stderr);
        return 2;
    }
    if (a.help)
        return fputs(usage, stdout) == EOF;
    if (wr_book_open(&book, a.policy, false))
        status = a.verify ? wr_usage_verify(&book, a.names, a.name_count, a.shape == JSON)
                          : report(&book, &a);
    wr_book_close(&book);
    return fflush(stdout) == 0 ? status : 1;
}
