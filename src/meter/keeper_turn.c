/* keeper_turn.c - what the keeper does each time: people's changes into the map, what was used into
 * the database, and what follows of both (trials that end, upgrades). */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "meter/customers.h"
#include "meter/keeper_parts.h"
#include "meter/upgrade.h"

#define SCAN_EVERY_NS (60 * WR_NS_PER_S)
#define COUNT_EVERY_NS (15 * WR_NS_PER_S)
#define CHANGE_BATCHES                                                         \
    32U /* of a quota and a turn: others wait for the database between batches \
         */
#define SCAN_BATCHES 8U
#define PLANS_SAID_MAX 16U
#define LAST_WRITES 512U /* before another policy: of the largest room, all */

/* ---- the customers' file -------------------------------------------------------------------- */

int wr_keeper_apply_roster(struct wr_keeper *keeper, struct wr_database *database, int64_t now_ns,
                           struct wr_diag *diag)
{
    char who[WR_CUSTOMER_WHO_MAX];
    const struct wr_author author = {who, "", now_ns};
    const char *name = keeper->config->roster_name, *slash = strrchr(name, '/');
    struct wr_roster_done done;
    int result;

    (void)snprintf(who, sizeof who, "file:%.100s", slash != NULL ? slash + 1 : name);
    result = wr_roster_apply(keeper->config->roster, database, keeper->config->room, &author, diag,
                             &done);
    if (result == 0 && done.created + done.changed + done.ended > 0) {
        bool most = wr_roster_ends_most(done.ended, done.before);
        char text[128];
        (void)snprintf(text, sizeof text, "%llu created, %llu changed, %llu ended of %llu",
                       (unsigned long long)done.created, (unsigned long long)done.changed,
                       (unsigned long long)done.ended, (unsigned long long)done.before);
        keeper->say(keeper->context, most ? WR_KEEPER_WARNING : WR_KEEPER_INFO,
                    most ? "the customers' file was applied, and most of its customers have ended"
                         : "the customers' file was applied",
                    text);
    }
    return result;
}

/* What a look at it beforehand did not show: somebody else was given a key meanwhile. */
static int apply_roster(struct wr_keeper *keeper, int64_t now_ns)
{
    struct wr_diag diag;
    int result;

    if (!keeper->roster_pending)
        return 0;
    wr_diag_init(&diag, keeper->config->roster_name);
    result = wr_keeper_apply_roster(keeper, keeper->database, now_ns, &diag);
    keeper->roster_pending = result != 0 && result != WEIR_EPOLICY;
    for (size_t i = 0; result == WEIR_EPOLICY && i < diag.kept; i++) {
        char text[WR_DIAG_TEXT_MAX + 32];
        (void)snprintf(text, sizeof text, "line %u: %s", diag.items[i].line, diag.items[i].text);
        keeper->say(keeper->context, WR_KEEPER_ERROR, "the customers' file was not applied", text);
    }
    return result == WEIR_EPOLICY ? 0 : result;
}

static void count(struct wr_keeper *keeper, uint64_t *of_state, uint64_t more)
{
    (void)pthread_mutex_lock(&keeper->mutex);
    *of_state += more;
    (void)pthread_mutex_unlock(&keeper->mutex);
}

/* ---- upgrades ------------------------------------------------------------------------------- */

static void set_flush(const struct wr_keeper *keeper, struct wr_flush *flush, int64_t now_ns)
{
    *flush = (struct wr_flush){.database = keeper->database,
                               .map = keeper->mirror.map,
                               .node = keeper->node,
                               .now_ns = now_ns,
                               .plan = keeper->config->plan,
                               .plan_count = keeper->config->plan_count,
                               .default_plan = keeper->config->default_plan,
                               .hooked = keeper->config->hooked};
}

/* What the customer has reached of the plan that he leaves is told. */
static int move_up(struct wr_keeper *keeper, uint32_t number, int64_t id, const char *plan,
                   const char *next, const struct wr_author *author)
{
    struct wr_flush flush;
    int result = 0;

    set_flush(keeper, &flush, author->now_ns);
    for (size_t i = 0; result == 0 && i < keeper->config->quota_count; i++)
        if (keeper->config->quota[i].alert.count > 0)
            result = wr_flush_one(&flush, &keeper->config->quota[i], number);
    if (result == 0)
        result = wr_customer_upgrade(keeper->database, id, plan, next, author);
    if (result == 0)
        count(keeper, &keeper->state.upgrades, 1);
    return result;
}

