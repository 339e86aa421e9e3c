/* fields.c - the numbered things that a policy's sections share: fields of a request, identities,
 * prefix lengths, networks.
 *
 * Idea. Every value that a request must bring along (a header field, a value given by the host
 * program) is one numbered field, found once at load, so that the data plane looks up no names.
 *
 * Invariants:
 *   1. fields[] has no two entries of one kind and name (header names whatever their case).
 *   2. prefixes[] has no two equal lengths; the first is that of identity.ip. */
#include <string.h>

#include "policy/bytes.h"
#include "policy/loader.h"

bool wr_is_token(const struct wr_yaml *node)
{
    for (size_t i = 0; i < node->len; i++)
        if (!wr_is_token_byte(node->text[i]))
            return false;
    return node->len > 0;
}

int wr_add_field(struct wr_loader *ld, const struct wr_yaml *at, const char *name,
                 enum weir_field_kind kind)
{
    struct wr_policy *policy = ld->policy;
    size_t len = strlen(name);
    char *folded = wr_region_text(ld->scratch, name, len);
    uint32_t tag = kind == WEIR_FIELD_HEADER ? WR_NAME_FIELD_HEADER : WR_NAME_FIELD_KEY;
    const struct wr_table_entry *entry;
    bool added;

    if (folded == NULL)
        return -1;
    for (size_t i = 0; kind == WEIR_FIELD_HEADER && i < len; i++)
        if (folded[i] >= 'A' && folded[i] <= 'Z')
            folded[i] = (char)(folded[i] + 'a' - 'A');
    if (policy->field_count == WR_POLICY_FIELDS_MAX) {
        wr_error(ld, at, "expected at most %d header fields and keys in a policy, found more",
                 WR_POLICY_FIELDS_MAX);
        return -1;
    }
    entry = wr_table_add(&ld->names, ld->scratch, tag, (struct weir_slice){folded, len},
                         (uint32_t)policy->field_count, &added);
    if (entry == NULL)
        return -1;
    if (added) {
        policy->fields[policy->field_count] = wr_region_text(ld->region, name, len);
        policy->field_kinds[policy->field_count++] = kind;
    }
    return (int)entry->value;
}

int wr_read_header(struct wr_loader *ld, const struct wr_yaml *value)
{
    if (!wr_is_text(value) || !wr_is_token(value)) {
        wr_error(ld, value, "header: expected the name of a header field, found %s",
                 wr_found(value).text);
        return -1;
    }
    return wr_add_field(ld, value, value->text, WEIR_FIELD_HEADER);
}

int wr_find_identity(const struct wr_policy *policy, struct weir_slice name)
{
    for (size_t i = 0; i < policy->identity_count; i++)
        if (strlen(policy->identities[i].name) == name.len &&
            memcmp(policy->identities[i].name, name.ptr, name.len) == 0)
            return (int)i;
    return -1;
}

uint8_t wr_add_prefix(struct wr_loader *ld, const struct wr_yaml *at, int64_t prefix)
{
    struct wr_policy *policy = ld->policy;

    for (size_t i = 0; i < policy->prefix_count; i++)
        if (policy->prefixes[i] == prefix)
            return (uint8_t)i;
    if (policy->prefix_count == WR_PREFIXES_MAX) {
        wr_error(ld, at,
                 "ipv6_prefix: expected at most %d different lengths in a policy, found "
                 "one more",
                 WR_PREFIXES_MAX);
        return 0;
    }
    policy->prefixes[policy->prefix_count] = (uint8_t)prefix;
    return (uint8_t)policy->prefix_count++;
}

bool wr_read_net(struct wr_loader *ld, const struct wr_yaml *item, const char *what,
                 struct wr_net *net)
{
    bool host_bits = false;

    if (!wr_is_text(item) || !wr_net_parse(wr_slice_of(item), net, &host_bits)) {
        wr_error(ld, item,
                 "%s: expected an address or a network such as 10.0.0.0/8 or 2001:db8::/32, found "
                 "%s",
                 what, wr_found(item).text);
        return false;
    }
    if (host_bits)
        wr_error(ld, item, "%s: expected a network, found %s: bits are set behind its prefix", what,
                 wr_found(item).text);
    return !host_bits;
}
