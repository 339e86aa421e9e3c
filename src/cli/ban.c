/* ban.c - `weir ban` and `weir unban`: callers who are not served, in the arena that all processes
 * of the host share. Needs no daemon: it acts on the file itself.
 *
 * The policy is read for the arena's path and for the names of identities; nothing is decided, so
 * no limit of it is entered into the arena. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "doors/bans.h"
#include "lib/handle.h"

#define DEFAULT_POLICY "/etc/weir/policy.yaml"
#define ERRORS_BYTES 65536U
#define VALUE_BYTES 4096U

static const char ban_usage[] =
    "usage: weir ban [-c FILE] WHO [--for DURATION | --until MOMENT] [--reason TEXT]\n"
    "       weir ban [-c FILE] --list [--json]\n"
    "\n"
    "Ban a caller: every process that uses the arena of the policy in FILE (" DEFAULT_POLICY ")\n"
    "refuses him from now on, through restarts and reloads; one who is banned gets the new end "
    "and\n"
    "reason. WHO is one of\n"
    "\n"
    "  --ip ADDRESS            an address or a network: 192.0.2.7, 192.0.2.0/24, 2001:db8::/32\n"
    "  --identity NAME=VALUE   a value of an identity of the policy; VALUE - is read from "
    "standard\n"
    "                          input, so that a secret is in no list of processes\n"
    "\n"
    "      --for DURATION      90s, 15m, 1h, 7d; default: for ever\n"
    "      --until MOMENT      2026-12-01T08:00:00Z\n"
    "      --reason TEXT       for those who read the list\n"
    "      --everyone          says that 0.0.0.0/0 or ::/0 is meant\n"
    "  -l, --list              who is banned, those banned last first\n"
    "  -j, --json              one JSON object\n"
    "  -c, --config FILE       the policy\n"
    "      --arena FILE        the arena, where the policy does not name it\n"
    "  -h, --help              this text\n"
    "\n"
    "Exit status: 0 done, 1 could not be done, 2 wrong usage.\n";

static const char unban_usage[] =
    "usage: weir unban [-c FILE] (--ip ADDRESS | --identity NAME=VALUE | --id ID | --all)\n"
    "\n"
    "Lift a ban made by `weir ban` or the admin door; those of the policy's own list are lifted "
    "there.\n"
    "A network's ban is not lifted by an address in it.\n"
    "\n"
    "      --ip ADDRESS            as it was banned\n"
    "      --identity NAME=VALUE   as it was banned; VALUE - is read from standard input\n"
    "      --id ID                 of `weir ban --list`\n"
    "      --all                   every one\n"
    "  -c, --config FILE           the policy; default: " DEFAULT_POLICY "\n"
    "      --arena FILE            the arena, where the policy does not name it\n"
    "  -h, --help                  this text\n"
    "\n"
    "Exit status: 0 done, 1 could not be done, 2 wrong usage.\n";

/* ---- arguments ----------------------------------------------------------------------------- */

enum { IP = 256, IDENTITY, LASTS, UNTIL, REASON, ARENA, ID, ALL, EVERYONE };

struct arguments {
    const char *policy, *arena;
    struct weir_slice identity, value; /* ptr NULL: not given */
    struct weir_slice lasts, until, reason;
    const char *id;
    bool list, json, all, everyone, help;
    unsigned callers;
    char buffer[VALUE_BYTES]; /* a value from standard input */
};

static struct weir_slice text_of(const char *text)
{
    return (struct weir_slice){text, strlen(text)};
}

/* The first line of standard input. */
static bool read_value(struct arguments *a)
{
    if (fgets(a->buffer, (int)sizeof a->buffer, stdin) == NULL)
        a->buffer[0] = '\0';
    a->value = (struct weir_slice){a->buffer, strcspn(a->buffer, "\r\n")};
    if (a->value.len + 1 < sizeof a->buffer)
        return true;
    (void)fprintf(stderr, "--identity: the value is longer than %u bytes\n", VALUE_BYTES - 2);
    return false;
}

static bool read_identity(struct arguments *a, const char *text)
{
    const char *equals = strchr(text, '=');

    if (equals == NULL) {
        (void)fprintf(stderr, "--identity: expected NAME=VALUE\n");
        return false;
    }
    a->identity = (struct weir_slice){text, (size_t)(equals - text)};
    a->value = text_of(equals + 1);
    return strcmp(equals + 1, "-") != 0 || read_value(a);
}

