/* Queries: any bytes. Held: what is decoded is never longer than what it came from and lies in the
 * scratch, and reading ends. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/query.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int held)
{
    if (!held)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1), *scratch = malloc(size + 1);
    struct wr_query query = {.at = copy, .end = copy + size, .scratch = scratch};
    struct weir_slice name, value;
    size_t decoded = 0, count = 0;

    if (copy != NULL && scratch != NULL) {
        memcpy(copy, data, size);
        while (wr_query_next(&query, &name, &value)) {
            decoded += name.len + value.len;
            must(decoded <= size && ++count <= size);
            must(query.scratch == scratch + decoded);
        }
        must(query.error != NULL || query.at == query.end);
    }
    free(copy);
    free(scratch);
    return 0;
}
