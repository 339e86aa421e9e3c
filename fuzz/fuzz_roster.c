/* Customers as a file: any bytes. Held: a roster or errors with their places, never both. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "meter/roster.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const plans[] = {"free", "pro"}, *const identities[] = {"api_key", "user"};
    const struct wr_roster_names names = {plans, 2, identities, 2};
    struct wr_roster *roster = NULL;
    static struct wr_diag diag;
    char *copy = malloc(size + 1);
    int result;

    if (copy == NULL)
        return 0;
    memcpy(copy, data, size); /* of its own, so that reading on is seen */
    wr_diag_init(&diag, "fuzz");
    result = wr_roster_load_text(&roster, copy, size, &names, &diag);
    if ((result == 0) != (roster != NULL) || (result == 0) != (diag.errors == 0))
        abort();
    wr_roster_free(roster);
    free(copy);
    return 0;
}
