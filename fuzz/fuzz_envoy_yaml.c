/* A configuration of envoyproxy/ratelimit of any bytes: refused with messages, or every rule in it
 * has a limit that holds, and descriptors meet rules that are there. */
#include <stdlib.h>
#include <string.h>

#include "policy/envoy_read.h"

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_rules(const struct wr_envoy *envoy)
{
    for (size_t i = 0; i < wr_envoy_rule_count(envoy); i++) {
        const struct wr_envoy_rule *rule = wr_envoy_rule(envoy, i);
        require(rule->index == i && rule->path[0] != '\0');
        require(rule->unlimited || wr_limit_valid(&rule->limit));
        for (size_t j = 0; j < rule->replaces_count; j++)
            require(rule->replaces[j][0] != '\0');
    }
}

/* Descriptors made of the input's own words. */
static void check_matches(const struct wr_envoy *envoy, const char *text, size_t size)
{
    struct wr_entry entries[WR_ENTRIES_MAX];
    struct wr_descriptor descriptor = {.entries = entries};
    struct wr_envoy_match match;
    size_t at = 0, words = 0;
    struct weir_slice word[2] = {{"", 0}, {"", 0}};

    for (; at < size && words < 200; words++) {
        size_t start = at;
        while (at < size && strchr(" :\n{},\"", text[at]) == NULL)
            at++;
        word[words % 2] = (struct weir_slice){text + start, at - start};
        at += at < size;
        entries[words % WR_ENTRIES_MAX] = (struct wr_entry){word[(words + 1) % 2], word[words % 2]};
        descriptor.count = words < WR_ENTRIES_MAX ? words + 1 : words % WR_ENTRIES_MAX;
        for (uint32_t domain = 0; domain < 1 && domain < envoy->node_count; domain++) {
            wr_envoy_find(envoy, (int)domain, &descriptor, &match);
            require(match.rule == NULL || wr_envoy_rule(envoy, match.rule->index) == match.rule);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct wr_diag diag;
    struct wr_region region = {0}, scratch = {0};
    struct wr_loader ld = {.region = &region, .scratch = &scratch, .diag = &diag};
    struct wr_envoy *envoy = wr_region_take(&region, 1, sizeof *envoy);

    wr_diag_init(&diag, "fuzz");
    if (envoy != NULL) {
        wr_envoy_read_text(&ld, envoy, (const char *)data, size);
        if (diag.errors == 0 && !region.failed && !scratch.failed) {
            require(envoy->node_count > 0);
            check_rules(envoy);
            check_matches(envoy, (const char *)data, size);
        }
    }
    wr_region_fini(&scratch);
    wr_region_fini(&region);
    return 0;
}
