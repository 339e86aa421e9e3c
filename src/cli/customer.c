/* customer.c - `weir customer`: who the customers are, and what is changed about them.
 *
 * It acts on the database itself; a running daemon sees each change within customers.flush. Keys
 * are taken from standard input or made here, and printed once: the database has their digests. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/customer_args.h"
#include "meter/known.h"

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
    "  hash                 --value: the key as customers.file has it, without the key itself\n"
    "  recover              begin a database in place of one that was lost or set aside, from "
    "what\n"
    "                       customers.map knows; a copy put in its place is better\n"
    "\n"
    "      --plan PLAN          a plan of the policy\n"
    "      --tenant TEXT        whom it belongs to\n"
    "      --anchor DAY         day of the month its billing months begin on, 1 to 31; or none\n"
    "      --partner yes|no     verified\n"
    "      --suspended yes|no   it is refused meanwhile, as a banned caller is\n"
    "      --trial PLAN         this plan until --until DAY (or moment), or --for DURATION; - ends "
    "a "
    "trial\n"
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

/* ---- keys ------------------------------------------------------------------------------------ */

static const char *identity_of(const struct wr_book *book, const struct wr_customer_args *a)
{
    const char *name = wr_customer_given(a, WR_ARG_IDENTITY);

    if (name == NULL)
        return book->customers->by[0];
    for (unsigned i = 0; i < book->customers->by_count; i++)
        if (strcmp(book->customers->by[i], name) == 0)
            return name;
    (void)wr_customer_complain("--identity", "a name of customers.by");
    return NULL;
}