/* The wish is heard: whoever has it anew says so anew. */
static void take_wish(struct wr_keeper *keeper, uint32_t number, struct wr_customer_record *record)
{
    record->flags &= (uint8_t)~WR_CUSTOMER_WANTS_UPGRADE;
    (void)wr_customers_set(keeper->mirror.map, number, record, true);
}

/* The wish of customer |number| is dealt with. 0, or an error of the database. */
static int upgrade(struct wr_keeper *keeper, uint32_t number, int64_t now_ns)
{
    const struct wr_author author = {"weir", "a quota was used up", now_ns};
    struct wr_customer_record record;
    char plan[WR_CUSTOMER_PLAN_BYTES + 1];
    const char *next = NULL;
    int result;

    if (!wr_customers_get(keeper->mirror.map, number, &record))
        return 0;
    if (wr_customers_plan_name(keeper->mirror.map, wr_customer_plan_of(&record, now_ns), plan))
        next = wr_keeper_config_upgrade(keeper->config, plan);
    if (next == NULL) { /* the policy has become another */
        take_wish(keeper, number, &record);
        return 0;
    }
    result = keeper->config->confirm
                 ? wr_upgrade_ask(keeper->database, record.id, plan, next, &author)
                 : move_up(keeper, number, record.id, plan, next, &author);
    if (result == 0 && keeper->config->confirm)
        take_wish(keeper, number, &record);
    if (result == WEIR_EAGAIN || result == WEIR_ENOENT) /* changed meanwhile: the mirror sees it */
        return 0;
    if (result != 0)
        wr_customers_want(keeper->mirror.map, number, wr_customer_plan_of(&record, now_ns), now_ns);
    return result;
}

static int upgrade_all(struct wr_keeper *keeper, int64_t now_ns)
{
    uint32_t at = 0, number;
    bool any = false;
    int result = 0;

    while (result == 0 && wr_customers_wanting_next(keeper->mirror.map, &at, &number)) {
        result = upgrade(keeper, number, now_ns);
        any = true;
    }
    return result == 0 && any ? wr_mirror_changes(&keeper->mirror, keeper->database) : result;
}

static int end_trials(struct wr_keeper *keeper, int64_t now_ns)
{
    const struct wr_author author = {"weir", "the trial has ended", now_ns};
    int result = wr_customers_end_trials(keeper->database, &author);

    if (result > 0)
        count(keeper, &keeper->state.trials, (uint64_t)result);
    return result < 0 ? result : 0;
}

/* ---- the map -------------------------------------------------------------------------------- */

/* After the map: rows are found by the numbers that it has. */
static int restore(struct wr_keeper *keeper, int64_t now_ns)
{
    struct wr_flush flush;
    struct wr_kept *kept;
    int result = 0;

    set_flush(keeper, &flush, now_ns);
    for (size_t i = 0; result == 0 && (kept = wr_keeper_kept(keeper, i)) != NULL; i++)
        result = wr_keeper_restore_file(keeper, &flush, kept);
    return result;
}

static bool is_restored(struct wr_keeper *keeper)
{
    const struct wr_kept *kept;

    for (size_t i = 0; (kept = wr_keeper_kept(keeper, i)) != NULL; i++)
        if (!wr_usage_is_restored(kept->usage) || kept->older)
            return false;
    return true;
}

