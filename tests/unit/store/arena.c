/* arena.c - opening: what is made, what is refused and with what words, and the clock. */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/layout.h"

#define SIZE WR_ARENA_BYTES_MIN

static char dir[] = "/tmp/weir-arena-XXXXXX";
static char path[64];

static int set_up(void **unused)
{
    (void)unused;
    strcpy(dir + sizeof dir - 7, "XXXXXX");
    if (mkdtemp(dir) == NULL)
        return -1;
    (void)snprintf(path, sizeof path, "%s/arena", dir);
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    (void)unlink(path);
    return rmdir(dir);
}

static struct wr_diag diag;
static char text[4096];

/* Open |path| and say what came of it; the messages are in text. */
static int try_open(uint64_t bytes, unsigned share, struct wr_arena **arena)
{
    struct wr_arena_options options = {
        .path = path, .size_bytes = bytes, .node_share = share, .judge = test_judge};
    int rc;

    wr_diag_init(&diag, path);
    rc = wr_arena_open(arena, &options, &diag);
    (void)wr_diag_format(&diag, text, sizeof text);
    if (rc == 0)
        assert_non_null(*arena);
    else
        assert_null(*arena);
    return rc;
}

static void refused(uint64_t bytes, int error, const char *words)
{
    struct wr_arena *arena;

    assert_int_equal(try_open(bytes, 0, &arena), error);
    if (strstr(text, words) == NULL)
        fail_msg("'%s' is not in: %s", words, text);
}

static void make(void)
{
    struct wr_arena *arena;

    assert_int_equal(try_open(SIZE, 20, &arena), 0);
    wr_arena_close(arena);
}

static void poke(size_t at, const void *bytes, size_t len)
{
    int fd = open(path, O_RDWR);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, len, (off_t)at), len);
    (void)close(fd);
}

static void peek(struct wr_header *header)
{
    int fd = open(path, O_RDONLY);

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, header, sizeof *header, 0), sizeof *header);
    (void)close(fd);
}

static void write_file(const void *bytes, size_t len)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), len);
    (void)close(fd);
}

static void a_new_file_is_whole_and_reserved(void **unused)
{
    struct stat st;

    (void)unused;
    (void)umask(077); /* does not matter */
    make();
    (void)umask(022);
    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(st.st_size, SIZE);
    assert_true(st.st_blocks * 512 >= (blkcnt_t)SIZE);
    assert_int_equal(st.st_mode & 07777, 0660);
}

static void what_is_stored_is_there_after_reopening(void **unused)
{
    struct wr_arena *arena;
    struct wr_slot_view view;
    struct wr_worth worth = {1, 1};
    struct wr_sip_key before, after;
    uint16_t class_id;

    (void)unused;
    assert_int_equal(try_open(SIZE, 20, &arena), 0);
    before = wr_arena_secret(arena);
    class_id = test_class_make(arena, 10, WR_NS_PER_S, 0);
    wr_slot_find(arena, test_hash(1), &view);
    assert_int_equal(wr_slot_put(arena, test_hash(1), &view, class_id, 99, &worth, NOW), 0);
    wr_arena_close(arena);
    assert_int_equal(try_open(0, 0, &arena), 0); /* as it is */
    after = wr_arena_secret(arena);
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(test_class_make(arena, 10, WR_NS_PER_S, 0), class_id);
    wr_slot_find(arena, test_hash(1), &view);
    assert_int_equal(view.state, 99);
    wr_arena_close(arena);
}

static void secrets_differ(void **unused)
{
    struct wr_arena *a = test_arena("", SIZE, 0), *b = test_arena(NULL, SIZE, 0);
    struct wr_sip_key one = wr_arena_secret(a), two = wr_arena_secret(b);

    (void)unused;
    assert_memory_not_equal(&one, &two, sizeof one);
    wr_arena_close(a);
    wr_arena_close(b);
}

static void no_arena_is_made_without_a_possible_size(void **unused)
{
    (void)unused;
    refused(0, WEIR_EFORMAT, "no size is given");
    refused(SIZE - 1, WEIR_EFORMAT, "is not in 1048576..1099511627776");
    refused(UINT64_MAX, WEIR_EFORMAT, "is not in");
    assert_int_equal(access(path, F_OK), -1);
}

