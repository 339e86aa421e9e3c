/* Bodies of changes to a customer: any bytes. Held: what is taken lies in the body or in the
 * scratch and is within its bounds; what is refused says why. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/customerjson.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int held)
{
    if (!held)
        abort();
}

static void look(struct weir_slice text)
{
    for (size_t i = 0; i < text.len; i++)
        must(text.ptr[i] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1), *scratch = malloc(size + 1);
    struct wr_customer_body body;

    if (copy != NULL && scratch != NULL) {
        memcpy(copy, data, size);
        if (wr_customer_body_read(&body, (struct weir_slice){copy, size}, scratch)) {
            const struct weir_slice texts[] = {
                body.name,      body.plan,   body.tenant,   body.trial_plan, body.trial_until,
                body.trial_for, body.reason, body.identity, body.value,      body.prefix};
            for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
                look(texts[i]);
            must(body.anchor == -1 || (body.anchor >= 1 && body.anchor <= 31));
            must(body.partner >= -1 && body.partner <= 1);
        } else {
            must(body.error != NULL);
            must(body.member.len <= size);
        }
    }
    free(copy);
    free(scratch);
    return 0;
}
