/* values.h - the values that a request carries, as the policy believes them. Internal. */
#ifndef WR_POLICY_VALUES_H
#define WR_POLICY_VALUES_H

#include "policy/compiled.h"

static inline struct weir_slice wr_request_field(const struct weir_request *request, int index)
{
    if (index < 0 || (size_t)index >= request->field_count)
        return (struct weir_slice){NULL, 0};
    return request->fields[index];
}

static inline struct weir_slice wr_trimmed(struct weir_slice value)
{
    while (value.len > 0 && (*value.ptr == ' ' || *value.ptr == '\t')) {
        value.ptr++;
        value.len--;
    }
    while (value.len > 0 && (value.ptr[value.len - 1] == ' ' || value.ptr[value.len - 1] == '\t'))
        value.len--;
    return value;
}

/* The value of |identity|; len 0: missing. One that the host program gives, empty or not, wins over
 * a header. */
static inline struct weir_slice wr_identity_value(const struct wr_identity *identity,
                                                  const struct weir_request *request,
                                                  bool peer_trusted)
{
    struct weir_slice value = wr_request_field(request, identity->given);

    if (value.ptr == NULL && identity->header >= 0 && (identity->trust_anyone || peer_trusted))
        value = wr_trimmed(wr_request_field(request, identity->header));
    return value;
}

#endif
