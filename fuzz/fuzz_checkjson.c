/* Requests of the HTTP door as JSON: any bytes, in each of the four forms. Held: what is read lies
 * in the body or in the scratch memory, and an error has a place. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/checkjson.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FIELDS 2

static const char *const names[FIELDS] = {"X-Api-Key", "user"};
static const enum weir_field_kind kinds[FIELDS] = {WEIR_FIELD_HEADER, WEIR_FIELD_KEY};
static struct weir_request requests[WR_CHECK_BATCH_MAX];
static struct weir_slice fields[WR_CHECK_BATCH_MAX * FIELDS];

static int find_plan(const void *context, struct weir_slice name)
{
    (void)context;
    return name.len == 3 ? 0 : WEIR_ENOENT;
}

/* Touch every byte, for the sanitizer. */
static void touch(struct weir_slice slice)
{
    static volatile unsigned char sum;

    for (size_t i = 0; i < slice.len; i++)
        sum = (unsigned char)(sum + (unsigned char)slice.ptr[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *body, *scratch;

    if (size > 1 << 16)
        return 0;
    body = malloc(size + 1);
    scratch = malloc(size + 1);
    if (body == NULL || scratch == NULL)
        abort();
    memcpy(body, data, size);
    for (int form = WR_CHECK_FORM; form <= WR_RELEASE_FORM; form++) {
        struct wr_check_reader reader = {.form = (enum wr_check_form)form,
                                         .field_count = FIELDS,
                                         .field_names = names,
                                         .field_kinds = kinds,
                                         .find_plan = find_plan,
                                         .scratch = scratch,
                                         .requests = requests,
                                         .fields = fields};
        if (!wr_check_read(&reader, (struct weir_slice){body, size})) {
            if (reader.error == NULL || reader.offset > size ||
                reader.member_len > WR_CHECK_MEMBER_MAX)
                abort();
            continue;
        }
        touch(reader.id);
        touch(reader.ttl);
        for (size_t i = 0; i < reader.count; i++) {
            touch(requests[i].peer);
            touch(requests[i].method);
            touch(requests[i].path);
            for (size_t f = 0; f < FIELDS; f++)
                touch(requests[i].fields[f]);
        }
    }
    free(body);
    free(scratch);
    return 0;
}
