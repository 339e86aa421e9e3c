/* verify_parts.h - what the parts of looking at a ledger share. Internal to src/meter. */
#ifndef WR_METER_VERIFY_PARTS_H
#define WR_METER_VERIFY_PARTS_H

#include "meter/report.h"
#include "store/customers.h"
#include "store/usage.h"

struct wr_verifying {
    struct wr_database *database;
    struct wr_verify *out;
    wr_verify_say_fn *say;
    void *context;
    const struct wr_verify_look *look;
    struct wr_customers *map;
    int64_t node;
    unsigned naps; /* that may still be taken, of all cells together */
};

/* Something is wrong: said and counted. */
void wr_verify_complain(struct wr_verifying *verify, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A day as people write it. */
struct wr_verify_date {
    char text[24];
};
struct wr_verify_date wr_verify_date_of(int32_t day);

/* The only row of |sql|: three numbers. */
int wr_verify_three(struct wr_database *database, const char *sql, int64_t out[3]);

#endif
