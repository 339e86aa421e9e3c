/* Frames of HTTP/2 of any bytes, in pieces of any size, behind a good preface: the session answers,
 * or ends, and leaves nothing behind. */
#include <stdlib.h>
#include <string.h>

#include "doors/grpc_session.h"

#define OUTPUT_MAX ((size_t)8 << 20)

static size_t written;

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* The call that was held last, until it is dropped; every second time it is asked for is answered.
 */
static struct wr_grpc_stream *held;

static bool call(void *context, const struct wr_grpc_call *what, struct wr_grpc_reply *reply)
{
    volatile uint8_t sink = 0; /* a sanitizer sees every byte being read */
    size_t len = what->len;

    (void)context;
    require(what->method == &held && len <= WR_GRPC_MESSAGE_MAX);
    for (size_t i = 0; i < len; i++)
        sink ^= what->bytes[i];
    (void)sink;
    if (len % 5 == 2 && *what->kept == NULL) {
        held = what->stream;
        *what->kept = held;
        return false;
    }
    *reply = (struct wr_grpc_reply){len % 3 == 1 ? WR_GRPC_UNKNOWN : WR_GRPC_OK, "no\n",
                                    what->bytes, len < 100 ? len : 100};
    return true;
}

static void dropped(void *context, void *kept)
{
    (void)context;
    require(kept != NULL);
    if (kept == held)
        held = NULL;
}

static const void *find(void *context, struct weir_slice path)
{
    (void)context;
    return path.len > 0 && path.ptr[0] == '/' ? &held : NULL;
}

static void bad(void *context)
{
    (void)context;
}

static int write_bytes(void *context, const void *bytes, size_t len)
{
    (void)context;
    (void)bytes;
    written += len;
    require(written < OUTPUT_MAX);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    static const struct wr_grpc_events events = {call, dropped, find, bad, write_bytes};
    struct wr_grpc_spare spare = {NULL, 0};
    struct wr_grpc *grpc = wr_grpc_new(&events, NULL, &spare, 0);
    size_t piece = size > 0 ? (size_t)data[0] + 1 : 1;
    int result;
    bool late;

    written = 0;
    held = NULL;
    require(grpc != NULL);
    result = wr_grpc_read(grpc, preface, sizeof preface - 1, 0);
    for (size_t at = 1; at < size && result == 0; at += piece) {
        size_t len = size - at < piece ? size - at : piece;
        result = wr_grpc_read(grpc, data + at, len, (int64_t)at * 1000);
        if (result == 0 && at % 7 == 0)
            result = wr_grpc_drain(grpc);
        if (result == 0 && at % 11 == 0)
            result = wr_grpc_tick(grpc, (int64_t)at * WR_NS_PER_S, &late);
        if (result == 0 && at % 5 == 0 && held != NULL)
            result = wr_grpc_resume(grpc, held, (int64_t)at * 1000);
        if (result == 0 && at % 77 == 0)
            result = wr_grpc_drain_end(grpc);
    }
    wr_grpc_free(grpc);
    wr_grpc_spare_free(&spare);
    return 0;
}
