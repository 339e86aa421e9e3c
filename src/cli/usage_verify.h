/* usage_verify.h - `weir usage --verify`. */
#ifndef WR_CLI_USAGE_VERIFY_H
#define WR_CLI_USAGE_VERIFY_H

#include "cli/customer.h"

/* Look at the ledger of |book|, its cells, and the ledgers of other nodes in the |count| files
 * |names|; print what they come to. Returns the exit status. */
int wr_usage_verify(struct wr_book *book, char **names, int count, bool json);

#endif
