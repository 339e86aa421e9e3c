/* options.c - see options.h. */
#include "cli/options.h"

#include <stdio.h>

int wr_options_next(struct wr_options *options, int argc, char **argv)
{
    int option = getopt_long(argc, argv, options->shorts, options->longs, NULL);

    for (unsigned i = 0; options->longs[i].name != NULL; i++) {
        if (options->longs[i].val != option)
            continue;
        if ((options->given >> i & 1) != 0 && options->longs[i].has_arg == required_argument) {
            (void)fprintf(stderr, "%s: --%s: given twice\n", argv[0], options->longs[i].name);
            options->twice = true;
            return '?';
        }
        options->given |= UINT64_C(1) << i;
        break;
    }
    return option;
}
