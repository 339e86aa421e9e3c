/* limit_rates.c - the rates of one limit: one for all plans, or a map from plans to rates, or what
 * the section `plans` says.
 *
 * Invariants:
 *   1. by[] and unlimited[] have an entry for every plan; where a plan is not named, the default
 *      plan's rate counts.
 *   2. Ranges are the algorithms' own: wr_limit_make says what does not fit.
 *   3. A limit has one algorithm: what one plan's rate implies (burst, queue) holds for all. */
#include <string.h>

#include "policy/limit_reading.h"
#include "policy/rate.h"

/* What is said of |plan| itself. */
static const struct wr_yaml *own_value(struct wr_loader *ld, const struct wr_limit_reading *reading,
                                       const struct wr_yaml *node, size_t plan)
{
    const struct wr_yaml *said = wr_plan_says(ld, plan, reading->limit->name, false);

    if (said != NULL || node->kind != WR_YAML_MAP)
        return said;
    for (const struct wr_yaml *value = node->first; value != NULL; value = value->next)
        if (strcmp(value->key->text, ld->policy->plans[plan]) == 0)
            return value;
    return NULL;
}

const struct wr_yaml *wr_value_for(struct wr_loader *ld, const struct wr_limit_reading *reading,
                                   const struct wr_yaml *node, size_t plan)
{
    const struct wr_yaml *own = own_value(ld, reading, node, plan);

    if (own != NULL)
        return own;
    return node->kind != WR_YAML_MAP ? node
                                     : own_value(ld, reading, node, ld->policy->default_plan);
}

void wr_find_in_plans(struct wr_loader *ld, const struct wr_yaml *node,
                      struct wr_limit_reading *reading)
{
    const struct wr_yaml *said = NULL;
    struct wr_yaml *nothing;
    size_t at;
    int64_t places;

    for (size_t plan = 0; plan < ld->policy->plan_count && said == NULL; plan++)
        said = wr_plan_says(ld, plan, reading->limit->name, false);
    if (said == NULL)
        return;
    nothing = wr_region_take(ld->scratch, 1, sizeof *nothing);
    if (nothing == NULL)
        return;
    *nothing = (struct wr_yaml){
        .kind = WR_YAML_MAP, .line = node->line, .column = node->column, .key = node};
    if (wr_is_text(said) && wr_count_parse(wr_slice_of(said), INT64_MAX, &places, &at) == NULL)
        reading->concurrent = nothing;
    else
        reading->rate = nothing;
}

/* All scalars that are values of a limit: of a map its values, or the node itself; then what stands
 * in `plans`. */
struct values {
    struct wr_loader *ld;
    const char *name; /* of the limit */
    const struct wr_yaml *node;
    const struct wr_yaml *next; /* of node */
    size_t plan;
};

static struct values values_of(struct wr_loader *ld, const struct wr_limit_reading *reading,
                               const struct wr_yaml *node)
{
    return (struct values){ld, reading->limit->name, node,
                           node->kind == WR_YAML_MAP ? node->first : node, 0};
}

static const struct wr_yaml *next_value(struct values *v)
{
    const struct wr_yaml *value = v->next;

    if (value != NULL) {
        v->next = v->node->kind == WR_YAML_MAP ? value->next : NULL;
        return value;
    }
    while (value == NULL && v->plan < v->ld->policy->plan_count)
        value = wr_plan_says(v->ld, v->plan++, v->name, false);
    return value;
}

/* Read one rate. False after an error. */
static bool read_one_rate(struct wr_loader *ld, const struct wr_yaml *node, struct wr_rate *rate)
{
    const char *wrong;
    size_t at;

    if (!wr_is_text(node)) {
        wr_error(ld, node,
                 "rate: expected a rate such as 100/minute, or a map from plans to "
                 "rates, found %s",
                 wr_found_kind(node));
        return false;
    }
    wrong = wr_rate_parse(wr_slice_of(node), rate, &at);
    if (wrong != NULL)
        wr_error_in(ld, node, at, "rate %s: %s", wr_found(node).text, wrong);
    return wrong == NULL;
}

