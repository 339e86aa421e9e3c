/* host_check.h - what a policy asks of this host: files that it names, memory. */
#ifndef WR_SERVE_HOST_CHECK_H
#define WR_SERVE_HOST_CHECK_H

#include "policy/policy.h"

/* Open every file that |policy| names for the daemon (certificates, keys, tokens, passwords) and
 * add to |diag| what is wrong, at its place in the policy: an error for what the daemon could not
 * start with, a warning for what it would start with in vain. */
void wr_host_check(const struct wr_policy *policy, struct wr_diag *diag);

#endif
