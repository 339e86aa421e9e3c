/* Any bytes in an arena: opening refuses or takes it; decisions and the checker end, inside the
 * mapping; after a repair the checker finds nothing.
 *
 * The input is a list of patches to a small arena with words and lists in it: three bytes of
 * offset, one of length, the bytes. Odd inputs patch the file before it is opened, even ones patch
 * the mapping of an open arena, as another process with a bug would. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "algo/limit.h"
#include "engine/engine.h"
#include "store/ban.h"
#include "store/check.h"
#include "store/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BYTES WR_ARENA_BYTES_MIN
#define NOW (INT64_C(1700000000) * 1000000000)
#define KEYS 64

static char path[64];
static uint8_t pristine[BYTES];
static struct wr_arena *arena;
static struct wr_arena_report report;
static struct wr_diag diag;
static uint16_t word_class, list_class;

static uint64_t hash_of(uint64_t key)
{
    return (key + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static void decide_some(void)
{
    const struct wr_worth worth = {UINT64_C(1) << 31, 1000000000};

    for (uint64_t key = 0; key < KEYS; key++) {
        struct wr_slot_view view;
        struct wr_log log;
        int64_t oldest, newest, stamp;

        (void)wr_log_peek(arena, hash_of(key), list_class, NOW, &oldest, &newest);
        if (key % 2 == 0) {
            wr_slot_find(arena, hash_of(key), &view);
            (void)wr_slot_put(arena, hash_of(key), &view, word_class, key + 1, &worth, NOW);
        } else if (wr_log_open(&log, arena, hash_of(key), list_class, &worth, NOW) == 0) {
            (void)wr_log_append(&log, (uint32_t)key % 40, &stamp);
            (void)wr_log_remove(&log, wr_log_stamp(&log, log.live / 2), 2);
            wr_log_close(&log);
        }
    }
}

static void ban_some(void)
{
    struct wr_ban ban = {.until_ns = NOW + 1, .kind = WR_BAN_NET, .net.prefix = 120};
    uint32_t at = 0;

    for (uint64_t key = 0; key < KEYS; key++) {
        ban.hash = hash_of(key % 8 * 4096 + key / 8);
        (void)wr_ban_until(arena, ban.hash, NOW);
        (void)(key % 3 == 0 ? wr_ban_lift(arena, ban.hash, NOW) : wr_ban_put(arena, &ban, NOW));
    }
    while (wr_ban_next(arena, NOW, &at, &ban))
        continue;
}

static int open_file(void)
{
    struct wr_arena_options options = {.path = path, .must_exist = true, .judge = wr_engine_judge};

    wr_diag_init(&diag, path);
    return wr_arena_open(&arena, &options, &diag);
}

static void remove_file(void)
{
    (void)unlink(path);
}

static uint16_t class_of(enum wr_algo algo)
{
    struct wr_class class = {.log_window_ns = 0};
    struct wr_limit limit;
    uint16_t number;

    if (wr_limit_make(&limit, algo, 100, INT64_C(1000000000), -1, false) != NULL)
        abort();
    memcpy(class.params, &limit, sizeof limit);
    if (algo == WR_SLIDING_LOG) {
        class.log_window_ns = limit.window_ns;
        class.log_tick_ns = limit.tick_ns;
    }
    if (wr_arena_class(arena, &class, &number) != 0)
        abort();
    return number;
}

/* Make the arena and keep its bytes. */
static void prepare(void)
{
    struct wr_arena_options options = {
        .path = path, .size_bytes = BYTES, .node_share = 80, .judge = wr_engine_judge};
    int fd;

    (void)snprintf(path, sizeof path, "/tmp/weir-fuzz-arena-%d", (int)getpid());
    (void)atexit(remove_file);
    if (wr_arena_open(&arena, &options, NULL) != 0)
        abort();
    word_class = class_of(WR_TOKEN_BUCKET);
    list_class = class_of(WR_SLIDING_LOG);
    decide_some();
    ban_some();
    wr_arena_close(arena);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, pristine, BYTES) != BYTES)
        abort();
    (void)close(fd);
}

/* The image with the patches of |data|. */
static void patch(uint8_t *image, const uint8_t *data, size_t size)
{
    while (size > 4) {
        size_t at = ((size_t)data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16) % BYTES;
        size_t len = data[3];

        data += 4;
        size -= 4;
        len = len < size ? len : size;
        len = len < BYTES - at ? len : BYTES - at;
        memcpy(image + at, data, len);
        data += len;
        size -= len;
    }
}

static void write_file(const uint8_t *image)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0 || write(fd, image, BYTES) != BYTES)
        abort();
    (void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t image[BYTES];
    bool before;

    if (path[0] == '\0')
        prepare();
    if (size == 0)
        return 0;
    before = (data[0] & 1) != 0;
    memcpy(image, pristine, BYTES);
    if (before)
        patch(image, data + 1, size - 1);
    write_file(image);
    if (open_file() != 0)
        return 0;
    if (!before)
        patch((uint8_t *)arena->header, data + 1, size - 1);
    (void)wr_arena_check(arena, NOW, &report, &diag);
    decide_some();
    ban_some();
    (void)wr_arena_check(arena, NOW, &report, &diag);
    if (wr_arena_repair(arena, NOW) != 0)
        abort(); /* nobody else has it open */
    wr_diag_init(&diag, path);
    if (wr_arena_check(arena, NOW, &report, &diag) != 0)
        abort();
    wr_arena_close(arena);
    return 0;
}