bool wr_settle_algorithm(struct wr_loader *ld, struct wr_limit_reading *reading)
{
    struct values values = values_of(ld, reading, reading->rate);
    enum wr_algo implied = 0;
    bool ok = true;

    for (const struct wr_yaml *item = next_value(&values); item != NULL;
         item = next_value(&values)) {
        struct wr_rate rate;
        enum wr_algo wants;
        if (!read_one_rate(ld, item, &rate)) {
            ok = false;
            continue;
        }
        wants = rate.queue >= 0 ? WR_LEAKY_BUCKET : rate.burst >= 0 ? WR_TOKEN_BUCKET : 0;
        if (wants == 0)
            continue;
        if ((reading->algo != 0 && reading->algo != wants) || (implied != 0 && implied != wants)) {
            wr_error(ld, item, "rate: %s needs algorithm: %s, found %s",
                     wants == WR_LEAKY_BUCKET ? "queue" : "burst", wr_algo_name(wants),
                     wr_algo_name(reading->algo != 0 ? reading->algo : implied));
            ok = false;
        }
        implied = wants;
    }
    if (reading->algo == 0)
        reading->algo = implied != 0 ? implied : WR_SLIDING_WINDOW;
    return ok;
}

/* Compile |node|, known to be a rate, into |limit|. False: out of range, reported. */
static bool make_rate(struct wr_loader *ld, const struct wr_limit_reading *reading,
                      const struct wr_yaml *node, struct wr_limit *limit, bool *unlimited)
{
    struct wr_rate rate;
    const char *wrong;
    size_t at;

    (void)wr_rate_parse(wr_slice_of(node), &rate, &at);
    *unlimited = rate.unlimited;
    if (rate.unlimited)
        return true;
    wrong = wr_limit_make(limit, reading->algo, rate.units, rate.window_ns,
                          rate.queue >= 0 ? rate.queue : rate.burst, reading->count_denied);
    if (wrong != NULL)
        wr_error(ld, node, "rate %s: %s", wr_found(node).text, wrong);
    return wrong == NULL;
}

/* As make_rate, for places. */
static bool make_places(struct wr_loader *ld, const struct wr_limit_reading *reading,
                        const struct wr_yaml *node, struct wr_limit *limit, bool *unlimited)
{
    const char *wrong;
    int64_t places;

    *unlimited = node->kind == WR_YAML_SCALAR && strcmp(node->text, "unlimited") == 0;
    if (*unlimited)
        return true;
    if (!wr_read_int(ld, node, "concurrent", 0, WR_CONCURRENCY_MAX, &places))
        return false;
    wrong =
        wr_limit_make(limit, WR_CONCURRENCY, places, reading->hold_ns, -1, reading->count_denied);
    if (wrong != NULL)
        wr_error(ld, node, "concurrent %s: %s", wr_found(node).text, wrong);
    return wrong == NULL;
}

static bool make_one(struct wr_loader *ld, const struct wr_limit_reading *reading,
                     const struct wr_yaml *node, struct wr_limit *limit, bool *unlimited)
{
    *limit = (struct wr_limit){0};
    if (reading->algo == WR_CONCURRENCY)
        return make_places(ld, reading, node, limit, unlimited);
    return make_rate(ld, reading, node, limit, unlimited);
}

/* Is every value of |node| in range? All errors are reported. */
static bool check_ranges(struct wr_loader *ld, const struct wr_limit_reading *reading,
                         const struct wr_yaml *node)
{
    struct values values = values_of(ld, reading, node);
    struct wr_limit limit;
    bool unlimited, ok = true;

    for (const struct wr_yaml *item = next_value(&values); item != NULL; item = next_value(&values))
        ok = make_one(ld, reading, item, &limit, &unlimited) && ok;
    return ok;
}

void wr_make_plans(struct wr_loader *ld, struct wr_limit_reading *reading,
                   const struct wr_yaml *node)
{
    const struct wr_policy *policy = ld->policy;
    struct wr_limit *by = wr_region_take(ld->region, policy->plan_count, sizeof *by);
    bool *unlimited = wr_region_take(ld->region, policy->plan_count, sizeof *unlimited);

    if (by == NULL || unlimited == NULL || !check_ranges(ld, reading, node))
        return;
    for (size_t plan = 0; plan < policy->plan_count; plan++) {
        const struct wr_yaml *value = wr_value_for(ld, reading, node, plan);
        if (value == NULL) {
            wr_error(ld, node,
                     "expected a value for plan \"%s\", or one for the default plan, \"%s\", "
                     "found neither",
                     policy->plans[plan], policy->plans[policy->default_plan]);
            return;
        }
        (void)make_one(ld, reading, value, &by[plan], &unlimited[plan]);
        if (memcmp(&by[plan], &by[0], sizeof by[0]) != 0 || unlimited[plan] != unlimited[0])
            reading->limit->by_plan = true;
    }
    reading->limit->by = by;
    reading->limit->unlimited = unlimited;
    reading->rule->unlimited = unlimited;
}
