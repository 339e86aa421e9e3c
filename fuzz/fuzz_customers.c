/* Any bytes in customers.map and in a file of usage: opening refuses or takes them; keys are looked
 * up, records read, cells counted in, and all of it ends inside the mapping. What the writer does
 * afterwards holds.
 *
 * The input is a list of patches: a byte that says which file (bit 0) and whether before it is
 * opened or after (bit 1), three bytes of offset, one of length, the bytes. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/customers.h"
#include "store/customers_file.h"
#include "store/usage.h"
#include "store/usage_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ROOM 40
#define KEYS 60
#define BYTES_MAX (1 << 17)
#define DAY 20000

struct file {
    char path[64];
    uint8_t pristine[BYTES_MAX];
    size_t bytes;
};
static struct file files[2];
static struct wr_customers *map;
static struct wr_usage *usage;
static struct wr_diag diag;

static int open_map(void)
{
    struct wr_customers_options options = {.path = files[0].path, .room = ROOM, .writer = true};

    wr_diag_init(&diag, files[0].path);
    return wr_customers_open(&map, &options, &diag);
}

static int open_usage(void)
{
    struct wr_usage_options options = {
        .path = files[1].path, .name = "daily", .room = ROOM, .per = 1};

    wr_diag_init(&diag, files[1].path);
    return wr_usage_open(&usage, &options, &diag);
}

static struct weir_slice value_of(uint32_t key, char text[16])
{
    return (struct weir_slice){text, (size_t)snprintf(text, 16, "key %u", (unsigned)key)};
}

static void digest_of(uint32_t key, unsigned char digest[WR_SHA256_BYTES])
{
    char text[16];

    wr_customer_digest((struct weir_slice){"api_key", 7}, value_of(key, text), digest);
}

static void find_all(void)
{
    struct wr_customers_identity identity;
    unsigned char digest[WR_CUSTOMER_DIGEST_BYTES];
    char text[WR_CUSTOMER_PLAN_BYTES + 1];
    struct wr_customer_record record;
    uint32_t number, at = 0;

    wr_customers_identity(map, (struct weir_slice){"api_key", 7}, &identity);
    for (uint32_t key = 0; key < 2 * KEYS; key++) {
        struct weir_slice value = value_of(key % KEYS, text);
        uint64_t hash = wr_customers_hash(&identity, value);
        wr_customers_prefetch(map, hash);
        if (wr_customers_find(map, &identity, value, hash, wr_customers_guess(map, hash),
                              &number) &&
            (number >= wr_customers_room(map) ||
             (wr_customers_get(map, number, &record) && record.anchor > 31)))
            abort();
    }
    while (wr_customers_key_next(map, &at, digest, &number))
        if (number >= wr_customers_room(map))
            abort();
    for (unsigned i = 0; i < WR_CUSTOMER_PLANS + 1; i++)
        (void)wr_customers_plan_name(map, i, text);
}

static void change_some(void)
{
    unsigned char digest[WR_SHA256_BYTES];
    uint32_t number, at = 0;

    for (uint32_t i = 0; i < ROOM; i++) {
        struct wr_customer_record record = {
            .id = i, .plan = (uint8_t)(i % 3), .flags = WR_CUSTOMER_ACTIVE, .until_ns = INT64_MAX};
        bool there = i < wr_customers_room(map);
        if ((wr_customers_set(map, i, &record, i % 2 == 0) == 0) != there ||
            wr_customers_get(map, i, &record) != there)
            abort();
        wr_customers_want(map, i, (uint8_t)(i % 3), 0);
    }
    for (uint32_t key = 0; key < KEYS; key++) {
        int rc;
        digest_of(key, digest);
        rc = wr_customers_key_set(map, digest, key % ROOM);
        if (rc == 0 && (!wr_customers_key_get(map, digest, &number) || number != key % ROOM))
            abort();
        if (rc == 0 && key % 4 == 3)
            (void)wr_customers_key_drop(map, digest);
    }
    while (wr_customers_wanting_next(map, &at, &number))
        continue;
    (void)wr_customers_plan(map, "pro");
}

static void count_some(void)
{
    struct wr_usage_window windows[WR_USAGE_WINDOWS];
    struct wr_usage_view view;
    uint32_t number, at = 0;

    for (uint32_t i = 0; i < ROOM + 1; i++) {
        for (int32_t day = DAY; day < DAY + (int32_t)(i % 6); day++)
            if (wr_usage_find(usage, i, day, &view) &&
                !wr_usage_put(usage, i, &view, (uint64_t)day << WR_USAGE_UNIT_BITS | (i + 1), i))
                abort();
        wr_usage_raise(usage, i, &(struct wr_usage_window){DAY - 1, i, i}, DAY);
        if (wr_usage_read(usage, i, windows) > WR_USAGE_WINDOWS)
            abort();
    }
    while (wr_usage_known_next(usage, &at, &number))
        continue;
    at = 0;
    while (wr_usage_dirty_next(usage, &at, &number))
        continue;
    (void)wr_usage_is_restored(usage);
    (void)wr_usage_lost_units(usage);
}

static void remove_files(void)
{
    (void)unlink(files[0].path);
    (void)unlink(files[1].path);
}

static void keep(struct file *file)
{
    int fd = open(file->path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, file->pristine, BYTES_MAX);

    if (got <= 0)
        abort();
    file->bytes = (size_t)got;
    (void)close(fd);
}

static void prepare(void)
{
    for (unsigned i = 0; i < 2; i++)
        (void)snprintf(files[i].path, sizeof files[i].path, "/tmp/weir-fuzz-customers-%u-%d", i,
                       (int)getpid());
    remove_files();
    (void)atexit(remove_files);
    if (open_map() != 0 || open_usage() != 0)
        abort();
    change_some();
    find_all();
    count_some();
    wr_customers_close(map);
    wr_usage_close(usage);
    keep(&files[0]);
    keep(&files[1]);
}

/* Apply the patches for file |which| of the |late| ones. */
static void patch(uint8_t *image, size_t bytes, unsigned which, const uint8_t *data, size_t size)
{
    while (size > 5) {
        size_t at = ((size_t)data[1] | (size_t)data[2] << 8 | (size_t)data[3] << 16) % bytes;
        size_t len = data[4];
        bool ours = (data[0] & 3) == which;

        data += 5;
        size -= 5;
        len = len < size ? len : size;
        if (ours)
            memcpy(image + at, data, len < bytes - at ? len : bytes - at);
        data += len;
        size -= len;
    }
}

static void write_file(const struct file *file, unsigned which, const uint8_t *data, size_t size)
{
    static uint8_t image[BYTES_MAX];
    int fd = open(file->path, O_WRONLY | O_CLOEXEC);

    memcpy(image, file->pristine, file->bytes);
    patch(image, file->bytes, which, data, size);
    if (fd < 0 || write(fd, image, file->bytes) != (ssize_t)file->bytes)
        abort();
    (void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (files[0].bytes == 0)
        prepare();
    write_file(&files[0], 0, data, size);
    write_file(&files[1], 1, data, size);
    if (open_map() == 0) {
        patch((uint8_t *)map->mapped.header, map->mapped.size_bytes, 2, data, size);
        find_all();
        change_some();
        find_all();
        wr_customers_close(map);
    }
    if (open_usage() == 0) {
        patch((uint8_t *)usage->mapped.header, usage->mapped.size_bytes, 3, data, size);
        count_some();
        wr_usage_close(usage);
    }
    return 0;
}
