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

#include "engine/shared.h"
#include "lib/handle.h"
#include "serve/serve.h"
#include "serve/totals.h"

#define SECRET_BYTES_MAX 4096

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
    wr_totals_forget(handle);
    weir_close(handle->weir);
    free(handle->token_memory);
    free(handle->password_memory);
    free(handle);
    if (owner != NULL) /* owners have no owner: this goes one step deep */
        wr_handle_unref(owner);
}

/* What a file with a secret holds. */
struct secret_kind {
    const char *what, *line;
    bool (*part)(unsigned char byte); /* may it be one of the secret's? */
};

static bool part_of_token(unsigned char byte)
{
    return byte > 0x20 && byte < 0x7f;
}

static bool part_of_password(unsigned char byte)
{
    return byte >= 0x20 && byte != 0x7f;
}

static const struct secret_kind token_kind = {
    "the admin door's token", "one line of visible ASCII characters as token", part_of_token};
static const struct secret_kind password_kind = {"the resp door's password",
                                                 "one line of text as password", part_of_password};

/* The one line of the file at |path|. NULL, with |error| written: it is not that. */
static char *read_secret(const char *path, const struct secret_kind *kind, char *error, size_t size)
{
    char text[SECRET_BYTES_MAX + 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    char *end;

    if (fd >= 0)
        (void)close(fd);
    if (n < 0) {
        (void)snprintf(error, size, "%s: error: expected %s: %m\n", path, kind->what);
        return NULL;
    }
    text[n] = '\0';
    for (end = text; kind->part((unsigned char)*end); end++)
        ;
    if (end == text || end + strspn(end, " \t\r\n") != text + n) {
        (void)snprintf(error, size, "%s: error: expected %s\n", path, kind->line);
        return NULL;
    }
    *end = '\0';
    return strdup(text);
}

static const struct secret_kind store_kind = {"the store's secret", "one line of text as secret",
                                              part_of_password};

/* What callers are hashed with in a store. */
static int take_store_secret(struct wr_handle *handle, char *errors, size_t size)
{
    const struct wr_policy_store *store = wr_policy_settings(handle->policy)->store;
    char *secret;

    if (store == NULL || store->secret_file == NULL)
        return 0;
    secret = read_secret(store->secret_file, &store_kind, errors, size);
    if (secret == NULL)
        return WEIR_EIO;
    wr_engine_store_secret(handle->weir->engine, secret, strlen(secret));
    explicit_bzero(secret, strlen(secret));
    free(secret);
    return 0;
}

static int take_secrets(struct wr_handle *handle, char *errors, size_t size)
{
    const struct wr_policy_settings *settings = wr_policy_settings(handle->policy);

    handle->admin_token = settings->admin_token;
    handle->resp_password = settings->resp_password;
    if (settings->admin_token_file != NULL) {
        handle->token_memory = read_secret(settings->admin_token_file, &token_kind, errors, size);
        if (handle->token_memory == NULL)
            return WEIR_EIO;
        handle->admin_token = handle->token_memory;
    }
    if (take_store_secret(handle, errors, size) != 0)
        return WEIR_EIO;
    if (settings->resp_password_file != NULL) {
        handle->password_memory =
            read_secret(settings->resp_password_file, &password_kind, errors, size);
        if (handle->password_memory == NULL)
            return WEIR_EIO;
        handle->resp_password = handle->password_memory;
    }
    return 0;
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
    result = take_secrets(handle, errors, errors_size);
    if (result != 0) {
        wr_handle_unref(handle);
        return result;
    }
    *out = handle;
    return 0;
}
