/* Requests of HTTP/1.1: any bytes. Held: what one piece gives, two pieces give; what is read lies
 * within the input; and what is waited for is bounded. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/http1.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char scratch[2][WR_HTTP_BODY_MAX];
static struct wr_http_request whole, pieces;

static void must(int held)
{
    if (!held)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wr_http_parser one = {0}, two = {0};
    enum wr_http_step step, again;
    size_t cut = size > 0 ? data[size - 1] * size / 256 : 0;
    char *copy = malloc(size + 1);

    if (copy == NULL)
        return 0;
    memcpy(copy, data, size);
    step = wr_http_parse(&one, copy, size, scratch[0], &whole);
    again = wr_http_parse(&two, copy, cut, scratch[1], &pieces);
    if (again == WR_HTTP_MORE || again == WR_HTTP_CONTINUE) {
        bool told = again == WR_HTTP_CONTINUE;
        again = wr_http_parse(&two, copy, size, scratch[1], &pieces);
        if (told && step == WR_HTTP_CONTINUE)
            step = WR_HTTP_MORE;
        must(step == again);
        must(step != WR_HTTP_DONE || one.consumed == two.consumed);
    } else if (again == WR_HTTP_DONE) {
        must(step == WR_HTTP_DONE && one.consumed == two.consumed);
    }
    if (step == WR_HTTP_DONE) {
        must(one.consumed <= size && one.consumed > 0);
        must(whole.field_count <= WR_HTTP_FIELDS_MAX && whole.body.len <= WR_HTTP_BODY_MAX);
        must(whole.target.len > 0 && memchr(whole.target.ptr, ' ', whole.target.len) == NULL);
    } else if (step != WR_HTTP_BAD) {
        must(size < WR_HTTP_INPUT_MAX);
    }
    free(copy);
    return 0;
}