static bool take(struct arguments *a, int option)
{
    struct weir_slice *text = option == LASTS   ? &a->lasts
                              : option == UNTIL ? &a->until
                                                : &a->reason;

    a->callers += option == IP || option == IDENTITY || option == ID || option == ALL;
    if (option == 'c')
        a->policy = optarg;
    else if (option == ARENA)
        a->arena = optarg;
    else if (option == 'l')
        a->list = true;
    else if (option == 'j')
        a->json = true;
    else if (option == 'h')
        a->help = true;
    else if (option == EVERYONE)
        a->everyone = true;
    else if (option == ALL)
        a->all = true;
    else if (option == ID)
        a->id = optarg;
    else if (option == LASTS || option == UNTIL || option == REASON)
        *text = text_of(optarg);
    else if (option == IDENTITY)
        return read_identity(a, optarg);
    else if (option == IP) {
        a->identity = text_of("ip");
        a->value = text_of(optarg);
    } else {
        return false;
    }
    return true;
}

static bool parse(struct arguments *a, int argc, char **argv, struct wr_options reading)
{
    int option;

    memset(a, 0, sizeof *a);
    a->policy = DEFAULT_POLICY;
    while ((option = wr_options_next(&reading, argc, argv)) != -1)
        if (!take(a, option))
            return false;
    return optind == argc && a->callers <= 1 && !(a->lasts.ptr != NULL && a->until.ptr != NULL);
}

/* ---- the arena ----------------------------------------------------------------------------- */

struct place {
    struct weir weir; /* without an engine: nothing is decided */
    struct wr_diag diag;
    char errors[ERRORS_BYTES];
};

static int fail(struct place *place)
{
    (void)wr_diag_format(&place->diag, place->errors, sizeof place->errors);
    (void)fputs(place->errors, stderr);
    return 1;
}

static int open_place(struct place *place, const struct arguments *a)
{
    struct wr_arena_options options = {.must_exist = true, .judge = wr_engine_judge};

    memset(&place->weir, 0, sizeof place->weir);
    wr_diag_init(&place->diag, a->policy);
    if (wr_policy_load(&place->weir.policy, a->policy, &place->diag) != 0)
        return fail(place);
    options.path = a->arena != NULL ? a->arena : wr_policy_settings(place->weir.policy)->arena_path;
    if (options.path == NULL) {
        (void)fprintf(
            stderr, "%s: names no arena: give --arena FILE; docs/nginx.md says where nginx's is\n",
            a->policy);
        return 1;
    }
    wr_diag_init(&place->diag, options.path);
    return wr_arena_open(&place->weir.arena, &options, &place->diag) != 0 ? fail(place) : 0;
}

static void close_place(struct place *place)
{
    wr_arena_close(place->weir.arena);
    wr_policy_free(place->weir.policy);
    free(place);
}

/* ---- ban ----------------------------------------------------------------------------------- */

static void print_ban(const struct weir_banned *ban, struct wr_ban_clock clock)
{
    char id[WR_BAN_ID_MAX], since[WR_LOGTIME_TEXT_MAX], until[WR_LOGTIME_TEXT_MAX] = "for ever";

    wr_ban_id_write(ban->id, id);
    wr_ban_moment(ban->since_ns, clock, since);
    if (ban->until_ns != WEIR_BAN_FOREVER)
        wr_ban_moment(ban->until_ns, clock, until);
    (void)printf("%s  %-24s  %-24s  %s%s%s%s%s\n", id, since, until, ban->identity,
                 ban->value[0] != '\0' ? " " : "", ban->value, ban->reason[0] != '\0' ? "  " : "",
                 ban->reason);
}

static int print_json(const struct weir *w, const struct weir_banned *list, size_t count,
                      struct wr_ban_clock clock)
{
    struct wr_page page = {.full = false};
    struct weir_slice text;
    bool done;

    wr_page_open(&page, '{');
    wr_page_key(&page, "bans");
    wr_page_open(&page, '[');
    for (size_t i = 0; i < count; i++)
        wr_put_ban(&page, &list[i], clock);
    wr_page_close(&page, ']');
    wr_page_key(&page, "room");
    wr_page_uint(&page, wr_ban_left_over(w, count));
    wr_page_close(&page, '}');
    text = wr_page_text(&page);
    done = !page.full && fwrite(text.ptr, 1, text.len, stdout) == text.len && putchar('\n') != EOF;
    wr_page_free(&page);
    return done ? 0 : 1;
}

static int list_bans(struct weir *w, bool json)
{
    struct wr_ban_clock clock = wr_ban_clock_now(w);
    size_t count;
    struct weir_banned *list = wr_ban_list(w, clock.arena_ns, &count);
    int status = 0;

    if (list == NULL)
        return 1;
    if (json)
        status = print_json(w, list, count, clock);
    for (size_t i = 0; i < count && !json; i++)
        print_ban(&list[i], clock);
    free(list);
    return status;
}

