/* customer.c - opening the files of customers and usage, and finding whose request it is.
 *
 * The daemon makes the files' folder and keeps them (weir serve); whoever comes first makes the
 * files. Where the folder cannot be made or used, nobody is known, which is said once when the
 * policy is opened; a file that is there and damaged is an error, as what it would take is a
 * person's decision.
 *
 * Invariants:
 *   1. A quota has cells in every process that knows customers, or in none: with a map and without
 *      its cells the policy is not opened.
 *   2. What is remembered of a plan's number is right for ever: names in the file never change, nor
 *      does the policy. */
#include "engine/customer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/ballot.h"
#include "policy/customers.h"
#include "policy/quota.h"

#define PATH_BYTES 4096
#define NO_PLAN 0xff
#define FOLDER_MODE 0770

static_assert(WR_KNOWN_BY == WR_CUSTOMERS_BY_MAX, "");
static_assert(WR_POLICY_PLANS_MAX < NO_PLAN, "a plan's number and one, in a byte");

static struct weir_slice slice_of(const char *text)
{
    return (struct weir_slice){text, strlen(text)};
}

/* ---- opening ------------------------------------------------------------------------------- */

/* What each plan includes of a quota. */
static int make_rules(struct wr_bound_limit *bound, size_t plans)
{
    const struct wr_policy_quota *quota = bound->policy->quota;

    bound->rules = calloc(plans, sizeof *bound->rules);
    if (bound->rules == NULL)
        return WEIR_ENOMEM;
    for (size_t plan = 0; plan < plans; plan++) {
        if (bound->policy->unlimited[plan])
            continue;
        bound->rules[plan] =
            (struct wr_quota_rule){.civil = quota->civil,
                                   .limit = quota->plan[plan].limit,
                                   .most = quota->plan[plan].most,
                                   .overage = quota->plan[plan].on_exceed == WR_EXCEED_OVERAGE};
    }
    return 0;
}

static int open_usage(struct wr_engine *engine, struct wr_bound_limit *bound, const char *directory,
                      struct wr_diag *diag)
{
    char path[PATH_BYTES];
    struct wr_usage_options options = {.path = path,
                                       .name = bound->policy->name,
                                       .room = wr_customers_room(engine->known->map),
                                       .per = bound->policy->quota->civil.per};
    bool shared = bound->policy->shared && engine->shares;
    struct wr_usage *usage;
    int rc;

    (void)snprintf(path, sizeof path, "%s/%s" WR_USAGE_SUFFIX, directory, bound->policy->name);
    diag->another = path;
    rc = wr_usage_open(&usage, &options, diag);
    diag->another = NULL;
    if (rc == 0)
        rc = make_rules(bound, wr_policy_plan_count(engine->policy));
    *(shared ? &bound->account : &bound->usage) = usage;
    if (rc == 0 && engine->known->prefetch_count < WR_KNOWN_PREFETCH)
        engine->known->prefetch[engine->known->prefetch_count++] = usage;
    return rc;
}

/* The cells of every quota that is billed on. */
static int open_usages(struct wr_engine *engine, const char *directory, struct wr_diag *diag)
{
    int rc = 0;

    for (size_t i = 0; i < engine->limit_count && rc == 0; i++) {
        const struct wr_policy_limit *policy = engine->limits[i].policy;
        if (policy->quota != NULL && policy->quota->exact)
            rc = open_usage(engine, &engine->limits[i], directory, diag);
    }
    return rc;
}

static int open_map(struct wr_known *known, const struct wr_known_place *place,
                    struct wr_diag *diag)
{
    const struct wr_policy_customers *customers = wr_policy_settings(known->policy)->customers;
    char path[PATH_BYTES];
    struct wr_customers_options options = {
        .path = path, .room = place->room, .writer = place->supposed};
    int rc;

    (void)snprintf(path, sizeof path, "%s/" WR_CUSTOMERS_NAME, place->directory);
    diag->another = path;
    rc = wr_customers_open(&known->map, &options, diag);
    diag->another = NULL;
    for (unsigned i = 0; rc == 0 && i < customers->by_count && i < WR_KNOWN_BY; i++)
        wr_customers_identity(known->map, slice_of(customers->by[i]),
                              &known->by[known->by_count++]);
    return rc;
}

/* Is there a folder for the files? Says why not. */
static bool have_folder(const char *directory, struct wr_diag *diag)
{
    if (mkdir(directory, FOLDER_MODE) == 0 || errno == EEXIST)
        return true;
    wr_diag_add(diag, WR_WARNING, 0, 0,
                "cannot be made: %s; no customer is known until it is there and the policy is "
                "loaded anew",
                strerror(errno));
    return false;
}

