/* Rates, durations, sizes and counts of any bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "policy/rate.h"

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* A rate in words, read again with "/" for " per ", is the same. */
static void check_rate(const struct wr_rate *rate)
{
    struct wr_rate again;
    char words[64], *per;
    size_t at;

    require(rate->units >= 0 && rate->window_ns > 0 && rate->burst >= -1 && rate->queue >= -1);
    require(rate->burst < 0 || rate->queue < 0);
    wr_rate_words(rate->units, rate->window_ns, words, sizeof words);
    per = strstr(words, " per ");
    require(per != NULL);
    memmove(per + 1, per + 5, strlen(per + 5) + 1);
    *per = '/';
    require(wr_rate_parse((struct weir_slice){words, strlen(words)}, &again, &at) == NULL);
    require(again.units == rate->units && again.window_ns == rate->window_ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weir_slice text = {(const char *)data, size};
    struct wr_rate rate;
    uint64_t bytes;
    int64_t n;
    size_t at;

    if (wr_rate_parse(text, &rate, &at) == NULL && !rate.unlimited)
        check_rate(&rate);
    require(at <= size);
    if (wr_duration_parse(text, &n, &at) == NULL)
        require(n > 0 && at == size);
    require(at <= size);
    (void)wr_size_parse(text, &bytes, &at);
    require(at <= size);
    if (wr_count_parse(text, 1000, &n, &at) == NULL)
        require(n >= 0 && n <= 1000);
    require(at <= size);
    return 0;
}
