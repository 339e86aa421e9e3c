/* report.h - what the database says was used: by customer, by day, by month, for bills; and whether
 * it is right. Sums over the nodes in it. What was used since the last flush is in the cells only:
 * whoever can read them (cells.h) puts it in its place. */
#ifndef WR_METER_REPORT_H
#define WR_METER_REPORT_H

#include "meter/customers.h"

/* A quota as the database knows it. */
struct wr_report_quota {
    int64_t id;
    char name[65];
    uint8_t per; /* enum wr_per */
    char zone[65];
};

/* What a customer used of a quota in a window, or on one of its days. */
struct wr_report_line {
    int64_t customer;
    char name[WR_CUSTOMER_NAME_MAX + 1]; /* and its tenant and plan as they are now */
    char tenant[WR_CUSTOMER_NAME_MAX + 1];
    char plan[WR_CUSTOMER_PLAN_MAX + 1];
    struct wr_report_quota quota;
    int32_t window; /* its first civil day */
    int32_t day;    /* of lines by day; otherwise window */
    uint64_t used;  /* units, overage included */
    uint64_t over;  /* of them; 0 in lines by day of longer windows: see over_known */
    bool over_known;
    int32_t last;   /* its last civil day; of a sum, that of the window that ends last */
    bool closed;    /* at filter.now_ns that day was over: nothing is added any more */
    unsigned nodes; /* whose rows are in it */
};
typedef bool wr_report_fn(void *context, const struct wr_report_line *line);

/* Which lines: those that all of these are true of. */
struct wr_report_filter {
    int64_t customer;    /* 0: any */
    const char *quota;   /* its name; NULL: any */
    const char *tenant;  /* NULL: any */
    uint8_t per;         /* enum wr_per; 0: any */
    int32_t first, last; /* days from the first to the last of these; windows that end on them */
    bool by_start;       /* windows that begin on them */
    int64_t now_ns;
    bool over_only; /* with overage */
    int64_t most;   /* lines; 0: all */
};

/* A window belongs whole to the day it ends on, units and overage, and so to one month: whoever
 * bills by months bills each window once.
 *
 * Windows, by customer's name, quota, window. Calls |each| until it returns false. 0 or an error of
 * the database; so all below. */
int wr_report_windows(struct wr_database *database, const struct wr_report_filter *filter,
                      wr_report_fn *each, void *context);
/* Days: of windows of a day themselves, of longer ones what each day added. */
int wr_report_days(struct wr_database *database, const struct wr_report_filter *filter,
                   wr_report_fn *each, void *context);
/* Customers by what they used in the windows that end from the first to the last day, the largest
 * first: a line for each customer and quota. */
int wr_report_top(struct wr_database *database, const struct wr_report_filter *filter,
                  wr_report_fn *each, void *context);
/* The same, by customer's name: the report of a month. */
int wr_report_totals(struct wr_database *database, const struct wr_report_filter *filter,
                     wr_report_fn *each, void *context);
int wr_report_quotas(struct wr_database *database,
                     bool (*each)(void *context, const struct wr_report_quota *quota),
                     void *context);

/* Windows that ended on |*last| or earlier may have been deleted, by customers.keep: reports of
 * days up to it may lack some. INT32_MIN: none was. */
int wr_report_gone(struct wr_database *database, int32_t *last);

/* ---- is it right -------------------------------------------------------------------------------
 */

struct wr_verify {
    uint64_t windows, customers, nodes; /* looked at */
    uint64_t used, over;                /* their sums */
    uint64_t wrong;                     /* lines that |say| got; or the database is damaged */
    uint64_t waiting;                   /* units that cells and ledger differ by, to be written */
};
typedef void wr_verify_say_fn(void *context, const char *text);

/* The file is sound, days add up to their windows, no overage is more than what was used, every row
 * has its customer. Adds to |out|: over several databases, all of them. */
int wr_verify_database(struct wr_database *database, struct wr_verify *out, wr_verify_say_fn *say,
                       void *context);

/* The name of a node that both have rows of, as a database and its copy do: their sums are not to
 * be added. Empty: there is none. */
int wr_verify_same_node(struct wr_database *database, struct wr_database *other, char *out,
                        size_t size);

/* How many customers with rows in |database| have some in one of the |count| |earlier| ones too
 * (NULL: none). */
int wr_verify_repeated(struct wr_database *database, struct wr_database *const *earlier,
                       size_t count, uint64_t *out);

struct wr_verify_look {
    const char *directory;
    int64_t now_ns;
    const char *const *quotas; /* of the policy: they have files */
    size_t quota_count;
};

/* The rows of this node are what the cells in the directory say, or will be: what is counted and
 * not written yet is |out->waiting|, and not wrong. A file that cannot be read is wrong, one that
 * is missing, and one that the ledger was not written from. Looks again, seconds in all at most,
 * where something changes meanwhile. WEIR_ENOENT: there is no customers.map. */
int wr_verify_cells(struct wr_database *database, const struct wr_verify_look *look,
                    struct wr_verify *out, wr_verify_say_fn *say, void *context);

#endif
