/* usage_store.c - the ledgers of all nodes beside the store's own count.
 *
 * Idea. The store is asked as a daemon asks it, by a look (a charge of no units) at each customer's
 * key under each shared quota. Its limit is the largest there can be, so that what remains of it
 * says what was used. Only the window that it is now can be compared: the store forgets the others.
 *
 * What the store counts and no ledger does is no mistake: units of leases that were not spent
 * (yet), that died with a node, or that a node has not flushed. What ledgers have that the store
 * does not is: it was let through while the store was gone, or the store has forgotten it. Nobody
 * can tell these apart afterwards, so it is said, and the exit status says that there is something
 * to look at.
 *
 * A ring is not asked: its counts lie in the nodes, and whoever asks there is a node. */
#include "cli/usage_store.h"

#include <inttypes.h>
#include <string.h>

#include "base/secret.h"
#include "base/units.h"
#include "engine/tag.h"
#include "meter/standing.h"
#include "remote/remote.h"

#define CONNECT_MS 5000
#define TRIES 3 /* of one question */

struct asking {
    const struct wr_book *book;
    struct wr_database *const *databases;
    size_t count, at; /* of databases; whose customers these are */
    struct wr_store_sums *out;
    uv_loop_t loop;
    uv_timer_t patience;
    bool late, answered, failed;
    struct wr_backend backend;
    struct wr_tag_base tags;
    enum wr_remote_result result;
};

/* ---- the store ------------------------------------------------------------------------------- */

static void on_late(uv_timer_t *timer)
{
    ((struct asking *)timer->data)->late = true;
}

static void on_left(void *context)
{
    (void)context;
}

static bool wait_for_store(struct asking *a)
{
    struct wr_backend_state state;

    (void)uv_timer_init(&a->loop, &a->patience);
    a->patience.data = a;
    (void)uv_timer_start(&a->patience, on_late, CONNECT_MS, 0);
    do {
        (void)uv_run(&a->loop, UV_RUN_ONCE);
        a->backend.ops->state(a->backend.context, &state);
    } while (!state.reachable && !a->late);
    uv_close((uv_handle_t *)&a->patience, NULL);
    if (!state.reachable)
        (void)fprintf(stderr, "the store cannot be asked: %s\n", state.detail);
    return state.reachable;
}

static bool read_secret(struct asking *a, const struct wr_policy_store *store)
{
    char why[WR_SECRET_ERROR_MAX];
    char *secret;

    if (store->secret_file == NULL) {
        const char *text = store->secret != NULL ? store->secret : "";
        wr_tag_base(&a->tags, text, strlen(text));
        return true;
    }
    secret = wr_secret_read(store->secret_file, &wr_secret_store, why, sizeof why);
    if (secret == NULL) {
        (void)fprintf(stderr, "%s\n", why);
        return false;
    }
    wr_tag_base(&a->tags, secret, strlen(secret));
    wr_secret_free(secret);
    return true;
}

/* Who looks is no node: it leaves the nodes before it is counted as one. */
static bool open_store(struct asking *a, const struct wr_policy_store *store)
{
    if (wr_remote_open(&a->backend, &a->loop, store) != 0) {
        (void)fprintf(stderr, "the store cannot be opened\n");
        return false;
    }
    if (a->backend.ops->leave != NULL)
        a->backend.ops->leave(a->backend.context, on_left, NULL);
    return wait_for_store(a);
}

static void close_store(struct asking *a)
{
    if (a->backend.ops != NULL)
        a->backend.ops->close(a->backend.context);
    (void)uv_run(&a->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&a->loop);
}

static void on_done(struct wr_remote_call *call, enum wr_remote_result result)
{
    struct asking *a = call->context;

    a->answered = true;
    a->result = result;
}

static bool look(struct asking *a, struct wr_remote_call *call)
{
    for (unsigned i = 0; i < TRIES; i++) {
        call->now_ns = a->book->now_ns;
        call->done = on_done;
        call->context = a;
        a->answered = false;
        a->backend.ops->take(a->backend.context, call);
        while (!a->answered)
            (void)uv_run(&a->loop, UV_RUN_ONCE);
        if (a->result == WR_REMOTE_DONE)
            return true;
    }
    (void)fprintf(stderr, "the store did not answer\n");
    return false;
}

/* What the store has counted of |quota| for the customer |id|. */
static bool count_at_store(struct asking *a, const struct wr_policy_limit *quota, int64_t id,
                           uint64_t *out)
{
    struct wr_remote_call call = {.count = 1};
    const struct wr_selected key = {.parts = 1,
                                    .part = {{{(const char *)&id, sizeof id}, WR_PART_CUSTOMER}}};
    struct wr_limit limit;

    *out = 0;
    if (wr_limit_make_civil(&limit, &quota->quota->civil, WR_CIVIL_UNITS_MAX, false) != NULL)
        return false;
    call.charge[0].limit = &limit;
    call.charge[0].name = quota->name;
    wr_tag_of(&a->tags, &key, call.charge[0].tag);
    if (!look(a, &call))
        return false;
    *out = (uint64_t)(WR_CIVIL_UNITS_MAX - call.charge[0].remaining);
    return true;
}