static void say_mirrored(struct wr_keeper *keeper)
{
    struct wr_mirror *mirror = &keeper->mirror;
    char text[96];

    if (mirror->recovered > 0) {
        (void)snprintf(text, sizeof text, "%llu", (unsigned long long)mirror->recovered);
        keeper->say(keeper->context, WR_KEEPER_WARNING,
                    "customers were put into the database that only customers.map knew", text);
    }
    if (mirror->damaged > 0) {
        (void)snprintf(text, sizeof text,
                       "%llu customers; it is put right from the database: look at its disk",
                       (unsigned long long)mirror->damaged);
        keeper->say(keeper->context, WR_KEEPER_ERROR, "customers.map was damaged", text);
    }
    if (mirror->left_out > 0 && !keeper->left_out_said) {
        (void)snprintf(text, sizeof text, "%llu changes; raise customers.room",
                       (unsigned long long)mirror->left_out);
        keeper->say(keeper->context, WR_KEEPER_ERROR, "customers.map is full", text);
        keeper->left_out_said = true;
    }
    mirror->recovered = mirror->damaged = 0;
}

/* While a map that is only behind is brought up by its changes, decisions need not wait for the
 * comparison of all of it. */
static int bring_up(struct wr_keeper *keeper, int64_t now_ns, bool starting)
{
    struct wr_flush flush;
    int result;

    set_flush(keeper, &flush, now_ns);
    result = wr_keeper_look_at_files(keeper, &flush);
    if (result == 0)
        result = keeper->mirrored || (starting && is_restored(keeper))
                     ? wr_mirror_changes(&keeper->mirror, keeper->database)
                     : WEIR_EAGAIN;
    if (result == WEIR_EAGAIN) {
        keeper->mirror.left_out = 0;
        result = wr_mirror_all(&keeper->mirror, keeper->database, now_ns);
        keeper->mirrored = result == 0;
        if (result == 0)
            result = restore(keeper, now_ns);
    }
    return result;
}

static int people(struct wr_keeper *keeper, int64_t now_ns, bool starting)
{
    uint64_t changed = keeper->mirror.changed, left_out = keeper->mirror.left_out;
    int result = apply_roster(keeper, now_ns);

    if (result == 0)
        result = end_trials(keeper, now_ns);
    if (result == 0)
        result = bring_up(keeper, now_ns, starting);
    if (result == 0)
        result = upgrade_all(keeper, now_ns);
    say_mirrored(keeper);
    keeper->recount =
        keeper->recount || keeper->mirror.changed != changed || keeper->mirror.left_out != left_out;
    return result;
}

/* ---- plans ---------------------------------------------------------------------------------- */

/* |context| is the keeper. */
static bool warn_of_plan(void *context, const char *plan, int64_t customers)
{
    struct wr_keeper *keeper = context;
    const struct wr_keeper_config *config = keeper->config;
    char text[WR_FAULT_TEXT_MAX];

    for (size_t i = 0; i < config->plan_count; i++)
        if (strcmp(config->plan[i], plan) == 0)
            return true;
    (void)snprintf(text, sizeof text,
                   "%s: %lld customers; the policy has no such plan, so the limits of %s hold",
                   plan, (long long)customers, config->plan[config->default_plan]);
    keeper->say(keeper->context, WR_KEEPER_WARNING, "customers have a plan that is none", text);
    return ++keeper->plans_said < PLANS_SAID_MAX;
}

/* Once for each policy; not while others wait for the start, as it looks at all customers. */
static int check_plans(struct wr_keeper *keeper)
{
    int result;

    if (!keeper->plans_pending)
        return 0;
    keeper->plans_said = 0;
    result = wr_customers_plans(keeper->database, warn_of_plan, keeper);
    keeper->plans_pending = result != 0;
    return result;
}

/* ---- usage ---------------------------------------------------------------------------------- */

static void begin_scan(struct wr_keeper *keeper, int64_t now_ns)
{
    struct wr_kept *kept;

    if (now_ns < keeper->scan_ns && now_ns >= keeper->scan_ns - SCAN_EVERY_NS)
        return;
    keeper->scan_ns = now_ns + SCAN_EVERY_NS;
    for (size_t i = 0; (kept = wr_keeper_kept(keeper, i)) != NULL; i++)
        kept->scanning = true;
}

