/* Any bytes as commands of RESP: arguments lie within the input (or the scratch), a prefix never
 * says anything but MORE or what the whole says. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/resp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
    if (!condition)
        abort();
}

static void check_args(const char *bytes, size_t size, const char *scratch,
                       const struct weir_slice *args, const struct wr_resp_command *command)
{
    for (unsigned i = 0; i < command->argc; i++) {
        const char *from = command->is_inline ? scratch : bytes;
        size_t room = command->is_inline ? WR_RESP_INLINE_MAX : size;
        int64_t value;
        must(args[i].ptr >= from && args[i].len <= room &&
             (size_t)(args[i].ptr - from) <= room - args[i].len);
        (void)wr_resp_integer(args[i], &value);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char scratch[WR_RESP_INLINE_MAX];
    static struct weir_slice args[WR_RESP_ARGS_MAX], again[WR_RESP_ARGS_MAX];
    struct wr_resp_limits limits = {size % 2 == 0 ? WR_RESP_ARGS_MAX : WR_RESP_ARGS_UNKNOWN,
                                    size % 3 == 0 ? WR_RESP_BULK_MAX : WR_RESP_BULK_UNKNOWN};
    struct wr_resp_command command, part;
    char *copy = malloc(size + 1);
    size_t at = 0;

    must(copy != NULL);
    memcpy(copy, data, size);
    while (at < size) {
        enum wr_resp_step step =
            wr_resp_parse(copy + at, size - at, &limits, scratch, args, &command);
        must(command.argc <= limits.args);
        if (step == WR_RESP_MORE || step == WR_RESP_BAD) {
            must(step == WR_RESP_MORE || command.error[0] != '\0');
            break;
        }
        must(command.consumed > 0 && command.consumed <= size - at);
        must((step == WR_RESP_COMMAND) == (command.argc > 0));
        check_args(copy + at, size - at, scratch, args, &command);
        must(wr_resp_parse(copy + at, command.consumed - 1, &limits, scratch, again, &part) ==
             WR_RESP_MORE);
        at += command.consumed;
    }
    free(copy);
    return 0;
}
