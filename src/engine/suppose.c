/* suppose.c - customers that nobody has written down, for trying a policy out on a log.
 *
 * Problem. A log has keys and no database. Quotas by customer have to do what they would have done,
 * with overage, grace and upgrades, and that is done by cells of customers.
 *
 * Idea. The same files as the daemon's, in a folder of their own that is gone once they are open.
 * Each key makes a customer when it is first seen. Its plan has a name that no policy can have, so
 * that the plan is what the request says (plan.keys, a header, the default) until an upgrade gives
 * it one.
 *
 * Invariants:
 *   1. Nothing is left in $TMPDIR, whatever ends the process after the files were opened.
 *   2. An upgrade holds from the request that made it on; nobody is asked to confirm it.
 *
 * Rejected: windows in the arena instead of cells (they refuse at the limit, and a replay showed
 * customers refused who would have been billed). */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/bound.h"
#include "engine/receipt.h"
#include "policy/customers.h"
#include "policy/quota.h"

#define PATH_BYTES 4096
#define AS_REQUESTED "?" /* no name of a plan */

/* ---- the files ----------------------------------------------------------------------------- */

static void remove_folder(const char *directory)
{
    DIR *folder = opendir(directory);
    const struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL)
        (void)unlinkat(dirfd(folder), entry->d_name, 0); /* not . and .., which are folders */
    if (folder != NULL)
        (void)closedir(folder);
    (void)rmdir(directory);
}

static uint32_t room_for(const struct wr_policy_customers *customers)
{
    return customers->room < WR_SUPPOSED_MAX ? customers->room : WR_SUPPOSED_MAX;
}

int wr_engine_suppose_customers(struct wr_engine *engine, struct wr_diag *diag)
{
    const struct wr_policy_customers *customers = wr_policy_settings(engine->policy)->customers;
    const char *folder = getenv("TMPDIR");
    char path[PATH_BYTES];
    int rc;

    if (customers == NULL)
        return 0;
    if (folder == NULL || folder[0] == '\0' || strlen(folder) > PATH_BYTES / 2)
        folder = "/tmp";
    (void)snprintf(path, sizeof path, "%s/weir-XXXXXX", folder);
    diag->file = folder;
    if (mkdtemp(path) == NULL) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "no folder can be made there (TMPDIR): %s",
                    strerror(errno));
        return WEIR_EIO;
    }
    rc = wr_known_open(
        engine,
        &(struct wr_known_place){.directory = path, .room = room_for(customers), .supposed = true},
        diag);
    if (rc == 0 && wr_customers_plan(engine->known->map, AS_REQUESTED) != 0)
        rc = WEIR_EIO;
    remove_folder(path);
    return rc;
}

/* ---- customers ----------------------------------------------------------------------------- */

bool wr_known_suppose(struct wr_known *known, unsigned by, struct weir_slice value,
                      uint32_t *number)
{
    const struct wr_policy_customers *customers = wr_policy_settings(known->policy)->customers;
    const struct wr_customer_record record = {.id = (int64_t)known->supposed_count + 1,
                                              .flags = WR_CUSTOMER_ACTIVE,
                                              .until_ns = INT64_MAX};
    struct weir_slice identity = {customers->by[by], strlen(customers->by[by])};
    unsigned char digest[WR_SHA256_BYTES];

    if (known->supposed_count == wr_customers_room(known->map)) {
        known->supposed_full = true;
        return false;
    }
    *number = known->supposed_count;
    wr_customer_digest(identity, value, digest);
    if (wr_customers_set(known->map, *number, &record, true) != 0 ||
        wr_customers_key_set(known->map, digest, *number) != 0)
        return false;
    known->supposed_count++;
    return true;
}

bool wr_known_move(struct wr_known *known, const struct wr_selection *selection, int plan,
                   struct weir_request *again)
{
    uint32_t number = selection->customer.number;
    int name = wr_customers_plan(known->map, wr_policy_plan(known->policy, (size_t)plan));
    struct wr_customer_record record;

    if (name < 0 || !wr_customers_get(known->map, number, &record))
        return false;
    again->plan = plan;
    if (again->peek)
        return true;
    record.plan = record.plan_after = (uint8_t)name;
    known->upgraded = (struct wr_supposed_upgrade){true, (uint8_t)selection->plan, (uint8_t)plan};
    return wr_customers_set(known->map, number, &record, true) == 0;
}

bool wr_engine_supposed_full(const struct wr_engine *engine)
{
    return engine->known != NULL && engine->known->supposed_full;
}

bool wr_engine_supposed_upgrade(const struct wr_engine *engine, struct wr_supposed_upgrade *out)
{
    struct wr_known *known = engine->known;

    *out = (struct wr_supposed_upgrade){.made = false};
    if (known == NULL)
        return false;
    *out = known->upgraded;
    known->upgraded.made = false;
    return out->made;
}

/* ---- what was taken ------------------------------------------------------------------------ */

bool wr_engine_quota_taken(const struct wr_engine *engine, const struct weir_answer *answer,
                           unsigned i, struct wr_quota_taken *out)
{
    const struct wr_bound_limit *bound = &engine->limits[answer->verdicts[i].limit];
    struct wr_cell_receipt taken;
    struct wr_usage_view view;
    int64_t used, limit;

    *out = (struct wr_quota_taken){0};
    if (bound->usage == NULL || !wr_receipt_is_cell(&answer->receipts[i]))
        return false;
    taken = wr_receipt_read_cell(&answer->receipts[i]);
    if (taken.units == 0 || !wr_usage_find(bound->usage, taken.number, taken.day, &view))
        return false;
    used = wr_quota_units((struct wr_quota_state){view.used, view.over});
    limit = bound->rules[answer->verdicts[i].plan].limit;
    out->units = taken.units;
    out->overage_units = taken.over_units;
    if (!bound->rules[answer->verdicts[i].plan].overage)
        out->grace_units = wr_max_i64(0, used - wr_max_i64(limit, used - taken.units));
    return true;
}
