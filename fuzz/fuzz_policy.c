/* A policy of any bytes: loaded or refused with messages; one that is loaded selects within its
 * bounds. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy.h"

#define SLICE(text) ((struct weir_slice){text, sizeof(text) - 1})

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_part(const struct wr_key_part *part)
{
    volatile char sink = 0; /* a sanitizer sees every byte being read */

    require(part->kind <= WR_PART_FALLBACK_HOST);
    for (size_t i = 0; i < part->bytes.len; i++)
        sink = part->bytes.ptr[i];
    (void)sink;
}

static void check_selection(const struct wr_policy *policy, const struct weir_request *request)
{
    static struct wr_selection s;

    wr_policy_select(policy, request, &s);
    require(s.count <= WEIR_LIMITS_MAX && s.plan < wr_policy_plan_count(policy));
    require(s.cost >= 0 && s.cost <= WEIR_COST_MAX && s.route != NULL);
    for (unsigned i = 0; i < s.count; i++) {
        const struct wr_selected *selected = &s.selected[i];
        require(selected->limit < wr_policy_limit_count(policy));
        require(i == 0 || selected->limit > s.selected[i - 1].limit);
        require(!wr_policy_limit(policy, selected->limit)->unlimited[s.plan]);
        require(selected->parts <= WEIR_KEY_PARTS_MAX);
        for (unsigned j = 0; j < selected->parts; j++)
            check_part(&selected->part[j]);
    }
}

static void check_limits(const struct wr_policy *policy)
{
    char text[64];

    for (size_t i = 0; i < wr_policy_limit_count(policy); i++) {
        const struct wr_policy_limit *limit = wr_policy_limit(policy, i);
        require(limit->name != NULL && limit->name[0] != '\0');
        wr_policy_describe_keys(policy, i, text, sizeof text);
        for (size_t plan = 0; plan < wr_policy_plan_count(policy); plan++) {
            require(limit->unlimited[plan] || wr_limit_valid(&limit->by[plan]));
            wr_policy_describe_rate(policy, i, plan, text, sizeof text);
            require(text[0] != '\0');
        }
    }
}

static void check_address(const struct wr_policy_address *address)
{
    require(address->text != NULL && (address->host == NULL) != (address->path == NULL));
    require(address->path != NULL || address->port != 0);
}

static void check_store(const struct wr_policy *policy)
{
    const struct wr_policy_store *store = wr_policy_settings(policy)->store;
    char text[64];

    wr_policy_describe_store(policy, text, sizeof text);
    for (size_t i = 0; i < wr_policy_limit_count(policy); i++) {
        require(store != NULL || !wr_policy_limit(policy, i)->shared);
        wr_policy_describe_shared(policy, i, text, sizeof text);
    }
    if (store == NULL)
        return;
    require(store->kind <= WR_STORE_RING && store->when_gone <= WR_GONE_CLOSED);
    require(store->deadline_ns > 0 && store->nodes > 0 && store->agent_path != NULL);
    require(store->prefix != NULL && store->address_count <= WR_STORE_ADDRESSES_MAX);
    require(store->address_count > 0 || store->dns.text != NULL);
    for (size_t i = 0; i < store->address_count; i++)
        check_address(&store->addresses[i]);
    if (store->kind == WR_STORE_RING)
        check_address(&store->self);
}

static void check_requests(const struct wr_policy *policy)
{
    static const struct weir_slice paths[] = {
        SLICE("/"), SLICE("/search/a/b?q"), SLICE("//a/%61/../b/c/d/e/f"), SLICE(""), {NULL, 0}};
    static const struct weir_slice peers[] = {
        SLICE("10.0.0.1"), SLICE("2001:db8::1"), SLICE("a.host"), {NULL, 0}};
    static const struct weir_slice values[] = {
        {NULL, 0}, SLICE("10.0.0.2, 1.2.3.4"), SLICE("k_live_123")};
    struct weir_slice fields[WR_POLICY_FIELDS_MAX];
    struct weir_request request = {.method = SLICE("POST"), .fields = fields, .cost_units = -1};

    request.field_count = wr_policy_field_count(policy);
    request.plan = -1;
    for (size_t i = 0; i < 5 * 4 * 3; i++) {
        request.path = paths[i % 5];
        request.peer = peers[i / 5 % 4];
        for (size_t f = 0; f < request.field_count; f++)
            fields[f] = values[i / 20];
        check_selection(policy, &request);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct wr_diag diag;
    static char out[WR_DIAG_MAX * (WR_DIAG_TEXT_MAX + 64)];
    struct wr_policy *policy;
    int result;

    wr_diag_init(&diag, "fuzz");
    result = wr_policy_load_text(&policy, (const char *)data, size, &diag);
    require(wr_diag_format(&diag, out, sizeof out) < sizeof out);
    require((policy != NULL) == (result == 0) && (diag.errors == 0) == (result == 0));
    if (policy == NULL)
        return 0;
    check_limits(policy);
    check_store(policy);
    check_requests(policy);
    wr_policy_free(policy);
    return 0;
}