static int ban(struct weir *w, const struct arguments *a)
{
    struct weir_ban_order order = {.identity = a->identity, .value = a->value, .reason = a->reason};
    struct wr_ban_clock clock = wr_ban_clock_now(w);
    const char *wrong = wr_ban_end(a->lasts, a->until, clock, &order.until_ns);
    struct weir_banned made;
    int result;

    if (wrong != NULL) {
        (void)fprintf(stderr, "%s: %s\n", a->lasts.ptr != NULL ? "--for" : "--until", wrong);
        return 1;
    }
    if (wr_ban_is_everyone(&order) && !a->everyone) {
        (void)fprintf(stderr, "--ip: this bans every caller; --everyone says that it is meant\n");
        return 1;
    }
    result = weir_ban(w, &order, clock.arena_ns, &made);
    if (result != 0) {
        (void)fprintf(stderr, "weir ban: %s\n", wr_ban_refusal(result, &order));
        return 1;
    }
    if (a->json)
        return print_json(w, &made, 1, clock);
    print_ban(&made, clock);
    return 0;
}

/* A list has nobody to be banned, until when and why. */
static bool is_whole_ban(const struct arguments *a)
{
    if (!a->list)
        return a->callers == 1;
    return a->callers == 0 && a->lasts.ptr == NULL && a->until.ptr == NULL &&
           a->reason.ptr == NULL && !a->everyone;
}

int wr_cmd_ban(int argc, char **argv)
{
    static const struct option options[] = {{"config", required_argument, NULL, 'c'},
                                            {"arena", required_argument, NULL, ARENA},
                                            {"ip", required_argument, NULL, IP},
                                            {"identity", required_argument, NULL, IDENTITY},
                                            {"for", required_argument, NULL, LASTS},
                                            {"until", required_argument, NULL, UNTIL},
                                            {"reason", required_argument, NULL, REASON},
                                            {"everyone", no_argument, NULL, EVERYONE},
                                            {"list", no_argument, NULL, 'l'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct arguments a;
    struct place *place;
    int status;

    if (!parse(&a, argc, argv, (struct wr_options){.shorts = "c:ljh", .longs = options}) ||
        (!a.help && !is_whole_ban(&a))) {
        (void)fputs(ban_usage, stderr);
        return 2;
    }
    if (a.help)
        return fputs(ban_usage, stdout) == EOF;
    place = calloc(1, sizeof *place);
    if (place == NULL)
        return 1;
    status = open_place(place, &a);
    if (status == 0)
        status = a.list ? list_bans(&place->weir, a.json) : ban(&place->weir, &a);
    close_place(place);
    return fflush(stdout) == 0 ? status : 1;
}

/* ---- unban --------------------------------------------------------------------------------- */

static int lift_all(struct weir *w)
{
    int64_t now = weir_now(w);
    size_t count;
    struct weir_banned *list = wr_ban_list(w, now, &count);
    int result = list == NULL ? WEIR_ENOMEM : 0;

    for (size_t i = 0; i < count && result == 0; i++) {
        result = weir_unban_id(w, list[i].id, now);
        if (result == WEIR_ENOENT) /* lifted by somebody else */
            result = 0;
    }
    free(list);
    return result;
}

static int lift(struct weir *w, const struct arguments *a)
{
    const struct weir_ban_order order = {.identity = a->identity, .value = a->value};
    uint64_t id;
    int result;

    if (a->all)
        result = lift_all(w);
    else if (a->id != NULL)
        result =
            wr_ban_id_read(text_of(a->id), &id) ? weir_unban_id(w, id, weir_now(w)) : WEIR_ENOENT;
    else
        result = weir_unban(w, a->identity, a->value, weir_now(w));
    if (result != 0)
        (void)fprintf(stderr, "weir unban: %s\n",
                      result == WEIR_ENOENT ? "there is no such ban"
                                            : wr_ban_refusal(result, &order));
    return result == 0 ? 0 : 1;
}

int wr_cmd_unban(int argc, char **argv)
{
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'}, {"arena", required_argument, NULL, ARENA},
        {"ip", required_argument, NULL, IP},      {"identity", required_argument, NULL, IDENTITY},
        {"id", required_argument, NULL, ID},      {"all", no_argument, NULL, ALL},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
    struct arguments a;
    struct place *place;
    int status;

    if (!parse(&a, argc, argv, (struct wr_options){.shorts = "c:h", .longs = options}) ||
        (!a.help && a.callers != 1)) {
        (void)fputs(unban_usage, stderr);
        return 2;
    }
    if (a.help)
        return fputs(unban_usage, stdout) == EOF;
    place = calloc(1, sizeof *place);
    if (place == NULL)
        return 1;
    status = open_place(place, &a);
    if (status == 0)
        status = lift(&place->weir, &a);
    close_place(place);
    return status;
}