static void a_size_that_cannot_be_had_leaves_no_file(void **unused)
{
    const struct rlimit low = {SIZE / 2, RLIM_INFINITY};
    struct rlimit before;

    (void)unused;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    refused(SIZE, WEIR_EIO, "1048576 bytes cannot be reserved: File too large");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(access(path, F_OK), -1);
}

static void another_size_is_used_as_it_is_no_room_is_refused(void **unused)
{
    struct wr_arena *arena;

    (void)unused;
    assert_int_equal(try_open(SIZE, 0, &arena), 0);
    wr_arena_close(arena);
    /* A reload must not fail because somebody wants another size. */
    assert_int_equal(try_open(2 * SIZE, 0, &arena), 0);
    assert_non_null(strstr(text, "warning: is 1048576 bytes, 2097152 are wanted: used as it is"));
    wr_arena_close(arena);
    assert_int_equal(try_open(SIZE, 10, &arena), WEIR_EFORMAT);
    assert_non_null(strstr(text, "without room for lists"));
}

static void foreign_files_are_refused(void **unused)
{
    static unsigned char bytes[SIZE];

    (void)unused;
    write_file("", 0);
    refused(0, WEIR_EFORMAT, "is not a weir arena: only 0 bytes long");
    write_file("hello\n", 6);
    refused(0, WEIR_EFORMAT, "is not a weir arena: only 6 bytes long");
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)test_hash(i);
    write_file(bytes, sizeof bytes);
    refused(0, WEIR_EFORMAT, "is not a weir arena");
}

static void truncated_and_grown_files_are_refused(void **unused)
{
    (void)unused;
    make();
    assert_int_equal(truncate(path, SIZE - 4096), 0);
    refused(0, WEIR_ECORRUPT, "its header says 1048576: it was truncated");
    assert_int_equal(truncate(path, SIZE + 1), 0);
    refused(0, WEIR_ECORRUPT, "it was appended to");
}

static void headers_of_other_builds_are_refused(void **unused)
{
    const uint32_t version = 1, swapped = UINT32_C(0x0d0c0b0a), mark = 7, cas = 2;
    const uint64_t layout = 1;

    (void)unused;
    make();
    poke(offsetof(struct wr_header, cas), &cas, sizeof cas);
    refused(0, WEIR_EFORMAT, "its way to change slots is 2, this build expects 1");
    poke(offsetof(struct wr_header, layout), &layout, sizeof layout);
    refused(0, WEIR_EFORMAT, "its layout is 1");
    poke(offsetof(struct wr_header, version), &version, sizeof version);
    refused(0, WEIR_EFORMAT, "its version is 1, this build expects 2");
    poke(offsetof(struct wr_header, byte_order), &swapped, sizeof swapped);
    refused(0, WEIR_EFORMAT, "other byte order");
    poke(offsetof(struct wr_header, byte_order), &mark, sizeof mark);
    refused(0, WEIR_EFORMAT, "its byte order mark is 7");
    poke(0, "\x89weir", 4);
    poke(4, "R", 1);
    refused(0, WEIR_EFORMAT, "is not a weir arena");
}

static void counts_that_do_not_follow_are_damage(void **unused)
{
    static const size_t fields[] = {
        offsetof(struct wr_header, class_count), offsetof(struct wr_header, bucket_count),
        offsetof(struct wr_header, head_count), offsetof(struct wr_header, node_count)};
    const uint64_t huge = UINT64_C(1) << 60;
    const uint32_t share = 91;
    const int64_t late = INT64_MAX;

    (void)unused;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        make();
        poke(fields[i], &huge, sizeof huge);
        refused(0, WEIR_ECORRUPT, "do not follow from its size");
        (void)unlink(path);
    }
    make();
    poke(offsetof(struct wr_header, recorded_ns), &late, sizeof late);
    refused(0, WEIR_ECORRUPT, "impossible times");
    poke(offsetof(struct wr_header, node_share), &share, sizeof share);
    refused(0, WEIR_ECORRUPT, "impossible sizes");
    poke(offsetof(struct wr_header, size_bytes), &huge, sizeof huge);
    refused(0, WEIR_ECORRUPT, "impossible sizes");
}

