/* customer_args.h - what is written behind `weir customer`, and the change that it says. */
#ifndef WR_CLI_CUSTOMER_ARGS_H
#define WR_CLI_CUSTOMER_ARGS_H

#include "cli/customer.h"

/* Options by their numbers for getopt. */
enum wr_customer_option {
    WR_ARG_PLAN = 256,
    WR_ARG_TENANT,
    WR_ARG_ANCHOR,
    WR_ARG_PARTNER,
    WR_ARG_SUSPENDED,
    WR_ARG_TRIAL,
    WR_ARG_UNTIL,
    WR_ARG_LASTS,
    WR_ARG_IDENTITY,
    WR_ARG_VALUE,
    WR_ARG_PREFIX,
    WR_ARG_REASON,
    WR_ARG_WHO,
    WR_ARG_ALL,
    WR_ARG_KEY,
    WR_ARG_JSON,
    WR_ARG_END
};

struct wr_customer_action;

struct wr_customer_args {
    const char *policy, *name, *more;
    const struct wr_customer_action *action;
    const char *given[WR_ARG_END - WR_ARG_PLAN]; /* by option; "" for flags */
    bool json, help;
    bool complained; /* it was said what is wrong */
};

/* What is written, of which action, all of it taken by that. False: wrong usage. */
bool wr_customer_parse(struct wr_customer_args *a, int argc, char **argv);

bool wr_customer_acts(const struct wr_customer_args *a, const char *action);
/* Does the action change something? */
bool wr_customer_writes(const struct wr_customer_args *a);

/* The value of an option; NULL: it is not there. */
static inline const char *wr_customer_given(const struct wr_customer_args *a, int option)
{
    return a->given[option - WR_ARG_PLAN];
}

/* Say what |option| should have been. Returns the exit status. */
int wr_customer_complain(const char *option, const char *expected);

/* What --plan, --tenant and so on say. 0, or 1 after it was said what is wrong. */
int wr_customer_read_change(const struct wr_book *book, const struct wr_customer_args *a,
                            struct wr_customer_change *change);

/* Who changes something, and why: --who and --reason, or the user who runs this. Texts are static.
 */
struct wr_author wr_customer_author(const struct wr_book *book, const struct wr_customer_args *a);

#endif
