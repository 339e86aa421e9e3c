/* ledger.h - what a node was granted for one key of one limit: the truth that its lease must keep
 * to. */
#ifndef TEST_SIM_LEDGER_H
#define TEST_SIM_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#define LEDGER_ROWS 32U
#define PIECES 6U

struct granted {
    int64_t units;
    int64_t end_ns;  /* by the store's clock */
    unsigned epoch;  /* what the store knew then */
    uint64_t number; /* of the request that it came with */
};

struct ledger {
    struct granted row[LEDGER_ROWS];
    unsigned count;
    /* Granted while there were others, so that the node has all end with the first; or evicted:
     * what is given back may be stranded. */
    bool merged;
    unsigned turns; /* how often it has changed */
    int64_t left;   /* granted and neither spent nor given back, whether it has ended or not */
    uint64_t lease; /* its key in the arena; 0: not known yet */
};

/* What was spent, to be given back. */
struct spent {
    struct granted piece[PIECES];
    unsigned count;
    int64_t at_ns;
    int64_t units; /* of them, those that the store of this epoch granted */
    unsigned epoch;
    unsigned turn; /* of the ledger, after it */
};

void ledger_add(struct ledger *ledger, struct granted granted, int64_t now_ns);

/* Take |units| out at |now_ns|, of what ends first. False: there are not so many that have not
 * ended. */
bool ledger_spend(struct ledger *ledger, int64_t units, int64_t now_ns, struct spent *spent);

/* Take |units| out to be given back, also of what has ended. False: there are not so many. */
bool ledger_return(struct ledger *ledger, int64_t units, int64_t now_ns);

int64_t ledger_units(const struct ledger *ledger, int64_t now_ns);

#endif