static void what_is_no_regular_file_is_refused(void **unused)
{
    char other[80];

    (void)unused;
    assert_int_equal(mkdir(path, 0700), 0);
    refused(SIZE, WEIR_EFORMAT, "is a directory; an arena is a regular file");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    refused(SIZE, WEIR_EFORMAT, "is a FIFO");
    assert_int_equal(unlink(path), 0);
    make();
    (void)snprintf(other, sizeof other, "%s.real", path);
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(symlink(other, path), 0);
    refused(SIZE, WEIR_EFORMAT, "is a symbolic link");
    assert_int_equal(unlink(other), 0);
}

static void missing_and_unreadable_files_say_so(void **unused)
{
    struct wr_arena *arena;
    struct wr_arena_options options = {
        .path = path, .size_bytes = SIZE, .must_exist = true, .judge = test_judge};

    (void)unused;
    wr_diag_init(&diag, path);
    assert_int_equal(wr_arena_open(&arena, &options, &diag), WEIR_EIO);
    (void)wr_diag_format(&diag, text, sizeof text);
    assert_non_null(strstr(text, "there is no such file"));
    options.path = "/nonexistent/directory/arena";
    options.must_exist = false;
    wr_diag_init(&diag, options.path);
    assert_int_equal(wr_arena_open(&arena, &options, &diag), WEIR_EIO);
    (void)wr_diag_format(&diag, text, sizeof text);
    assert_non_null(strstr(text, "No such file or directory"));
    if (geteuid() == 0)
        return; /* root may read everything */
    make();
    assert_int_equal(chmod(path, 0), 0);
    refused(0, WEIR_EIO, "Permission denied");
}

/* ---- time ---------------------------------------------------------------------------------- */

static void the_clock_starts_as_the_wall_clock(void **unused)
{
    struct wr_arena *arena = test_arena("", SIZE, 0);
    int64_t apart = wr_arena_now(arena) - wr_clock_wall().ns;

    (void)unused;
    assert_true(apart > -WR_NS_PER_S && apart < WR_NS_PER_S);
    assert_true(wr_arena_now(arena) <= wr_arena_now(arena));
    assert_true(wr_arena_wall_ahead_ns(arena) == 0);
    wr_arena_close(arena);
}

static void the_offset_stays_for_the_boot(void **unused)
{
    int64_t ahead = 1000 * WR_NS_PER_S; /* as if the wall clock had been set back since */
    struct wr_header header;
    struct wr_arena *arena;

    (void)unused;
    make();
    peek(&header);
    ahead += header.offset_ns;
    poke(offsetof(struct wr_header, offset_ns), &ahead, sizeof ahead);
    assert_int_equal(try_open(0, 0, &arena), 0);
    ahead = wr_arena_now(arena) - wr_clock_wall().ns - 1000 * WR_NS_PER_S;
    assert_true(ahead > -WR_NS_PER_S && ahead < WR_NS_PER_S);
    ahead = wr_arena_wall_ahead_ns(arena) + 1000 * WR_NS_PER_S; /* and how far is remembered */
    assert_true(ahead > -WR_NS_PER_S && ahead < WR_NS_PER_S);
    wr_arena_close(arena);
}

static void a_new_boot_makes_the_offset_anew(void **unused)
{
    const char boot[] = "11111111-2222-3333-4444-555555555555";
    const int64_t offset = 12345;
    struct wr_header header;
    struct wr_arena *arena;
    int64_t apart;

    (void)unused;
    make();
    poke(offsetof(struct wr_header, boot_id), boot, sizeof boot);
    poke(offsetof(struct wr_header, offset_ns), &offset, sizeof offset);
    assert_int_equal(try_open(0, 0, &arena), 0);
    apart = wr_arena_now(arena) - wr_clock_wall().ns;
    assert_true(apart > -WR_NS_PER_S && apart < WR_NS_PER_S);
    peek(&header);
    assert_string_not_equal(header.boot_id, boot);
    wr_arena_close(arena);
}