int wr_known_open(struct wr_engine *engine, const struct wr_known_place *place,
                  struct wr_diag *diag)
{
    int rc;

    engine->known = calloc(1, sizeof *engine->known);
    if (engine->known == NULL)
        return WEIR_ENOMEM;
    engine->known->policy = engine->policy;
    engine->known->supposed = place->supposed;
    rc = open_map(engine->known, place, diag);
    if (rc == 0)
        rc = open_usages(engine, place->directory, diag);
    if (rc != 0)
        wr_known_close(engine);
    return rc;
}

int wr_engine_open_customers(struct wr_engine *engine, struct wr_diag *diag)
{
    const struct wr_policy_customers *customers = wr_policy_settings(engine->policy)->customers;
    int rc;

    if (customers == NULL || customers->directory == NULL)
        return 0;
    diag->file = customers->directory;
    if (!have_folder(customers->directory, diag))
        return 0;
    rc = wr_known_open(
        engine,
        &(struct wr_known_place){.directory = customers->directory, .room = customers->room}, diag);
    if (rc == 0)
        engine->known->confirm = customers->confirm_upgrade.url != NULL;
    return rc;
}

void wr_known_close(struct wr_engine *engine)
{
    if (engine->known == NULL)
        return;
    for (size_t i = 0; i < engine->limit_count; i++) {
        wr_usage_close(engine->limits[i].usage);
        wr_usage_close(engine->limits[i].account);
        free(engine->limits[i].rules);
        engine->limits[i].usage = NULL;
        engine->limits[i].account = NULL;
        engine->limits[i].rules = NULL;
    }
    wr_customers_close(engine->known->map);
    free(engine->known);
    engine->known = NULL;
}

/* ---- finding ------------------------------------------------------------------------------- */

/* Trials end by the machine's clock. */
static int64_t civil_now(const struct wr_engine *engine, int64_t now)
{
    return wr_add_sat_i64(now, wr_arena_wall_ahead_ns(engine->arena));
}

struct finding {
    struct wr_known *known;
    int64_t now;
    bool is_guessed;
    struct wr_known_early early;
};

static void prefetch_cells(const struct wr_known *known, uint32_t number)
{
    for (unsigned i = 0; i < known->prefetch_count; i++)
        wr_usage_prefetch(known->prefetch[i], number);
}

/* And start fetching what it leads to. */
static uint32_t guess_of(const struct wr_known *known, uint64_t hash)
{
    uint32_t guess = wr_customers_guess(known->map, hash);

    if (guess != UINT32_MAX)
        prefetch_cells(known, guess);
    return guess;
}

/* Whether the value is believed is not asked: what is fetched in vain costs little. */
static struct weir_slice value_of(const struct wr_engine *engine,
                                  const struct weir_request *request)
{
    const struct wr_policy_customers *customers = wr_policy_settings(engine->policy)->customers;
    struct wr_selection as_if; /* of it only this is read */

    as_if.peer_trusted = true;
    return wr_policy_believed(engine->policy, request, &as_if, customers->identity[0]);
}

static void expect_value(const struct wr_known *known, struct weir_slice value,
                         struct wr_known_early *early)
{
    early->value = value;
    early->hash = wr_customers_hash(&known->by[0], value);
    wr_customers_prefetch(known->map, early->hash);
}

void wr_known_expect(const struct wr_engine *engine, const struct weir_request *request,
                     struct wr_known_early *early)
{
    const struct wr_known *known = engine->known;

    *early = (struct wr_known_early){.guess = UINT32_MAX};
    if (known == NULL || known->by_count == 0)
        return;
    early->value = value_of(engine, request);
    if (early->value.len > 0)
        expect_value(known, early->value, early);
}

void wr_known_guess(const struct wr_engine *engine, struct wr_known_early *early)
{
    if (early->value.len > 0)
        early->guess = guess_of(engine->known, early->hash);
}

static void expect(void *context, struct weir_slice value)
{
    struct finding *finding = context;

    if (finding->known->by_count > 0)
        expect_value(finding->known, value, &finding->early);
}

