/* host_check.c - what a policy asks of this host.
 *
 * Problem. A policy that is right can name a certificate that is not there, or one that has run
 * out. Found by the daemon one at a time, without its line, that is a start that fails at night;
 * `weir check` said ok.
 *
 * Idea. The same look for `weir check`, the start and every reload, at all files at once. What is
 * read is thrown away: who uses a file reads it again, and has its own error if it has changed
 * between. */
#include "serve/host_check.h"

#include <linux/magic.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/secret.h"
#include "meter/keeper.h"
#include "policy/customers.h"
#include "serve/tls.h"

#define HOOK_SECRET_BYTES_GOOD 16 /* as policy/customers.c has it */

static void check_tls(const struct wr_policy_tls *files, struct wr_diag *diag)
{
    struct wr_tls_error error;
    struct wr_tls *tls;
    char expiry[WR_TLS_EXPIRY_MAX];

    if (wr_tls_new(&tls, files, &error) != 0) {
        wr_diag_add(diag, WR_ERROR, error.at.line, error.at.column, "%s", error.text);
        return;
    }
    if (wr_tls_untimely(tls, expiry))
        wr_diag_add(diag, WR_WARNING, files->certificate_at.line, files->certificate_at.column,
                    "%s: the certificate %s: clients will refuse it", files->certificate, expiry);
    wr_tls_free(tls);
}

static void check_secret(const char *path, struct wr_place at, const struct wr_secret_kind *kind,
                         struct wr_diag *diag)
{
    char why[WR_SECRET_ERROR_MAX];
    char *secret;

    if (path == NULL)
        return;
    secret = wr_secret_read(path, kind, why, sizeof why);
    if (secret == NULL)
        wr_diag_add(diag, WR_ERROR, at.line, at.column, "%s", why);
    wr_secret_free(secret);
}

/* A size that no page is behind is a promise until callers come. */
static void check_memory(const struct wr_policy_settings *settings, struct wr_diag *diag)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_MAX;

    if (settings->arena_bytes > bytes)
        wr_diag_add(
            diag, WR_WARNING, settings->arena_bytes_at.line, settings->arena_bytes_at.column,
            "size: %llu MiB are more than this machine's memory, %llu MiB: as the arena "
            "fills, processes are killed",
            (unsigned long long)(settings->arena_bytes >> 20), (unsigned long long)(bytes >> 20));
}

/* Of a folder that is still to be made, the one it will be in. */
static bool look_at_disk(const char *path, struct statfs *out)
{
    char folder[4096];
    char *slash;

    if (statfs(path, out) == 0)
        return true;
    (void)snprintf(folder, sizeof folder, "%s", path);
    slash = strrchr(folder, '/');
    if (slash != NULL)
        slash[slash == folder ? 1 : 0] = '\0';
    return statfs(slash != NULL ? folder : ".", out) == 0;
}

/* Certificates to check a receiver's by: without one, no alert would ever be taken. */
static void check_authorities(const char *path, struct wr_place at, struct wr_diag *diag)
{
    X509_STORE *store = X509_STORE_new();
    struct stat st;

    if (store == NULL || stat(path, &st) != 0 || !S_ISREG(st.st_mode) ||
        X509_STORE_load_file(store, path) != 1)
        wr_diag_add(diag, WR_ERROR, at.line, at.column,
                    "expected a file with PEM certificates that can be read: %s", path);
    X509_STORE_free(store);
    ERR_clear_error();
}

/* A secret that cannot be read is an error of wr_keeper_check. */
static void check_hook(const struct wr_policy_webhook *hook, struct wr_diag *diag)
{
    char why[WR_SECRET_ERROR_MAX];
    char *secret = hook->secret_file != NULL
                       ? wr_secret_read(hook->secret_file, &wr_secret_webhook, why, sizeof why)
                       : NULL;

    if (secret != NULL && strlen(secret) < HOOK_SECRET_BYTES_GOOD)
        wr_diag_add(diag, WR_WARNING, hook->secret_file_at.line, hook->secret_file_at.column,
                    "secret_file: fewer than %d characters can be guessed", HOOK_SECRET_BYTES_GOOD);
    wr_secret_free(secret);
    if (hook->ca_file != NULL)
        check_authorities(hook->ca_file, hook->ca_file_at, diag);
}

/* What is billed on has to be there when the machine is on again. */
static void check_customers(const struct wr_policy *policy, struct wr_diag *diag)
{
    const struct wr_policy_customers *customers = wr_policy_settings(policy)->customers;
    struct wr_place at = customers->directory_written ? customers->directory_at : customers->at;
    struct statfs disk;

    wr_keeper_check(policy, diag);
    check_hook(&customers->webhook, diag);
    check_hook(&customers->confirm_upgrade, diag);
    if (look_at_disk(customers->directory, &disk) &&
        (disk.f_type == TMPFS_MAGIC || disk.f_type == RAMFS_MAGIC))
        wr_diag_add(diag, WR_WARNING, at.line, at.column,
                    "directory: %s is on a disk in memory: customers and what they used are gone "
                    "with the power; name a folder on one that stays",
                    customers->directory);
}

void wr_host_check(const struct wr_policy *policy, struct wr_diag *diag)
{
    const struct wr_policy_settings *settings = wr_policy_settings(policy);
    const struct wr_policy_store *store = settings->store;

    for (size_t i = 0; i < settings->listener_count; i++)
        if (settings->listeners[i].tls != NULL)
            check_tls(settings->listeners[i].tls, diag);
    check_secret(settings->admin_token_file, settings->admin_token_file_at, &wr_secret_token, diag);
    check_secret(settings->resp_password_file, settings->resp_password_file_at, &wr_secret_password,
                 diag);
    if (store != NULL) {
        check_secret(store->password_file, store->password_file_at, &wr_secret_store_password,
                     diag);
        check_secret(store->secret_file, store->secret_file_at, &wr_secret_store, diag);
    }
    if (settings->customers != NULL)
        check_customers(policy, diag);
    check_memory(settings, diag);
}
