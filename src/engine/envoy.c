/* envoy.c - one question of several descriptors, by the rules of envoyproxy/ratelimit.
 *
 *   match     which rule each descriptor meets; overrides; who replaces whom
 *   evaluate  what taking would do; nothing is written
 *   charge    all that fit, if the question as a whole passes; or, with count_over_limit, all
 *   describe  a status for each descriptor, the code of the whole
 *
 * Invariants:
 *   1. Without count_over_limit a question that is refused has consumed nothing when this returns.
 *   2. A limit admits at most its units in each of its windows, whatever the option: the pass is
 * one compare-and-swap on what was read, exactly as in decide.c.
 *   3. The whole is over when a limit of no quota is, or when there are quotas and all of them are.
 *
 * Rejected: adding first and looking at the sum, as the reference does in its store: two
 * descriptors of one question could not be taken all or none, and a counter that only rises cannot
 * tell a refused question from an admitted one. */
#include "engine/envoy.h"

#include "algo/fixed_window.h"
#include "base/arith.h"
#include "engine/bound_envoy.h"
#include "engine/envoy_parts.h"

#define HITS_MAX (UINT64_C(1) << 32) /* more than any limit holds */

/* Kinds of the parts of a key: none of enum wr_part_kind. */
enum { PART_DOMAIN = 16, PART_KEY, PART_VALUE, PART_PATTERN, PART_UNIT };

/* ---- match ------------------------------------------------------------------------------- */

static uint64_t hash_key(const struct wr_envoy_question *q, const struct wr_envoy_item *item,
                         const struct wr_envoy_match *match)
{
    struct wr_sip sip = wr_sip_init(wr_arena_secret(q->engine->arena));

    wr_sip_part(&sip, PART_DOMAIN, q->request->domain.ptr, q->request->domain.len);
    wr_sip_part(&sip, PART_UNIT, &item->unit, 1);
    for (size_t i = 0; i < item->asked->count; i++) {
        const struct wr_entry *entry = &item->asked->entries[i];
        const char *shared = item->rule != NULL ? match->shared[i] : NULL;
        wr_sip_part(&sip, PART_KEY, entry->key.ptr, entry->key.len);
        if (shared != NULL)
            wr_sip_part(&sip, PART_PATTERN, shared, strlen(shared));
        else
            wr_sip_part(&sip, PART_VALUE, entry->value.ptr, entry->value.len);
    }
    return wr_sip_finish(sip);
}

static uint64_t hits_of(const struct wr_envoy_question *q, const struct wr_descriptor *asked)
{
    uint64_t hits = asked->has_hits ? asked->hits : wr_max_u64(1, q->request->hits);

    return wr_min_u64(hits, HITS_MAX);
}

/* The limit that came with the question, in place of the rule and all that the rule says: it has no
 * name, replaces nobody and is replaced by nobody, is no quota, not in shadow, and each value has a
 * counter. Only the statistics are the rule's, as those of values have no end. */
static int use_override(struct wr_envoy_question *q, struct wr_envoy_item *item)
{
    const struct wr_descriptor *asked = item->asked;

    if (wr_envoy_limit(wr_envoy_options(q->envoy), asked->limit_units,
                       (enum wr_unit)asked->limit_unit, &item->override) != NULL)
        return WEIR_EINVAL;
    item->units = asked->limit_units;
    item->unit = asked->limit_unit;
    item->counted = true;
    item->charge.limit = &item->override;
    return wr_overrides_class(q->engine, asked->limit_units, asked->limit_unit, &item->override,
                              &item->charge.class_id);
}

static void use_rule(const struct wr_envoy_question *q, struct wr_envoy_item *item,
                     const struct wr_envoy_rule *rule)
{
    item->rule = rule;
    item->name = rule->name;
    item->shadow = rule->shadow;
    item->quota = rule->quota;
    item->unit = rule->unit;
    item->units = rule->units;
    item->counted = !rule->unlimited;
    item->charge.limit = &rule->limit;
    item->charge.class_id = q->engine->envoy_classes[rule->index];
}

static int match_item(struct wr_envoy_question *q, int domain, struct wr_envoy_item *item)
{
    struct wr_envoy_match match;
    int result = 0;

    item->rule = item->replaced = NULL;
    item->name = "";
    item->counted = item->shadow = item->quota = item->over = false;
    item->unit = WR_UNIT_UNKNOWN;
    item->units = 0;
    item->before = 0;
    item->hits = hits_of(q, item->asked);
    wr_receipt_clear(&item->receipt);
    wr_envoy_find(q->envoy, domain, item->asked, &match);
    item->counts = match.rule;
    if (item->asked->has_limit)
        result = use_override(q, item);
    else if (match.rule != NULL)
        use_rule(q, item, match.rule);
    if (result == 0 && item->counted) {
        item->charge.hash = hash_key(q, item, &match);
        item->charge.cost = item->asked->negative ? 0 : (int64_t)item->hits;
        wr_slot_prefetch(q->engine->arena, item->charge.hash);
    }
    return result;
}

