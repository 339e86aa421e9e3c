/* Lines of plain and gzip files whose bytes are known, also one that comes a byte at a time. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

#include "cli/input.h"
#include "wire/accesslog.h"

static char path[] = "/tmp/weir-input-XXXXXX";

static int make_file(void **state)
{
    int fd = mkstemp(path);

    (void)state;
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static void write_file(const void *bytes, size_t len)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static size_t gzip(const char *text, size_t len, unsigned char *out, size_t size)
{
    z_stream z = {0};

    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (unsigned char *)(uintptr_t)text;
    z.avail_in = (uInt)len;
    z.next_out = out;
    z.avail_out = (uInt)size;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(deflateEnd(&z), Z_OK);
    return size - z.avail_out;
}

static void check_line(struct wr_input *input, const char *expected)
{
    const char *line;
    size_t len;

    assert_true(wr_input_line(input, &line, &len));
    assert_int_equal(len, strlen(expected));
    assert_memory_equal(line, expected, len);
}

static void check_end(struct wr_input *input, const char *error)
{
    const char *line;
    size_t len;

    assert_false(wr_input_line(input, &line, &len));
    assert_false(wr_input_line(input, &line, &len));
    if (error == NULL)
        assert_null(wr_input_error(input));
    else
        assert_string_equal(wr_input_error(input), error);
    wr_input_close(input);
}

static void check_three(const char *error)
{
    struct wr_input *input = wr_input_open(path);

    assert_non_null(input);
    check_line(input, "one");
    check_line(input, "");
    check_line(input, "three");
    check_end(input, error);
}

static void test_plain(void **state)
{
    (void)state;
    write_file("one\n\nthree\n", 11);
    check_three(NULL);
    write_file("one\n\nthree", 10);
    check_three(NULL);
    write_file("", 0);
    check_end(wr_input_open(path), NULL);
    write_file("\x1f", 1);
    struct wr_input *input = wr_input_open(path);
    check_line(input, "\x1f");
    check_end(input, NULL);
}

/* The mark some editors write first is no part of the first line; anywhere else it is bytes as any.
 */
static void test_byte_order_mark(void **state)
{
    struct wr_input *input;
    (void)state;

    write_file("\xef\xbb\xbf"
               "one\n\xef\xbb\xbf"
               "two\n",
               14);
    input = wr_input_open(path);
    assert_non_null(input);
    check_line(input, "one");
    check_line(input, "\xef\xbb\xbf"
                      "two");
    check_end(input, NULL);
}

static void test_gzip(void **state)
{
    unsigned char bytes[256];
    size_t n;
    (void)state;

    n = gzip("one\n\nthree\n", 11, bytes, sizeof bytes);
    write_file(bytes, n);
    check_three(NULL);
    n = gzip("one\n\nth", 7, bytes, sizeof bytes); /* a line across two members */
    n += gzip("ree", 3, bytes + n, sizeof bytes - n);
    memset(bytes + n, 0, 20);
    write_file(bytes, n + 20);
    check_three(NULL);
    write_file(bytes, n - 1);
    check_three("the compressed data ends too early");
    bytes[n - 1] ^= 1;
    write_file(bytes, n);
    check_three("the compressed data is damaged");
    bytes[n - 1] ^= 1;
    bytes[n] = 'x';
    write_file(bytes, n + 1);
    check_three("bytes after the compressed data that are not gzip");
}

/* Cut anywhere: lines up to there, the reason, no crash. */
static void test_every_cut(void **state)
{
    unsigned char bytes[256];
    size_t n = gzip("one\n\nthree\n", 11, bytes, sizeof bytes), len;
    const char *line;
    (void)state;

    for (size_t cut = 2; cut < n; cut++) {
        struct wr_input *input;
        write_file(bytes, cut);
        input = wr_input_open(path);
        assert_non_null(input);
        for (int i = 0; wr_input_line(input, &line, &len); i++)
            assert_true(i < 3);
        assert_string_equal(wr_input_error(input), "the compressed data ends too early");
        wr_input_close(input);
    }
}

static void test_long_lines(void **state)
{
    static const size_t lengths[] = {WR_LOG_LINE_MAX, WR_LOG_LINE_MAX + 1, WR_LOG_LINE_MAX + 2,
                                     WR_LOG_LINE_MAX + (256U << 10) + 1, 3 * WR_LOG_LINE_MAX};
    size_t room = 3 * (size_t)WR_LOG_LINE_MAX + 64, len;
    char *text = malloc(room);
    const char *line;
    (void)state;

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct wr_input *input;
        memset(text, 'a', room);
        memcpy(text, "one\n", 4);
        memcpy(text + 4 + lengths[i], "\nthree\n", 7);
        write_file(text, 4 + lengths[i] + 7);
        input = wr_input_open(path);
        check_line(input, "one");
        assert_true(wr_input_line(input, &line, &len));
        assert_int_equal(len, lengths[i] <= WR_LOG_LINE_MAX ? lengths[i] : WR_LOG_LINE_MAX + 1);
        check_line(input, "three");
        check_end(input, NULL);
    }
    free(text);
}

static void test_no_file(void **state)
{
    (void)state;
    errno = 0;
    assert_null(wr_input_open("/nonexistent/log"));
    assert_int_equal(errno, ENOENT);
    assert_null(wr_input_open("/tmp"));
    assert_int_equal(errno, EISDIR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),      cmocka_unit_test(test_byte_order_mark),
        cmocka_unit_test(test_gzip),       cmocka_unit_test(test_every_cut),
        cmocka_unit_test(test_long_lines), cmocka_unit_test(test_no_file),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
