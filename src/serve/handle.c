/* handle.c - a policy in force, counted by reference.
 *
 * A reload shares the arena of the policy before it: an anonymous arena has no name to be opened
 * by, and one with a name would be mapped once more for each reload that still has answers out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "engine/shared.h"
#include "lib/handle.h"
#include "serve/host_check.h"
#include "serve/serve.h"
#include "serve/totals.h"

void wr_handle_ref(struct wr_handle *handle)
{
    (void)__atomic_add_fetch(&handle->references, 1, __ATOMIC_RELAXED);
}

void wr_handle_unref(struct wr_handle *handle)
{
    if (handle == NULL || __atomic_sub_fetch(&handle->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    wr_totals_forget(handle);
    weir_close(handle->weir);
    wr_secret_free(handle->token_memory);
    wr_secret_free(handle->password_memory);
    free(handle);
}

/* A secret from its file, which was looked at before. */
static int take_secret(const char *path, const struct wr_secret_kind *kind, char **out,
                       char *errors, size_t size)
{
    char why[WR_SECRET_ERROR_MAX];

    *out = wr_secret_read(path, kind, why, sizeof why);
    if (*out == NULL)
        (void)snprintf(errors, size, "%s\n", why);
    return *out != NULL ? 0 : WEIR_EIO;
}

/* What callers are hashed with in a store. */
static int take_store_secret(struct wr_handle *handle, char *errors, size_t size)
{
    const struct wr_policy_store *store = wr_policy_settings(handle->policy)->store;
    char *secret;

    if (store == NULL || store->secret_file == NULL)
        return 0;
    if (take_secret(store->secret_file, &wr_secret_store, &secret, errors, size) != 0)
        return WEIR_EIO;
    wr_engine_store_secret(handle->weir->engine, secret, strlen(secret));
    wr_secret_free(secret);
    return 0;
}

static int take_secrets(struct wr_handle *handle, char *errors, size_t size)
{
    const struct wr_policy_settings *settings = wr_policy_settings(handle->policy);

    handle->admin_token = settings->admin_token;
    handle->resp_password = settings->resp_password;
    if (settings->admin_token_file != NULL) {
        if (take_secret(settings->admin_token_file, &wr_secret_token, &handle->token_memory, errors,
                        size) != 0)
            return WEIR_EIO;
        handle->admin_token = handle->token_memory;
    }
    if (take_store_secret(handle, errors, size) != 0)
        return WEIR_EIO;
    if (settings->resp_password_file != NULL) {
        if (take_secret(settings->resp_password_file, &wr_secret_password, &handle->password_memory,
                        errors, size) != 0)
            return WEIR_EIO;
        handle->resp_password = handle->password_memory;
    }
    return 0;
}

/* What is wrong with files that the policy names, and with its wishes, behind what |errors| has. */
static int check_host(const struct wr_handle *handle, const char *path, char *errors, size_t size)
{
    struct wr_diag *diag = malloc(sizeof *diag);
    size_t used = strlen(errors), wrong;

    if (diag == NULL)
        return WEIR_ENOMEM;
    wr_diag_init(diag, path);
    wr_host_check(handle->policy, diag);
    wrong = diag->errors;
    (void)wr_diag_format(diag, errors + used, size - used);
    free(diag);
    return wrong > 0 ? WEIR_EIO : 0;
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
    result = check_host(handle, path, errors, errors_size);
    if (result == 0)
        result = take_secrets(handle, errors, errors_size);
    if (result != 0) {
        wr_handle_unref(handle);
        return result;
    }
    *out = handle;
    return 0;
}
