/* fixture.h - policies in files, and handles on them, for the tests of src/serve. */
#ifndef TEST_SERVE_FIXTURE_H
#define TEST_SERVE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "serve/serve.h"

#define S INT64_C(1000000000)

/* Write |text| to a new file; its path, in static memory. */
static inline const char *file_of(const char *text)
{
    static char path[] = "/tmp/weir-test-XXXXXX";
    int fd;

    memcpy(path + sizeof path - 7, "XXXXXX", 6);
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    (void)close(fd);
    return path;
}

/* A handle on the policy in |text|, which takes the place of |before|. */
static inline struct wr_handle *handle_of(const char *text, struct wr_handle *before)
{
    const char *path = file_of(text);
    struct wr_handle *handle;
    char errors[4000];

    if (wr_handle_open(&handle, path, before, errors, sizeof errors) != 0)
        fail_msg("%s", errors);
    (void)unlink(path);
    return handle;
}

/* The errors of a policy that cannot be loaded. */
static inline const char *errors_of(const char *text, struct wr_handle *before)
{
    static char errors[4000];
    const char *path = file_of(text);
    struct wr_handle *handle;

    assert_int_not_equal(wr_handle_open(&handle, path, before, errors, sizeof errors), 0);
    assert_null(handle);
    (void)unlink(path);
    return errors;
}

/* Decide a request from |peer| at |now|. */
static inline struct weir_answer decide(struct wr_handle *handle, const char *peer, int64_t cost,
                                        int64_t now)
{
    struct weir_request request = {.method = {"GET", 3},
                                   .path = {"/", 1},
                                   .peer = {peer, strlen(peer)},
                                   .cost_units = cost,
                                   .plan = -1};
    struct weir_answer answer;

    assert_int_equal(weir_decide(handle->weir, &request, now, &answer), 0);
    return answer;
}

static inline int64_t left(struct wr_handle *handle, const char *peer, int64_t now)
{
    return decide(handle, peer, 0, now).verdicts[0].remaining_units;
}

#define BUCKET(n) "limits: [{name: a, by: [ip], rate: " #n "/hour, algorithm: token-bucket}]\n"
#define SMALL "version: 1\narena: {size: 1MiB}\n"

#endif
