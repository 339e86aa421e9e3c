/* log.c - the section `log`: what the daemon writes down of what it refuses. */
#include "policy/loader.h"

#define REFUSED_DEFAULT 10U
#define REFUSED_MAX 1000

static void read_per_second(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    int64_t lines;

    (void)into;
    if (wr_read_int(ld, value, "per_second", 0, REFUSED_MAX, &lines))
        ld->policy->settings.log_refused_per_second = (unsigned)lines;
}

static void read_refused(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    static const struct wr_key keys[] = {{"per_second", read_per_second}};
    static const struct wr_map_spec spec = {"refused", keys, sizeof keys / sizeof keys[0], false};

    (void)wr_read_map(ld, value, &spec, into);
}

void wr_read_log(struct wr_loader *ld)
{
    static const struct wr_key keys[] = {{"refused", read_refused}};
    static const struct wr_map_spec spec = {"log", keys, sizeof keys / sizeof keys[0], false};
    const struct wr_yaml *node = ld->sections[WR_SECTION_LOG];

    ld->policy->settings.log_refused_per_second = REFUSED_DEFAULT;
    if (node != NULL)
        (void)wr_read_map(ld, node, &spec, NULL);
}