/* 0: all is written; 1: there is more; or an error of the database. */
static int write_usage(struct wr_keeper *keeper, int64_t now_ns)
{
    struct wr_flush flush;
    struct wr_kept *kept;
    uint64_t lost = 0;
    bool more = false;
    int result = 0;

    set_flush(keeper, &flush, now_ns);
    begin_scan(keeper, now_ns);
    for (size_t i = 0; result >= 0 && (kept = wr_keeper_kept(keeper, i)) != NULL; i++) {
        result = wr_flush_changes(&flush, kept, CHANGE_BATCHES);
        more = more || result == 1;
        if (result >= 0)
            result = wr_flush_scan(&flush, kept, SCAN_BATCHES);
        more = more || result == 1;
        lost += wr_usage_lost_units(kept->usage);
    }
    if (flush.stranger)
        keeper->mirrored = false; /* to be recovered */
    wr_keeper_say_damage(keeper);
    (void)pthread_mutex_lock(&keeper->mutex);
    keeper->state.batches += flush.batches;
    keeper->state.rows += flush.rows;
    keeper->state.lost = lost;
    (void)pthread_mutex_unlock(&keeper->mutex);
    return result < 0 ? result : more ? 1 : 0;
}

void wr_keeper_write_last(struct wr_keeper *keeper, int64_t now_ns)
{
    int result = keeper->database != NULL && keeper->mirrored ? 1 : 0;

    for (unsigned i = 0; result == 1 && i < LAST_WRITES; i++)
        result = write_usage(keeper, now_ns);
}

/* Looking at all cells is for when nobody else says how many there are. */
static void count_waiting(struct wr_keeper *keeper, int64_t now_ns)
{
    const struct wr_kept *kept;
    uint64_t waiting = 0;

    if (now_ns < keeper->wait_ns && now_ns >= keeper->wait_ns - COUNT_EVERY_NS)
        return;
    keeper->wait_ns = now_ns + COUNT_EVERY_NS;
    for (size_t i = 0; (kept = wr_keeper_kept(keeper, i)) != NULL; i++)
        if (kept->usage != NULL)
            waiting += wr_kept_waiting(kept, now_ns);
    (void)pthread_mutex_lock(&keeper->mutex);
    keeper->state.waiting = waiting;
    (void)pthread_mutex_unlock(&keeper->mutex);
}

static int count_customers(struct wr_keeper *keeper)
{
    int64_t customers = 0, keys = 0;
    uint64_t uncounted = 0;
    int result = 0;

    if (keeper->recount)
        result = wr_customers_count(keeper->database, &customers, &keys);
    if (result == 0 && keeper->recount)
        result = wr_keeper_count_uncounted(keeper, &uncounted);
    if (result == 0 && keeper->recount) {
        (void)pthread_mutex_lock(&keeper->mutex);
        keeper->state.customers = (uint64_t)customers;
        keeper->state.keys = (uint64_t)keys;
        keeper->state.left_out = keeper->mirror.left_out + uncounted;
        (void)pthread_mutex_unlock(&keeper->mutex);
        keeper->recount = false;
    }
    return result;
}

/* ---- a turn --------------------------------------------------------------------------------- */

int wr_keeper_turn(struct wr_keeper *keeper, int64_t now_ns, bool starting)
{
    int result;

    if (!wr_keeper_open(keeper, now_ns)) {
        wr_keeper_look_at_names(keeper);
        if (keeper->mirror.map != NULL)
            count_waiting(keeper, now_ns);
        return WEIR_EIO;
    }
    wr_keeper_look_at_names(keeper);
    result = people(keeper, now_ns, starting);
    if (result == 0)
        result = count_customers(keeper);
    if (result == 0 && !starting)
        result = check_plans(keeper);
    if (result == 0)
        result = write_usage(keeper, now_ns);
    if (result >= 0 && !starting) {
        int expired = wr_keeper_expire(keeper, now_ns);
        result = expired < 0 ? expired : result;
    }
    if (result < 0) {
        wr_keeper_trouble(keeper, wr_database_fault(keeper->database), now_ns);
        count_waiting(keeper, now_ns);
        return result;
    }
    wr_keeper_recovered(keeper, now_ns);
    wr_webhook_go(keeper->webhook);
    if (result == 0) {
        (void)pthread_mutex_lock(&keeper->mutex);
        keeper->state.flushed_ns = now_ns;
        keeper->state.waiting = 0;
        (void)pthread_mutex_unlock(&keeper->mutex);
        keeper->wait_ns = 0;
    }
    return result;
}
