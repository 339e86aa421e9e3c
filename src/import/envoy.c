/* envoy.c - a file of envoyproxy/ratelimit: weir reads it as it is, so the policy only names it. */
#include "import/draft.h"

#include <string.h>

void wr_import_envoy(struct wr_draft *draft, const char *name, const char *text, size_t len)
{
    const struct wr_yaml *root = wr_import_tree(draft, text, len);

    if (root == NULL)
        return;
    if (wr_import_member(root, "domain") == NULL) {
        wr_draft_error(draft, root->line, root->column,
                       "expected a file of envoyproxy/ratelimit, with a domain");
        return;
    }
    if (strcmp(name, "-") == 0) {
        wr_draft_error(draft, 0, 0, "the policy names the file: give its path, not -");
        return;
    }
    draft->envoy_file = wr_draft_text(draft, "%s", name);
    wr_draft_note(draft, 0, 0,
                  "the file stays as it is, and is read by its own rules; what differs from the "
                  "reference is in docs/envoy.md");
}