/* ---- the ledgers ----------------------------------------------------------------------------- */

static bool add_up(void *context, const struct wr_report_line *line)
{
    *(uint64_t *)context += line->used;
    return true;
}

static bool count_in_ledgers(struct asking *a, const struct wr_policy_limit *quota, int64_t id,
                             int32_t day, uint64_t *out)
{
    const struct wr_report_filter filter = {.customer = id,
                                            .quota = quota->name,
                                            .per = quota->quota->civil.per,
                                            .first = day,
                                            .last = day,
                                            .by_start = true};

    *out = 0;
    for (size_t i = 0; i < a->count; i++)
        if (wr_report_windows(a->databases[i], &filter, add_up, out) != 0) {
            (void)fprintf(stderr, "%s\n", wr_database_fault(a->databases[i])->text);
            return false;
        }
    return true;
}

/* ---- both ------------------------------------------------------------------------------------ */

static void say_difference(const struct wr_customer *customer, const char *quota, uint64_t counted,
                           uint64_t ledgers)
{
    (void)fprintf(stderr, "customer %s, %s: the store counts %" PRIu64 ", the ledgers %" PRIu64,
                  customer->name, quota, counted, ledgers);
    if (ledgers < counted)
        (void)fprintf(stderr,
                      ": %" PRIu64 " lie in leases, ran out with one, died with a node, or are not "
                      "flushed yet\n",
                      counted - ledgers);
    else
        (void)fprintf(stderr,
                      ": %" PRIu64 " more, let through while it was gone, or it forgot them\n",
                      ledgers - counted);
}

static bool compare(struct asking *a, const struct wr_policy_limit *quota,
                    const struct wr_customer *customer)
{
    const struct wr_civil_window window =
        wr_civil_at(&quota->quota->civil, wr_moment_ns(a->book->now_ns));
    struct wr_store_sums *out = a->out;
    uint64_t counted, ledgers;

    if (!count_at_store(a, quota, customer->id, &counted) ||
        !count_in_ledgers(a, quota, customer->id, window.day, &ledgers))
        return false;
    out->windows++;
    out->counted += counted;
    out->ledgers += ledgers;
    if (counted == ledgers)
        return true;
    say_difference(customer, quota->name, counted, ledgers);
    if (ledgers < counted) {
        out->fewer += counted - ledgers;
    } else {
        out->more += ledgers - counted;
        out->wrong++;
    }
    return true;
}

static bool is_compared(const struct wr_policy_limit *limit)
{
    return limit->shared && limit->quota != NULL && limit->quota->exact;
}

/* Has one of the databases before had |customer|? */
static bool is_known(const struct asking *a, const struct wr_customer *customer)
{
    struct wr_customer found;

    for (size_t i = 0; i < a->at; i++)
        if (wr_customer_find(a->databases[i], customer->name, &found) == 0)
            return true;
    return false;
}

static bool on_customer(void *context, const struct wr_customer *customer)
{
    struct asking *a = context;
    const struct wr_policy *policy = a->book->policy;
    unsigned plan = wr_standing_plan(policy, customer, a->book->now_ns);

    if (is_known(a, customer))
        return true;
    for (size_t i = 0; i < wr_policy_limit_count(policy) && !a->failed; i++) {
        const struct wr_policy_limit *limit = wr_policy_limit(policy, i);
        if (is_compared(limit) && !limit->unlimited[plan])
            a->failed = !compare(a, limit, customer);
    }
    return !a->failed;
}

static bool compare_all(struct asking *a)
{
    const struct wr_customer_filter filter = {.with_ended = true};

    for (a->at = 0; a->at < a->count && !a->failed; a->at++)
        if (wr_customers_each(a->databases[a->at], &filter, on_customer, a) != 0) {
            (void)fprintf(stderr, "%s\n", wr_database_fault(a->databases[a->at])->text);
            return false;
        }
    return !a->failed;
}

bool wr_usage_store_verify(const struct wr_book *book, struct wr_database *const *databases,
                           size_t count, struct wr_store_sums *out)
{
    const struct wr_policy_store *store = wr_policy_settings(book->policy)->store;
    struct asking a = {.book = book, .databases = databases, .count = count, .out = out};
    bool any = false, ok;

    *out = (struct wr_store_sums){.asked = false};
    for (size_t i = 0; i < wr_policy_limit_count(book->policy); i++)
        any = any || is_compared(wr_policy_limit(book->policy, i));
    if (!any || store == NULL)
        return true;
    if (store->kind == WR_STORE_RING) {
        (void)fprintf(stderr, "the counts of a ring lie in its nodes: nothing to compare with\n");
        return true;
    }
    out->asked = true;
    if (uv_loop_init(&a.loop) != 0)
        return false;
    ok = read_secret(&a, store) && open_store(&a, store) && compare_all(&a);
    close_store(&a);
    return ok;
}