/* The key that is given, read, or made. NULL: said. |*made|: it is to be printed. */
static const char *value_of(const struct wr_customer_args *a, char *buffer, size_t size, bool *made)
{
    const char *value = wr_customer_given(a, WR_ARG_VALUE);

    *made = value == NULL;
    if (*made) {
        if (wr_key_make(wr_customer_given(a, WR_ARG_PREFIX) != NULL
                            ? wr_customer_given(a, WR_ARG_PREFIX)
                            : "",
                        buffer) != 0) {
            (void)wr_customer_complain("--prefix", "up to 32 of A-Z a-z 0-9 _ -");
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

/* A key that is to be added. */
struct new_key {
    char buffer[WR_KEY_VALUE_MAX + 3];
    const char *identity, *value;
    bool made; /* it is to be printed, once it is there */
};

/* Read or make it, before anything is locked. False: said why not. */
static bool get_key(struct wr_book *book, const struct wr_customer_args *a, struct new_key *key)
{
    key->identity = identity_of(book, a);
    key->value =
        key->identity != NULL ? value_of(a, key->buffer, sizeof key->buffer, &key->made) : NULL;
    return key->value != NULL;
}

/* 0 or what the database said. */
static int put_key(struct wr_book *book, const struct wr_customer_args *a, int64_t customer,
                   const struct new_key *key)
{
    struct wr_author author = wr_customer_author(book, a);
    struct wr_customer_key added;

    return wr_customer_add_key(
        book->database, customer, (struct weir_slice){key->identity, strlen(key->identity)},
        (struct weir_slice){key->value, strlen(key->value)}, &author, &added);
}

static int add_key(struct wr_book *book, const struct wr_customer_args *a, int64_t customer)
{
    struct new_key key;
    int result;

    if (!get_key(book, a, &key))
        return 1;
    result = put_key(book, a, customer, &key);
    if (result != 0)
        return wr_book_fail(book, "customer", result);
    if (key.made)
        (void)printf("%s\n", key.value);
    return 0;
}

/* A key as a roster has it (meter/roster.h). */
static int print_hash(const struct wr_book *book, const struct wr_customer_args *a)
{
    char buffer[WR_KEY_VALUE_MAX + 3];
    const char *identity = identity_of(book, a), *value;
    unsigned char digest[WR_SHA256_BYTES];
    size_t len;
    bool made;

    value = identity != NULL ? value_of(a, buffer, sizeof buffer, &made) : NULL;
    if (value == NULL)
        return 1;
    len = strlen(value);
    if (len == 0 || len > WR_KEY_VALUE_MAX)
        return wr_customer_complain("--value", "a key of 1 to 1024 bytes");
    wr_customer_digest((struct weir_slice){identity, strlen(identity)},
                       (struct weir_slice){value, len}, digest); /* whole */
    (void)printf("{identity: %s, sha256: ", identity);
    for (size_t i = 0; i < sizeof digest; i++)
        (void)printf("%02x", digest[i]);
    (void)puts("}");
    return 0;
}

static int revoke_key(struct wr_book *book, const struct wr_customer_args *a, int64_t customer)
{
    struct wr_author author = wr_customer_author(book, a);
    struct wr_customer_key key;
    int result;

    result = wr_customer_find_key(book->database, customer, a->more, &key);
    if (result == 0)
        result = wr_customer_revoke_key(book->database, key.digest, &author);
    return result == 0 ? 0 : wr_book_fail(book, "customer", result);
}

/* ---- actions --------------------------------------------------------------------------------- */

struct printing {
    const struct wr_book *book;
    bool json;
    struct wr_page page;
};

static bool print_one(void *context, const struct wr_customer *customer)
{
    struct printing *p = context;

    if (p->json)
        wr_put_customer(&p->page, p->book->policy, customer, p->book->now_ns);
    else
        wr_book_print_customer(p->book, customer);
    return !ferror(stdout) && !p->page.full;
}

static bool print_key(void *context, const struct wr_customer_key *key)
{
    struct printing *p = context;

    if (p->json)
        wr_put_key(&p->page, key);
    else
        wr_book_print_key(key);
    return !ferror(stdout);
}

static bool print_audit(void *context, const struct wr_audit *audit)
{
    struct printing *p = context;

    if (p->json)
        wr_put_audit(&p->page, audit);
    else
        wr_book_print_audit(audit);
    return !ferror(stdout);
}

static void begin(struct printing *p, const char *member)
{
    if (!p->json)
        return;
    wr_page_open(&p->page, '{');
    wr_page_key(&p->page, member);
    wr_page_open(&p->page, '[');
}

static int end_printing(struct wr_book *book, struct printing *p, int result)
{
    if (result != 0) {
        wr_page_free(&p->page);
        return wr_book_fail(book, "customer", result);
    }
    if (!p->json)
        return 0;
    wr_page_close(&p->page, ']');
    wr_page_close(&p->page, '}');
    return wr_book_print_page(&p->page) ? 0 : 1;
}

/* A slip in a name is no list of nobody. */
static bool is_known(struct wr_book *book, const struct wr_customer_args *a)
{
    const char *plan = wr_customer_given(a, WR_ARG_PLAN);
    const char *tenant = wr_customer_given(a, WR_ARG_TENANT);
    int result = plan != NULL ? wr_there_is_plan(book->database, book->policy, plan) : 1;

    if (result == 0)
        (void)fprintf(stderr, "weir customer: --plan: there is no plan \"%s\"\n", plan);
    if (result == 1 && tenant != NULL) {
        result = wr_there_is_tenant(book->database, tenant);
        if (result == 0)
            (void)fprintf(stderr,
                          "weir customer: --tenant: there is no customer of a tenant called "
                          "\"%s\"\n",
                          tenant);
    }
    if (result < 0)
        (void)wr_book_fail(book, "customer", result);
    return result == 1;
}

static int list(struct wr_book *book, const struct wr_customer_args *a)
{
    const struct wr_customer_filter filter = {.plan = wr_customer_given(a, WR_ARG_PLAN),
                                              .tenant = wr_customer_given(a, WR_ARG_TENANT),
                                              .with_ended =
                                                  wr_customer_given(a, WR_ARG_ALL) != NULL};
    struct printing p = {.book = book, .json = a->json};

    if (!is_known(book, a))
        return 1;
    begin(&p, "customers");
    return end_printing(book, &p, wr_customers_each(book->database, &filter, print_one, &p));
}

static int print_log(struct wr_book *book, const struct wr_customer_args *a, int64_t customer)
{
    struct printing p = {.json = a->json};

    begin(&p, "changes");
    return end_printing(book, &p, wr_audit_each(book->database, customer, 0, print_audit, &p));
}

static int show(struct wr_book *book, const struct wr_customer_args *a,
                const struct wr_customer *customer)
{
    struct printing p = {.book = book, .json = a->json};
    int result;

    if (p.json) {
        wr_page_open(&p.page, '{');
        wr_page_key(&p.page, "customer");
    }
    (void)print_one(&p, customer);
    if (p.json) {
        wr_page_key(&p.page, "keys");
        wr_page_open(&p.page, '[');
    }
    result = wr_customer_keys(book->database, customer->id, print_key, &p);
    if (p.json) {
        wr_page_close(&p.page, ']');
        wr_page_key(&p.page, "changes");
        wr_page_open(&p.page, '[');
    }
    if (result == 0)
        result = wr_audit_each(book->database, customer->id, 0, print_audit, &p);
    return end_printing(book, &p, result);
}

/* Customer and key are made together or not at all. */
static int create(struct wr_book *book, const struct wr_customer_args *a)
{
    bool with_key =
        wr_customer_given(a, WR_ARG_KEY) != NULL || wr_customer_given(a, WR_ARG_VALUE) != NULL;
    struct new_key key = {.made = false};
    struct wr_author author = wr_customer_author(book, a);
    struct wr_customer_change c;
    const struct wr_customers_place place =
        wr_customers_place_for(book->database, book->customers->room);
    struct wr_customer_new made = {.name = a->name, .first = place.first, .room = place.room};
    struct wr_customer customer;
    int result;

    if (wr_customer_read_change(book, a, &c) != 0)
        return 1;
    made.plan = c.plan != NULL ? c.plan
                               : wr_policy_plan(book->policy, wr_policy_default_plan(book->policy));
    made.tenant = c.tenant;
    made.anchor = (uint8_t)(c.anchor > 0 ? c.anchor : 0);
    made.partner = c.partner == 1;
    made.suspended = c.suspended == 1;
    made.trial_plan = c.trial_plan;
    made.trial_until_ns = c.trial_until_ns;
    if (with_key && !get_key(book, a, &key))
        return 1;
    result = wr_database_begin(book->database);
    if (result != 0)
        return wr_book_fail(book, "customer", result);
    result = wr_customer_create(book->database, &made, &author, &customer);
    if (result == 0 && with_key)
        result = put_key(book, a, customer.id, &key);
    if (result == 0)
        result = wr_database_commit(book->database);
    else
        wr_database_rollback(book->database);
    if (result != 0)
        return wr_book_fail(book, "customer", result);
    if (key.made)
        (void)printf("%s\n", key.value);
    return 0;
}

static int set(struct wr_book *book, const struct wr_customer_args *a, int64_t id)
{
    struct wr_author author = wr_customer_author(book, a);
    struct wr_customer_change change;
    struct wr_customer customer;
    struct printing p = {.book = book, .json = a->json};
    int result;

    if (wr_customer_read_change(book, a, &change) != 0)
        return 1;
    result = wr_customer_change(book->database, id, &change, &author, &customer);
    if (result != 0)
        return wr_book_fail(book, "customer", result);
    (void)print_one(&p, &customer);
    return !p.json || wr_book_print_page(&p.page) ? 0 : 1;
}

/* With the customer called a->name. */
static int act_on(struct wr_book *book, const struct wr_customer_args *a)
{
    struct wr_author author = wr_customer_author(book, a);
    struct wr_customer customer;
    int result = wr_customer_find(book->database, a->name, &customer);

    if (result != 0)
        return wr_book_fail(book, "customer", result);
    if (wr_customer_acts(a, "show"))
        return show(book, a, &customer);
    if (wr_customer_acts(a, "set"))
        return set(book, a, customer.id);
    if (wr_customer_acts(a, "key-add"))
        return add_key(book, a, customer.id);
    if (wr_customer_acts(a, "key-revoke"))
        return revoke_key(book, a, customer.id);
    if (wr_customer_acts(a, "log"))
        return print_log(book, a, customer.id);
    result = wr_customer_acts(a, "end") ? wr_customer_end(book->database, customer.id, &author)
                                        : wr_customer_resume(book->database, customer.id, &author);
    return result == 0 ? 0 : wr_book_fail(book, "customer", result);
}

/* A customers' file is written before there is a database. */
static int hash(const struct wr_customer_args *a)
{
    struct wr_book book;
    int status = wr_book_open_policy(&book, a->policy) ? print_hash(&book, a) : 1;

    wr_book_close(&book);
    return fflush(stdout) == 0 ? status : 1;
}

static int run(const struct wr_customer_args *a)
{
    struct wr_book book;
    int status = 1;

    if (wr_customer_acts(a, "recover"))
        return fflush(stdout) == 0 ? wr_book_recover(a->policy) : 1;
    if (wr_customer_acts(a, "hash"))
        return hash(a);
    if (wr_customer_acts(a, "create") ? wr_book_begin(&book, a->policy)
                                      : wr_book_open(&book, a->policy, wr_customer_writes(a))) {
        if (wr_customer_acts(a, "list"))
            status = list(&book, a);
        else if (wr_customer_acts(a, "create"))
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
    struct wr_customer_args a;

    if (!wr_customer_parse(&a, argc, argv)) {
        if (!a.complained)
            (void)fputs(usage, stderr);
        return 2;
    }
    if (a.help)
        return fputs(usage, stdout) == EOF;
    return run(&a);
}
