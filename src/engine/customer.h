/* customer.h - who the customers are, for decisions: the files of customers and usage that belong
 * to a policy, and looking up whose request it is. */
#ifndef WR_ENGINE_CUSTOMER_H
#define WR_ENGINE_CUSTOMER_H

#include "algo/quota.h"
#include "base/diag.h"
#include "engine/engine.h"
#include "policy/policy.h"
#include "store/customers.h"
#include "store/usage.h"

struct wr_ballot;

#define WR_KNOWN_PREFETCH 4 /* cells that are fetched as soon as it is known whose they are */
#define WR_KNOWN_BY 8       /* identities that lead to a customer */

struct wr_known {
    struct wr_customers *map;
    const struct wr_policy *policy;
    unsigned by_count;
    struct wr_customers_identity by[WR_KNOWN_BY];
    bool confirm;  /* an upgrade is to be confirmed first */
    bool supposed; /* suppose.c: whoever comes is a customer */
    bool supposed_full;
    uint32_t supposed_count;
    struct wr_supposed_upgrade upgraded; /* then: the last one, not yet told */
    unsigned prefetch_count;
    struct wr_usage *prefetch[WR_KNOWN_PREFETCH];
    uint8_t plan_of[WR_CUSTOMER_PLANS]; /* atomic: 0 not looked up yet, plan + 1, NO_PLAN */
};

/* Where the files are. */
struct wr_known_place {
    const char *directory;
    uint32_t room; /* of new ones */
    bool supposed;
};

/* Open them as those of |engine|, which has none. */
int wr_known_open(struct wr_engine *engine, const struct wr_known_place *place,
                  struct wr_diag *diag);

/* |value| of customers.by[|by|] leads to nobody: make it a customer's. False: there is no room. */
bool wr_known_suppose(struct wr_known *known, unsigned by, struct weir_slice value,
                      uint32_t *number);

/* The customer of |selection| moves to |plan|, and |again| is asked under it. */
bool wr_known_move(struct wr_known *known, const struct wr_selection *selection, int plan,
                   struct weir_request *again);

/* Whose request it may be, found out ahead, so that fetching what he needs takes place during other
 * work. */
struct wr_known_early {
    struct weir_slice value; /* of the first identity that leads to a customer; len 0: none */
    uint64_t hash;
    uint32_t guess; /* UINT32_MAX: none, or not yet */
};

/* Start fetching what says whom |request|'s value leads to. */
void wr_known_expect(const struct wr_engine *engine, const struct weir_request *request,
                     struct wr_known_early *early);
/* A while later: start fetching his record and what he has used. */
void wr_known_guess(const struct wr_engine *engine, struct wr_known_early *early);

/* wr_policy_select_with the customers that there are. |early| is of this request, guessed; NULL: it
 * begins here. */
void wr_known_select(struct wr_engine *engine, const struct weir_request *request, int64_t now,
                     const struct wr_known_early *early, struct wr_selection *out);

/* The customer that |value| leads to, as any of the policy's identities does, tried in order.
 * False: none. */
bool wr_known_find(struct wr_engine *engine, struct weir_slice value, int64_t now,
                   struct wr_customer_seen *out);

/* The plan in the policy of a customer; -1: it has no such. */
int wr_known_plan(struct wr_engine *engine, const struct wr_customer_seen *customer);

/* |b|, made by |selection|, is refused. If that is so by quotas alone that say on_exceed: upgrade,
 * the customer wants to be upgraded from now on (but where |again| is a peek), and unless that is
 * to be confirmed, |again| is given the next plan: true. Not for one who is upgraded already and
 * whom nobody has moved yet: one step at a time, so that each is recorded. */
bool wr_known_upgrade(struct wr_engine *engine, const struct wr_ballot *b,
                      const struct wr_selection *selection, int64_t now,
                      struct weir_request *again);

/* |customer| has come to the end of a quota that says upgrade, and wants it from now on (but where
 * it was but a |peek|). True: the next plan holds at once, as above. */
bool wr_known_want(struct wr_engine *engine, const struct wr_customer_seen *customer, bool peek,
                   int64_t now);

/* wr_engine_check_one of a quota with cells: |key| is the value of an identity that leads to a
 * customer, whose plan holds; whoever is unknown passes. Writes the verdict and the receipt. */
void wr_customer_check(struct wr_engine *engine, unsigned limit, struct weir_slice key,
                       int64_t cost, int64_t now, struct weir_answer *answer);

/* wr_engine_peek of such a quota; false also where |key|, the value of an identity, leads to
 * nobody.
 */
bool wr_customer_peek(struct wr_engine *engine, const struct wr_selected *key, unsigned plan,
                      int64_t now, struct weir_verdict *out);

void wr_known_close(struct wr_engine *engine);

#endif
