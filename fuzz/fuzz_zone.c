/* A file of the tz database, of any bytes: no crash, and days that begin in order. */
#include <stdint.h>
#include <stdlib.h>

#include "base/zone.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *why = NULL;
    struct wr_zone *zone = wr_zone_parse(data, size, &why);
    int64_t before = INT64_MIN;

    require((zone == NULL) == (why != NULL));
    for (int64_t day = 0; zone != NULL && day < 60000; day += 1 + day / 16) {
        int64_t start = wr_zone_day_start_s(zone, day);
        require(start >= before && start >= (day - 2) * 86400 && start <= (day + 2) * 86400);
        require((start + wr_zone_offset_s(zone, start)) / 86400 >= day || day < 3);
        before = start;
    }
    wr_zone_free(zone);
    return 0;
}
