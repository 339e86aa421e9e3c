/* handle.c - a policy in force, counted by reference.
 *
 * A reload shares the arena of the policy before it: an anonymous arena has no name to be opened
 * by, and one with a name would be mapped once more for each reload that still has answers out. So
 * a handle keeps alive the one whose arena it uses; chains do not grow, as sharers of one arena all
 * point to its owner. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/handle.h"
#include "serve/serve.h"

#define TOKEN_BYTES_MAX 4096

void wr_handle_ref(struct wr_handle *handle)
{
    (void)__atomic_add_fetch(&handle->references, 1, __ATOMIC_RELAXED);
}

void wr_handle_unref(struct wr_handle *handle)
{
    struct wr_handle *owner;

    if (handle == NULL || __atomic_sub_fetch(&handle->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    owner = handle->arena_owner;
    weir_close(handle->weir);
    free(handle->token_memory);
    free(handle);
    if (owner != NULL) /* owners have no owner: this goes one step deep */
        wr_handle_unref(owner);
}

/* The first line of the file at |path|, without blanks around it. NULL, with |error| written: none.
 */
static char *read_token(const char *path, char *error, size_t size)
{
    char text[TOKEN_BYTES_MAX + 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    char *end;

    if (fd >= 0)
        (void)close(fd);
    if (n < 0) {
        (void)snprintf(error, size, "%s: error: expected the admin door's token: %m\n", path);
        return NULL;
    }
    text[n] = '\0';
    for (end = text; *end > 0x20 && *end < 0x7f; end++)
        ;
    if (end == text || text[strspn(end, " \t\r\n") + (size_t)(end - text)] != '\0') {
        (void)snprintf(error, size,
                       "%s: error: expected one line of visible ASCII characters as token\n", path);
        return NULL;
    }
    *end = '\0';
    return strdup(text);
}

static int take_token(struct wr_handle *handle, char *errors, size_t size)
{
    const struct wr_policy_settings *settings = wr_policy_settings(handle->policy);

    handle->admin_token = settings->admin_token;
    if (settings->admin_token_file == NULL)
        return 0;
    handle->token_memory = read_token(settings->admin_token_file, errors, size);
    handle->admin_token = handle->token_memory;
    return handle->token_memory != NULL ? 0 : WEIR_EIO;
}

int wr_handle_open(struct wr_handle **out, const char *path, struct wr_handle *before, char *errors,
                   size_t errors_size)
{
    struct wr_handle *handle = calloc(1, sizeof *handle);
    int result;

    *out = NULL;
    if (handle == NULL)
        return WEIR_ENOMEM;
    handle->references = 1;
    handle->generation = before != NULL ? before->generation + 1 : 1;
    result = wr_weir_open(&handle->weir, path, NULL, before != NULL ? before->weir : NULL, errors,
                          errors_size);
    if (result != 0) {
        free(handle);
        return result;
    }
    handle->policy = handle->weir->policy;
    if (before != NULL && handle->weir->shares) {
        handle->arena_owner = before->arena_owner != NULL ? before->arena_owner : before;
        wr_handle_ref(handle->arena_owner);
    }
    result = take_token(handle, errors, errors_size);
    if (result != 0) {
        wr_handle_unref(handle);
        return result;
    }
    *out = handle;
    return 0;
}
