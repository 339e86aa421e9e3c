/* azure_mend.h - the expressions in a policy document of Azure, made XML. Internal to src/import.
 */
#ifndef WR_IMPORT_AZURE_MEND_H
#define WR_IMPORT_AZURE_MEND_H

#include <stdbool.h>
#include <stddef.h>

/* A copy of |text| with what XML has no room for as entities, to be freed, terminated; NULL: out of
 * memory. */
char *wr_azure_mend(const char *text, size_t len, size_t *mended_len);

#endif
