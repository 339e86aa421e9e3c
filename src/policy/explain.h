/* explain.h - why a request meets the limits that it meets, and the keys of limits in words: for
 * people. Nothing here is on the path of a decision. */
#ifndef WR_POLICY_EXPLAIN_H
#define WR_POLICY_EXPLAIN_H

#include "policy/policy.h"

/* ---- a request ----------------------------------------------------------------------------- */

enum wr_match_why {
    WR_MATCHES,
    WR_OTHER_PATH,   /* none of its paths is the request's */
    WR_OTHER_METHOD, /* its methods are others */
    WR_NO_LIMIT,     /* it is unlimited for the plan */
    WR_KEY_SKIPPED,  /* |missing| is, and the limit says skip */
    WR_BEYOND_MAX,   /* WEIR_LIMITS_MAX limits before it match */
};

struct wr_match_reason {
    uint8_t why;         /* enum wr_match_why */
    const char *pattern; /* the limit's own that matched best; NULL: it has no path, or none did */
    const char *missing; /* the identity whose value is missing, of its key; NULL: none is */
    uint32_t rank;       /* private: of |pattern| */
};

/* Why each limit of the policy is, or is not, in |selection|, which wr_policy_select made of
 * |request|: |out| has one for each. */
void wr_policy_explain(const struct wr_policy *policy, const struct weir_request *request,
                       const struct wr_selection *selection, struct wr_match_reason *out);

/* Where the rule selection.cost_rule stands: the index of its plan, or -1 for those of all, and
 * which of them it is, from 0. */
int wr_policy_cost_rule(const struct wr_policy *policy, int32_t rule, size_t *index);

size_t wr_policy_identity_count(const struct wr_policy *policy);
const char *wr_policy_identity(const struct wr_policy *policy, size_t index);

enum wr_value_from {
    WR_VALUE_MISSING,
    WR_VALUE_GIVEN,        /* by whoever asks */
    WR_VALUE_HEADER,       /* of the request */
    WR_VALUE_NOT_BELIEVED, /* a header has one, but the peer is not in identity.ip.trusted */
};

/* The value of an identity in |request|; of one that is not believed, what it says. */
enum wr_value_from wr_policy_identity_value(const struct wr_policy *policy, size_t index,
                                            const struct weir_request *request,
                                            struct weir_slice *value);

/* ---- what limits say ----------------------------------------------------------------------- */

/* The name of part |part| of the limit's key, as in `by`; NULL: it has no more. |identity| (may be
 * NULL): is it one? */
const char *wr_policy_part(const struct wr_policy *policy, size_t limit, unsigned part,
                           bool *identity);
enum wr_when_missing wr_policy_when_missing(const struct wr_policy *policy, size_t limit);
/* Leading bits of an IPv6 address that are one caller to the limit. */
unsigned wr_policy_prefix(const struct wr_policy *policy, size_t limit);

/* The |n|th method that the limit is for; NULL: no more. One for all methods has none. */
const char *wr_policy_method(const struct wr_policy *policy, size_t limit, size_t n, size_t *len);

/* All paths of all limits, a limit's own in the order of the file: those of |limit| are
 * pattern[start[limit]] .. pattern[start[limit + 1]], that one not. |start| has one more than there
 * are limits, |pattern| as many as wr_policy_pattern_count. */
size_t wr_policy_pattern_count(const struct wr_policy *policy);
void wr_policy_patterns(const struct wr_policy *policy, const char **pattern, uint32_t *start);

/* ---- keys that a person names -------------------------------------------------------------- */

/* A key of a limit, part by part. Holds what its parts point to: not to be moved. */
struct wr_named_key {
    struct wr_selected selected;
    unsigned given; /* parts, a bit each */
    struct wr_ip ip[WEIR_KEY_PARTS_MAX];
    uint64_t customer[WEIR_KEY_PARTS_MAX];
};

void wr_named_key_begin(struct wr_named_key *key, unsigned limit);

/* The part called |name| is |value|: of "ip" an address (the network that it is counted by is
 * found) or a host name, of "customer" his id in digits, else the value as it stands; "IDENTITY@ip"
 * is the address that stands in for a missing value. |value| is borrowed for the life of |key|.
 * Returns NULL, or a static text that says what is wrong. */
const char *wr_named_key_give(const struct wr_policy *policy, struct wr_named_key *key,
                              struct weir_slice name, struct weir_slice value);

/* The first part that was not given; NULL: the key is whole. */
const char *wr_named_key_lacks(const struct wr_policy *policy, const struct wr_named_key *key);

/* A key that a program makes of one value of its own, as weir_check and WEIR.CHECK do. */
void wr_named_key_plain(struct wr_named_key *key, struct weir_slice value);

#endif
