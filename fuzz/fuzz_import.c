/* Configurations of other limiters, of any bytes: no crash, and whatever is taken for one becomes a
 * policy, without errors but where a number is beyond what weir has.
 *
 * Input: which format 1 byte, then the file. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "import/draft.h"
#include "policy/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static wr_import_reader *const readers[] = {wr_import_aws,  wr_import_azure, wr_import_envoy,
                                                wr_import_kong, wr_import_nginx, wr_import_tyk};
    static struct wr_diag diag;
    struct wr_draft draft = {.diag = &diag};
    FILE *out = fopen("/dev/null", "w");
    char *text;

    if (size == 0 || out == NULL || memchr(data + 1, '\0', size - 1) != NULL) {
        if (out != NULL)
            (void)fclose(out);
        return 0;
    }
    text = calloc(size, 1); /* terminated: one byte was the format */
    if (text == NULL)
        abort();
    memcpy(text, data + 1, size - 1);
    wr_diag_init(&diag, "fuzz");
    readers[data[0] % 6](&draft, "fuzz", text, size - 1);
    if (diag.errors == 0)
        wr_draft_prove(&draft);
    if (diag.errors == 0 && !wr_draft_print(&draft, "fuzz", out))
        abort();
    (void)fclose(out);
    free(text);
    wr_draft_fini(&draft);
    return 0;
}
