/* options.h - the options of a command, read one by one. */
#ifndef WR_CLI_OPTIONS_H
#define WR_CLI_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

struct wr_options {
    const char *shorts;
    const struct option *longs; /* at most 64; each short option is one of them too */
    uint64_t given;             /* by place in |longs| */
    bool twice;                 /* it was said that one was given twice */
};

/* As getopt_long, but for an option that has a value and was given before: that is said, and is
 * '?' too. Which of the two was meant nobody knows. */
int wr_options_next(struct wr_options *options, int argc, char **argv);

#endif