/* Is |name| in the list of any limit that |q| meets? */
static bool is_replaced(const struct wr_envoy_question *q, const char *name)
{
    for (size_t i = 0; i < q->request->count; i++) {
        const struct wr_envoy_rule *rule = q->items[i].rule;
        for (size_t j = 0; rule != NULL && j < rule->replaces_count; j++)
            if (strcmp(rule->replaces[j], name) == 0)
                return true;
    }
    return false;
}

static int match_all(struct wr_envoy_question *q, int domain)
{
    for (size_t i = 0; i < q->request->count; i++) {
        int result;
        q->items[i].asked = &q->request->descriptors[i];
        result = match_item(q, domain, &q->items[i]);
        if (result != 0)
            return result;
    }
    return 0;
}

static void drop_replaced(struct wr_envoy_question *q)
{
    bool dropped[WR_DESCRIPTORS_MAX] = {false};

    for (size_t i = 0; i < q->request->count; i++)
        dropped[i] = q->items[i].name[0] != '\0' && is_replaced(q, q->items[i].name);
    for (size_t i = 0; i < q->request->count; i++) {
        if (dropped[i]) {
            q->items[i].replaced = q->items[i].rule;
            q->items[i].rule = q->items[i].counts = NULL;
            q->items[i].counted = false;
        }
    }
}

/* ---- evaluate and charge ----------------------------------------------------------------- */

static void judge(const struct wr_envoy_question *q, struct wr_envoy_item *item)
{
    const struct wr_limit *limit = item->charge.limit;
    int64_t end_ns;

    item->before = wr_fixed_window_count(limit, item->charge.base, q->now, &end_ns);
    item->over = !item->charge.take.allowed;
    /* A look passes in every algorithm; here it asks whether the counter is above the limit. That
     * of a limit of 0 stays at 0, whatever it refuses: where refusals count, it is taken as above.
     */
    if (item->charge.cost == 0)
        item->over = item->before > (uint64_t)limit->units ||
                     (limit->units == 0 && wr_envoy_options(q->envoy)->count_over_limit);
    if (item->asked->negative)
        item->over = false;
}

void wr_envoy_evaluate(struct wr_envoy_question *q)
{
    for (size_t i = 0; i < q->request->count; i++) {
        struct wr_envoy_item *item = &q->items[i];
        if (!item->counted)
            continue;
        wr_charge_evaluate(q->engine->arena, &item->charge, q->now);
        judge(q, item);
    }
}

/* Invariant 3. */
bool wr_envoy_is_over(const struct wr_envoy_question *q)
{
    size_t quotas = 0, over = 0;

    if (wr_envoy_options(q->envoy)->shadow_mode)
        return false;
    for (size_t i = 0; i < q->request->count; i++) {
        const struct wr_envoy_item *item = &q->items[i];
        bool refuses = item->over && !item->shadow;
        if (!item->counted)
            continue;
        if (!item->quota && refuses)
            return true;
        quotas += item->quota;
        over += item->quota && refuses;
    }
    return quotas > 0 && over == quotas;
}

/* Give hits back: down to 0, in this window; of a key without a counter nothing. */
static void give(struct wr_envoy_question *q, struct wr_envoy_item *item)
{
    struct weir_receipt receipt;

    wr_charge_receipt(&item->charge, item->charge.base, &receipt);
    wr_charge_refund(q->engine->arena, item->charge.limit, &receipt, (int64_t)item->hits, q->now);
    wr_charge_evaluate(q->engine->arena, &item->charge, q->now);
}

static void take(struct wr_envoy_question *q, struct wr_envoy_item *item, bool whatever)
{
    if (item->asked->negative) {
        give(q, item);
        return;
    }
    if (item->charge.cost == 0) { /* a look sees what those before it have taken */
        wr_charge_evaluate(q->engine->arena, &item->charge, q->now);
        judge(q, item);
        return;
    }
    wr_charge_commit(q->engine->arena, &item->charge, q->now, &item->receipt);
    if (!item->charge.take.allowed)
        judge(q, item); /* another process was first */
    if (item->over && whatever)
        wr_charge_force(q->engine->arena, &item->charge, q->now);
}

