/* usage_store.h - `weir usage --verify`: do the ledgers of the nodes say what the store of shared
 * quotas has counted? */
#ifndef WR_CLI_USAGE_STORE_H
#define WR_CLI_USAGE_STORE_H

#include "cli/customer.h"

struct wr_store_sums {
    bool asked;           /* there are shared quotas, and a store that can be asked */
    uint64_t windows;     /* compared */
    uint64_t counted;     /* units, by the store */
    uint64_t ledgers;     /* by all ledgers */
    uint64_t fewer, more; /* by which ledgers say less than the store, and more */
    uint64_t wrong;       /* windows with more */
};

/* Compare, for each customer of |databases| and each shared quota of the policy, what the ledgers
 * say of the window that it is now with the store's count. What differs is said on standard error.
 * False: so is why it cannot be known. */
bool wr_usage_store_verify(const struct wr_book *book, struct wr_database *const *databases,
                           size_t count, struct wr_store_sums *out);

#endif
