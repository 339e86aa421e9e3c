/* Bodies of bans: any bytes. Held: what is taken names one caller, and lies in the body or in the
 * scratch; what is refused says why. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "doors/bans.h"
#include "wire/banjson.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int held)
{
    if (!held)
        abort();
}

static void look(struct weir_slice text)
{
    volatile char sum = 0;

    for (size_t i = 0; i < text.len; i++)
        sum = (char)(sum + text.ptr[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1), *scratch = malloc(size + 1);
    struct wr_ban_body body;
    int64_t until_ns;

    if (copy != NULL && scratch != NULL) {
        memcpy(copy, data, size);
        if (wr_ban_body_read(&body, (struct weir_slice){copy, size}, scratch)) {
            const struct wr_ban_clock clock = {1, 1};
            must(body.identity.ptr != NULL && body.value.ptr != NULL);
            must(body.lasts.ptr == NULL || body.until.ptr == NULL);
            look(body.identity);
            look(body.value);
            look(body.reason);
            if (wr_ban_end(body.lasts, body.until, clock, &until_ns) == NULL)
                must(until_ns == WEIR_BAN_FOREVER || until_ns > 1);
        } else {
            must(body.error != NULL);
        }
        look(body.member);
    }
    free(copy);
    free(scratch);
    return 0;
}
