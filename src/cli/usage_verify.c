/* usage_verify.c - `weir usage --verify`: is the ledger sound, do the cells say the same, and what
 * do the ledgers of other nodes and the store add to it?
 *
 * Invariant: "sound" is said where all that was asked for was looked at. What could not be is said
 * on standard error, and then nothing is known of the whole. */
#include "cli/usage_verify.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/usage_store.h"
#include "meter/ledger.h"
#include "meter/report.h"
#include "policy/quota.h"

struct asked {
    char **names; /* databases of other nodes */
    int count;
    bool json;
};

static void say(void *context, const char *text)
{
    (void)fprintf(stderr, "%s: %s\n", (const char *)context, text);
}

static struct wr_database *open_other(const char *path)
{
    const struct wr_database_options options = {.path = path, .read_only = true};
    struct wr_database *database;
    struct wr_fault fault;

    if (wr_database_open(&database, &options, &fault) == 0)
        return database;
    wr_book_print_fault(path, fault.text);
    return NULL;
}

static int fail_other(struct wr_database *database, const char *path)
{
    wr_book_print_fault(path, wr_database_fault(database)->text);
    return 1;
}

/* databases[at], opened from |path|, is of nodes that none before it is of? */
static bool is_of_others(struct wr_database *const *databases, int at, const char *path)
{
    char node[128];

    for (int i = 0; i < at; i++) {
        if (databases[i] == NULL)
            continue;
        if (wr_verify_same_node(databases[at], databases[i], node, sizeof node) != 0)
            return fail_other(databases[at], path) == 0;
        if (node[0] == '\0')
            continue;
        (void)fprintf(stderr,
                      "%s: it is of node %s, as one before it is: the same database, or a copy. It "
                      "is left out\n",
                      path, node);
        return false;
    }
    return true;
}

/* The ledger of another node at databases[at]. */
static int verify_other(struct wr_database **databases, int at, char *path, struct wr_verify *sums)
{
    uint64_t repeated;

    databases[at] = open_other(path);
    if (databases[at] == NULL)
        return 1;
    if (!is_of_others(databases, at, path)) {
        wr_database_close(databases[at]);
        databases[at] = NULL;
        return 1;
    }
    if (wr_verify_database(databases[at], sums, say, path) != 0 ||
        wr_verify_repeated(databases[at], databases, (size_t)at, &repeated) != 0)
        return fail_other(databases[at], path);
    sums->customers -= repeated;
    return 0;
}

/* The policy's quotas that have files of usage. */
static size_t name_quotas(const struct wr_policy *policy, const char *out[WR_LEDGER_QUOTAS_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < wr_policy_limit_count(policy) && count < WR_LEDGER_QUOTAS_MAX; i++) {
        const struct wr_policy_limit *limit = wr_policy_limit(policy, i);
        if (limit->quota != NULL && limit->quota->exact)
            out[count++] = limit->name;
    }
    return count;
}

/* This node's ledger and cells, then the ledgers of the others, which are left open. */
static int verify_ledgers(struct wr_book *book, const struct asked *a,
                          struct wr_database **databases, struct wr_verify *sums)
{
    const char *quotas[WR_LEDGER_QUOTAS_MAX];
    const struct wr_verify_look look = {.directory = book->customers->directory,
                                        .now_ns = book->now_ns,
                                        .quotas = quotas,
                                        .quota_count = name_quotas(book->policy, quotas)};
    struct wr_verify cells = {.windows = 0};
    void *where = (void *)(uintptr_t)book->customers->directory;
    int result = wr_verify_database(book->database, sums, say, where), status = 0;

    if (result == 0)
        result = wr_verify_cells(book->database, &look, &cells, say, where);
    sums->wrong += cells.wrong; /* the same units, seen from the other side */
    sums->waiting = cells.waiting;
    if (result == WEIR_ENOENT)
        (void)fprintf(stderr, "%s: customers.map is not there: weir serve makes it\n",
                      book->customers->directory);
    if (result != 0)
        status = result == WEIR_ENOENT ? 1 : wr_book_fail(book, "usage", result);
    databases[0] = book->database;
    for (int i = 0; i < a->count; i++)
        status |= verify_other(databases, i + 1, a->names[i], sums);
    return status;
}

static void print_verified(const struct asked *a, const struct wr_verify *sums,
                           const struct wr_store_sums *store, bool whole)
{
    if (a->json) {
        (void)printf("{\"windows\":%" PRIu64 ",\"customers\":%" PRIu64 ",\"nodes\":%" PRIu64
                     ",\"used\":%" PRIu64 ",\"over\":%" PRIu64,
                     sums->windows, sums->customers, sums->nodes, sums->used, sums->over);
        if (store->asked)
            (void)printf(",\"store\":{\"windows\":%" PRIu64 ",\"counted\":%" PRIu64
                         ",\"ledgers\":%" PRIu64 ",\"fewer\":%" PRIu64 ",\"more\":%" PRIu64 "}",
                         store->windows, store->counted, store->ledgers, store->fewer, store->more);
        (void)printf(",\"not_flushed\":%" PRIu64 ",\"wrong\":%" PRIu64 "}\n", sums->waiting,
                     sums->wrong);
        return;
    }
    (void)printf("%s: %" PRIu64 " windows of %" PRIu64 " customers on %" PRIu64
                 " nodes; used %" PRIu64 ", overage %" PRIu64 "; %" PRIu64 " wrong\n",
                 sums->wrong > 0 ? "NOT SOUND"
                 : whole         ? "sound"
                                 : "NOT VERIFIED",
                 sums->windows, sums->customers, sums->nodes, sums->used, sums->over, sums->wrong);
    if (sums->waiting > 0)
        (void)printf("not flushed yet: %" PRIu64 " units are counted, and not in the ledger\n",
                     sums->waiting);
    if (store->asked)
        (void)printf("store: %" PRIu64 " windows of now; it counts %" PRIu64
                     ", the ledgers %" PRIu64 ": %" PRIu64 " fewer, %" PRIu64 " more\n",
                     store->windows, store->counted, store->ledgers, store->fewer, store->more);
}

int wr_usage_verify(struct wr_book *book, char **names, int count, bool json)
{
    const struct asked a = {names, count, json};
    struct wr_database **databases = calloc((size_t)count + 1, sizeof(struct wr_database *));
    struct wr_store_sums store = {.asked = false};
    struct wr_verify sums = {.windows = 0};
    int status;

    if (databases == NULL)
        return wr_book_fail(book, "usage", WEIR_ENOMEM);
    status = verify_ledgers(book, &a, databases, &sums);
    if (status == 0 && !wr_usage_store_verify(book, databases, (size_t)count + 1, &store))
        status = 1;
    sums.wrong += store.wrong;
    print_verified(&a, &sums, &store, status == 0);
    for (int i = 0; i < count; i++)
        if (databases[i + 1] != NULL)
            wr_database_close(databases[i + 1]);
    free(databases);
    return sums.wrong == 0 ? status : 1;
}
