/* Any bytes as messages of a ring: what is read lies within them, and is written again to the same
 * bytes; a prefix is never a message. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/ring.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char again[WR_RING_ASK_BYTES + WR_RING_ITEM_BYTES];

static void must(int condition)
{
    if (!condition)
        abort();
}

static void same(struct weir_slice bytes, size_t len)
{
    must(len == bytes.len && memcmp(again, bytes.ptr, len) == 0);
}

static void check_key(struct weir_slice all, const struct wr_ring_key *key)
{
    must(key->name.len > 0 && key->name.len <= WR_RING_NAME_MAX && key->name.ptr >= all.ptr &&
         key->name.ptr + key->name.len <= all.ptr + all.len);
}

static void try_ask(struct weir_slice bytes)
{
    static struct wr_ring_ask ask;

    if (!wr_ring_ask_read(bytes, &ask))
        return;
    must(ask.count >= 1 && ask.count <= WEIR_LIMITS_MAX && ask.nodes >= 1);
    for (unsigned i = 0; i < ask.count; i++)
        check_key(bytes, &ask.charge[i].key);
    same(bytes, wr_ring_ask_write(again, sizeof again, &ask));
    must(bytes.len <= WR_RING_ASK_BYTES);
    must(!wr_ring_ask_read((struct weir_slice){bytes.ptr, bytes.len - 1}, &ask));
}

static void try_answer(struct weir_slice bytes)
{
    static struct wr_ring_answer answer;

    if (!wr_ring_answer_read(bytes, &answer))
        return;
    must(answer.count <= WEIR_LIMITS_MAX && bytes.len <= WR_RING_ANSWER_BYTES);
    same(bytes, wr_ring_answer_write(again, sizeof again, &answer));
}

static void try_hello(struct weir_slice bytes)
{
    struct wr_ring_hello hello;

    if (!wr_ring_hello_read(bytes, &hello))
        return;
    must(bytes.len <= WR_RING_HELLO_BYTES && hello.status < WR_RING_STATUSES);
    same(bytes, wr_ring_hello_write(again, sizeof again, &hello));
}

static void try_items(struct weir_slice bytes)
{
    static struct wr_ring_item item;

    while (bytes.len > 0) {
        struct weir_slice rest = bytes;
        size_t len;
        if (!wr_ring_item_read(&rest, &item))
            return;
        len = bytes.len - rest.len;
        must(len > 0 && len <= WR_RING_ITEM_BYTES && item.stamps <= WR_RING_STAMPS_MAX);
        check_key(bytes, &item.key);
        same((struct weir_slice){bytes.ptr, len}, wr_ring_item_write(again, sizeof again, &item));
        bytes = rest;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1);
    struct weir_slice bytes = {copy, size};

    must(copy != NULL);
    memcpy(copy, data, size);
    try_ask(bytes);
    try_answer(bytes);
    try_hello(bytes);
    try_items(bytes);
    free(copy);
    return 0;
}
