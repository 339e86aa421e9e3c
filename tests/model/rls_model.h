/* rls_model.h - what protobuf-c makes of a RateLimitRequest or a HealthCheckRequest, beside what
 * src/wire/rls_read.c makes of it. */
#ifndef TESTS_MODEL_RLS_MODEL_H
#define TESTS_MODEL_RLS_MODEL_H

#include "wire/rls.h"

/* Read the |len| bytes by both. |*request|, |*result| and |*why| are ours, until the next call.
 * Returns NULL, or in what they differ. */
const char *rls_model_compare(const uint8_t *bytes, size_t len,
                              const struct wr_rate_request **request, int *result,
                              const char **why);

#endif