/* The guess at whose |value| is, and its hash. */
static uint32_t guess_at(const struct finding *finding, unsigned by, struct weir_slice value,
                         uint64_t *hash)
{
    const struct wr_known_early *early = &finding->early;
    const struct wr_known *known = finding->known;

    if (by == 0 && early->value.ptr == value.ptr && early->value.len == value.len) {
        *hash = early->hash;
        return finding->is_guessed ? early->guess : guess_of(known, *hash);
    }
    *hash = wr_customers_hash(&known->by[by], value);
    return guess_of(known, *hash);
}

static bool find(void *context, unsigned by, struct weir_slice value, struct wr_customer_seen *out)
{
    const struct finding *finding = context;
    struct wr_known *known = finding->known;
    struct wr_customer_record record;
    uint32_t guess, number;
    uint64_t hash;

    *out = (struct wr_customer_seen){0};
    if (by >= known->by_count)
        return false;
    guess = guess_at(finding, by, value, &hash);
    if (!wr_customers_find(known->map, &known->by[by], value, hash, guess, &number) &&
        (!known->supposed || !wr_known_suppose(known, by, value, &number)))
        return false;
    if (guess != number)
        prefetch_cells(known, number);
    if (!wr_customers_get(known->map, number, &record))
        return false;
    out->id = (uint64_t)record.id;
    out->number = number;
    out->file_plan = wr_customer_plan_of(&record, finding->now);
    out->anchor = record.anchor;
    out->flags = record.flags;
    return true;
}

static uint8_t look_plan_up(const struct wr_known *known, unsigned file_plan)
{
    char name[WR_CUSTOMER_PLAN_BYTES + 1];

    if (!wr_customers_plan_name(known->map, file_plan, name))
        return 0; /* not yet there */
    for (size_t i = 0; i < wr_policy_plan_count(known->policy); i++)
        if (strcmp(wr_policy_plan(known->policy, i), name) == 0)
            return (uint8_t)(i + 1);
    return NO_PLAN;
}

static int plan(void *context, unsigned file_plan)
{
    struct wr_known *known = ((const struct finding *)context)->known;
    uint8_t is;

    if (file_plan >= WR_CUSTOMER_PLANS)
        return -1;
    is = __atomic_load_n(&known->plan_of[file_plan], __ATOMIC_RELAXED);
    if (is == 0) {
        is = look_plan_up(known, file_plan);
        __atomic_store_n(&known->plan_of[file_plan], is, __ATOMIC_RELAXED);
    }
    return is == 0 || is == NO_PLAN ? -1 : is - 1;
}

void wr_known_select(struct wr_engine *engine, const struct weir_request *request, int64_t now,
                     const struct wr_known_early *early, struct wr_selection *out)
{
    struct finding finding = {
        engine->known, civil_now(engine, now), early != NULL, {.guess = UINT32_MAX}};
    const struct wr_customer_finder finder = {early == NULL ? expect : NULL, find, plan, &finding};

    if (early != NULL)
        finding.early = *early;
    wr_policy_select_with(engine->policy, request, engine->known != NULL ? &finder : NULL, out);
}

bool wr_known_find(struct wr_engine *engine, struct weir_slice value, int64_t now,
                   struct wr_customer_seen *out)
{
    struct finding finding = {.known = engine->known, .now = civil_now(engine, now)};

    *out = (struct wr_customer_seen){0};
    for (unsigned i = 0; engine->known != NULL && i < engine->known->by_count; i++)
        if (value.len > 0 && find(&finding, i, value, out))
            return true;
    return false;
}

int wr_known_plan(struct wr_engine *engine, const struct wr_customer_seen *customer)
{
    struct finding finding = {.known = engine->known};

    return engine->known != NULL ? plan(&finding, customer->file_plan) : -1;
}

bool wr_known_want(struct wr_engine *engine, const struct wr_customer_seen *customer, bool peek,
                   int64_t now)
{
    if (engine->known == NULL)
        return false;
    if (!peek)
        wr_customers_want(engine->known->map, customer->number, customer->file_plan,
                          civil_now(engine, now));
    if ((customer->flags & WR_CUSTOMER_WANTS_UPGRADE) != 0)
        return false; /* he has the next plan already, and one step is recorded at a time */
    return !engine->known->confirm;
}

bool wr_known_upgrade(struct wr_engine *engine, const struct wr_ballot *b,
                      const struct wr_selection *selection, int64_t now, struct weir_request *again)
{
    int plan = wr_ballot_upgrade(engine, b, selection);

    if (plan < 0 || engine->known == NULL)
        return false;
    if (engine->known->supposed)
        return wr_known_move(engine->known, selection, plan, again);
    again->plan = plan;
    return wr_known_want(engine, &selection->customer, again->peek, now);
}