static void give_back(struct wr_envoy_question *q)
{
    for (size_t i = 0; i < q->request->count; i++) {
        struct wr_envoy_item *item = &q->items[i];
        if (!item->counted || !wr_receipt_taken(&item->receipt))
            continue;
        wr_charge_refund(q->engine->arena, item->charge.limit, &item->receipt,
                         wr_receipt_cost(&item->receipt), q->now);
        wr_receipt_clear(&item->receipt);
    }
}

/* Returns whether the question as a whole passes. */
static bool charge(struct wr_envoy_question *q)
{
    bool whatever = wr_envoy_options(q->envoy)->count_over_limit;

    if (!whatever && wr_envoy_is_over(q))
        return false;
    for (size_t i = 0; i < q->request->count; i++) {
        struct wr_envoy_item *item = &q->items[i];
        if (item->counted && (whatever || !item->over))
            take(q, item, whatever);
    }
    if (!wr_envoy_is_over(q))
        return true;
    if (!whatever)
        give_back(q);
    return false;
}

/* ---- describe ---------------------------------------------------------------------------- */

static uint32_t remaining_of(const struct wr_envoy_item *item, bool passed)
{
    int64_t left = item->charge.take.remaining;

    if (item->over)
        return 0;
    if (!passed && !item->asked->negative) /* evaluated as if taken, and then not taken */
        left = (int64_t)wr_monus_u64((uint64_t)item->charge.limit->units, item->before);
    return (uint32_t)wr_min_i64(left, UINT32_MAX);
}

static void describe_item(const struct wr_envoy_question *q, const struct wr_envoy_item *item,
                          bool charged, struct wr_rate_status *out)
{
    int64_t end_ns;

    *out = (struct wr_rate_status){.code = WR_RATE_OK};
    if (item->rule != NULL && item->rule->unlimited && !item->counted)
        out->remaining = UINT32_MAX;
    if (!item->counted)
        return;
    (void)wr_fixed_window_count(item->charge.limit, item->charge.base, q->now, &end_ns);
    out->code = item->over && !item->shadow ? WR_RATE_OVER_LIMIT : WR_RATE_OK;
    out->has_limit = true;
    out->name = (struct weir_slice){item->name, strlen(item->name)};
    out->rule = item->rule != NULL ? item->rule->path : NULL;
    out->units = item->units;
    out->unit = item->unit;
    out->remaining = remaining_of(item, charged);
    out->reset_s = wr_max_i64(1, (end_ns - q->now + WR_NS_PER_S - 1) / WR_NS_PER_S);
}

void wr_envoy_describe(const struct wr_envoy_question *q, bool passed, struct wr_rate_response *out)
{
    bool charged = passed || wr_envoy_options(q->envoy)->count_over_limit;

    out->code = passed ? WR_RATE_OK : WR_RATE_OVER_LIMIT;
    out->count = q->request->count;
    out->header_count = 0;
    out->body = (struct weir_slice){NULL, 0};
    for (size_t i = 0; i < q->request->count; i++)
        describe_item(q, &q->items[i], charged, &out->statuses[i]);
}

/* ---- the whole --------------------------------------------------------------------------- */

bool wr_engine_knows_domain(const struct wr_engine *engine, struct weir_slice domain)
{
    const struct wr_envoy *envoy = wr_policy_envoy(engine->policy);

    return envoy != NULL && wr_envoy_domain(envoy, domain) >= 0;
}

int wr_envoy_match(struct wr_envoy_question *q, struct wr_engine *engine,
                   const struct wr_rate_request *request, int64_t now)
{
    int domain, result;

    q->engine = engine;
    q->envoy = wr_policy_envoy(engine->policy);
    q->request = request;
    q->now = now;
    domain = q->envoy != NULL ? wr_envoy_domain(q->envoy, request->domain) : -1;
    if (domain < 0)
        return WEIR_ENOENT;
    if (request->count > WR_DESCRIPTORS_MAX)
        return WEIR_EINVAL;
    result = match_all(q, domain);
    if (result == 0)
        drop_replaced(q);
    return result;
}

int wr_engine_rate(struct wr_engine *engine, const struct wr_rate_request *request, unsigned lane,
                   int64_t now, struct wr_rate_response *out)
{
    struct wr_envoy_question q;
    int result = wr_envoy_match(&q, engine, request, now);

    if (result != 0)
        return result;
    wr_envoy_evaluate(&q);
    wr_envoy_describe(&q, charge(&q), out);
    for (size_t i = 0; i < request->count; i++)
        if (q.items[i].counts != NULL)
            wr_envoy_count(engine, lane, &q.items[i]);
    return 0;
}
