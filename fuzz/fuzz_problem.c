/* Any strings and numbers: the body fits or is refused, is terminated, and has no byte that JSON
 * forbids. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/problem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wr_problem problem = {.status = 429};
    size_t room, len;
    char *text, *buffer;
    int n;

    if (size < 36)
        return 0;
    problem.reason = (enum weir_reason)(data[0] % 8);
    room = (size_t)data[1] * 16;
    problem.violated_count = data[2] % (WEIR_LIMITS_MAX + 1);
    memcpy(&problem.quota_units, data + 4, 8);
    memcpy(&problem.window_ns, data + 12, 8);
    memcpy(&problem.retry_after_ns, data + 20, 8);
    len = size - 36;
    text = malloc(len + 1);
    buffer = malloc(room + 1);
    if (text == NULL || buffer == NULL)
        abort();
    memcpy(text, data + 36, len);
    text[len] = '\0';
    problem.limit = text;
    problem.plan = text + len / 2;
    problem.documentation_url = text + len;
    for (size_t i = 0; i < problem.violated_count; i++)
        problem.violated[i] = text + (len * i) / WEIR_LIMITS_MAX;
    n = wr_problem_write(&problem, buffer, room);
    if (n != WEIR_EFULL &&
        (n <= 0 || (size_t)n >= room || strlen(buffer) != (size_t)n || buffer[n - 1] != '}'))
        abort();
    for (int i = 0; i < n; i++)
        if ((unsigned char)buffer[i] < 0x20)
            abort();
    free(text);
    free(buffer);
    return 0;
}