static void a_new_boot_never_goes_behind_what_was_recorded(void **unused)
{
    const char boot[] = "11111111-2222-3333-4444-555555555555";
    int64_t recorded = wr_clock_wall().ns + WR_NS_PER_HOUR; /* the wall clock was ahead then */
    struct wr_arena *arena;

    (void)unused;
    make();
    poke(offsetof(struct wr_header, boot_id), boot, sizeof boot);
    poke(offsetof(struct wr_header, recorded_ns), &recorded, sizeof recorded);
    assert_int_equal(try_open(0, 0, &arena), 0);
    assert_true(wr_arena_now(arena) >= recorded);
    assert_true(wr_arena_now(arena) < recorded + WR_NS_PER_MINUTE);
    wr_arena_close(arena);
}

static void a_boot_without_a_name_is_seen_by_the_clock(void **unused)
{
    /* Same id (as where /proc is missing), but the clock stands before what was recorded. */
    int64_t recorded = wr_clock_wall().ns + WR_NS_PER_HOUR;
    struct wr_arena *arena;

    (void)unused;
    make();
    poke(offsetof(struct wr_header, recorded_ns), &recorded, sizeof recorded);
    assert_int_equal(try_open(0, 0, &arena), 0);
    assert_true(wr_arena_now(arena) >= recorded);
    wr_arena_close(arena);
}

static void processes_of_two_boots_do_not_share(void **unused)
{
    const char boot[] = "11111111-2222-3333-4444-555555555555";
    struct wr_arena *arena;

    (void)unused;
    assert_int_equal(try_open(SIZE, 0, &arena), 0);
    poke(offsetof(struct wr_header, boot_id), boot, sizeof boot);
    refused(0, WEIR_EFORMAT, "count time from another boot");
    wr_arena_close(arena);
}

static void closing_records_the_time(void **unused)
{
    struct wr_header header;
    struct wr_arena *arena;
    int64_t now_ns;

    (void)unused;
    assert_int_equal(try_open(SIZE, 0, &arena), 0);
    now_ns = wr_arena_now(arena);
    wr_arena_close(arena);
    peek(&header);
    assert_true(header.recorded_ns >= now_ns);
    assert_int_equal(header.opens, 1);
    assert_int_equal(header.closes, 1);
}

static void a_reader_changes_nothing(void **unused)
{
    struct wr_arena_options options = {.path = path, .read_only = true, .judge = test_judge};
    struct wr_header before, after;
    struct wr_slot_view view;
    struct wr_arena *arena;

    (void)unused;
    make();
    peek(&before);
    wr_diag_init(&diag, path);
    assert_int_equal(wr_arena_open(&arena, &options, &diag), 0);
    wr_slot_find(arena, test_hash(1), &view);
    assert_null(view.slot);
    (void)wr_arena_now(arena);
    wr_arena_close(arena);
    peek(&after);
    assert_memory_equal(&before, &after, sizeof before);
}

int main(void)
{
#define WITH_DIR(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_DIR(a_new_file_is_whole_and_reserved),
        WITH_DIR(what_is_stored_is_there_after_reopening),
        cmocka_unit_test(secrets_differ),
        WITH_DIR(no_arena_is_made_without_a_possible_size),
        WITH_DIR(a_size_that_cannot_be_had_leaves_no_file),
        WITH_DIR(another_size_is_used_as_it_is_no_room_is_refused),
        WITH_DIR(foreign_files_are_refused),
        WITH_DIR(truncated_and_grown_files_are_refused),
        WITH_DIR(headers_of_other_builds_are_refused),
        WITH_DIR(counts_that_do_not_follow_are_damage),
        WITH_DIR(what_is_no_regular_file_is_refused),
        WITH_DIR(missing_and_unreadable_files_say_so),
        cmocka_unit_test(the_clock_starts_as_the_wall_clock),
        WITH_DIR(the_offset_stays_for_the_boot),
        WITH_DIR(a_new_boot_makes_the_offset_anew),
        WITH_DIR(a_new_boot_never_goes_behind_what_was_recorded),
        WITH_DIR(a_boot_without_a_name_is_seen_by_the_clock),
        WITH_DIR(processes_of_two_boots_do_not_share),
        WITH_DIR(closing_records_the_time),
        WITH_DIR(a_reader_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
