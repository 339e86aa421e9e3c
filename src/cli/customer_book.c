/* customer_book.c - opening the database that a policy names, and what is printed of it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/customer.h"
#include "meter/missing.h"
#include "wire/logtime.h"

#define ERRORS_BYTES 65536U
#define PATH_BYTES 4200U
#define FOLDER_MODE 0770 /* as weir serve makes it */

/* ---- opening --------------------------------------------------------------------------------- */

static bool load_policy(struct wr_book *book, const char *path)
{
    struct wr_diag *diag = malloc(sizeof *diag);
    char *errors = malloc(ERRORS_BYTES);
    bool ok = false;

    if (diag != NULL && errors != NULL) {
        wr_diag_init(diag, path);
        ok = wr_policy_load(&book->policy, path, diag) == 0;
        (void)wr_diag_format(diag, errors, ERRORS_BYTES);
        if (!ok)
            (void)fputs(errors, stderr);
    }
    free(diag);
    free(errors);
    return ok;
}

void wr_book_print_fault(const char *path, const char *text)
{
    if (strncmp(text, path, strlen(path)) == 0) /* as faults have it mostly */
        (void)fprintf(stderr, "%s\n", text);
    else
        (void)fprintf(stderr, "%s: %s\n", path, text);
}

enum opening { READ, WRITE, BEGIN };

/* |fault|, of the database at |file|, in words that say what to do. */
static void explain(struct wr_fault *fault, const char *directory, const char *file)
{
    if (fault->disk == WR_DISK_MISSING && !wr_database_may_begin(directory))
        (void)wr_fault_set_missing(fault, file);
    else if (fault->disk == WR_DISK_MISSING)
        (void)wr_fault_set(fault, fault->error, fault->disk,
                           "%.300s: there is no database yet; start weir serve once, or create a "
                           "customer",
                           file);
    else if (fault->disk == WR_DISK_READ_ONLY && access(file, R_OK) == 0)
        (void)wr_fault_set(fault, fault->error, fault->disk,
                           "%.300s: it is there, but its disk is read-only, and SQLite needs to "
                           "write beside it, also to read; copy it elsewhere with its -wal",
                           file);
}

/* One that was lost is not made again in silence. */
static bool open_database(struct wr_book *book, enum opening how)
{
    char file[PATH_BYTES];
    const char *directory = book->customers->directory;
    const struct wr_database_options options = {.path = file,
                                                .create = how == BEGIN &&
                                                          wr_database_may_begin(directory),
                                                .read_only = how == READ};
    struct wr_fault fault;

    (void)snprintf(file, sizeof file, "%s/%s", directory, WR_DATABASE_NAME);
    if (options.create)
        (void)mkdir(directory, FOLDER_MODE); /* if it fails, so does what follows */
    if (wr_database_open(&book->database, &options, &fault) == 0)
        return true;
    explain(&fault, directory, file);
    wr_book_print_fault(file, fault.text);
    return false;
}

bool wr_book_open_policy(struct wr_book *book, const char *path)
{
    struct timespec now;

    *book = (struct wr_book){.policy = NULL};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    book->now_ns = (int64_t)now.tv_sec * WR_NS_PER_S + now.tv_nsec;
    if (!load_policy(book, path))
        return false;
    book->customers = wr_policy_settings(book->policy)->customers;
    if (book->customers == NULL) {
        (void)fprintf(stderr, "%s: has no section customers; docs/quotas.md says what to write\n",
                      path);
        return false;
    }
    return true;
}

bool wr_book_open(struct wr_book *book, const char *path, bool write)
{
    return wr_book_open_policy(book, path) && open_database(book, write ? WRITE : READ);
}

bool wr_book_begin(struct wr_book *book, const char *path)
{
    return wr_book_open_policy(book, path) && open_database(book, BEGIN);
}

/* Is there a database at |file|? One with nothing in it is none, and is set aside with its log. */
static bool is_there(const char *file, int64_t now_ns)
{
    const struct wr_database_options options = {.path = file, .read_only = true};
    struct wr_database *database;
    char aside[PATH_BYTES + 64];
    struct wr_fault fault;

    if (access(file, F_OK) != 0)
        return false;
    if (wr_database_open(&database, &options, &fault) == 0)
        wr_database_close(database);
    return fault.disk != WR_DISK_MISSING ||
           wr_database_set_aside(file, now_ns, aside, sizeof aside) != 0;
}

int wr_book_recover(const char *path)
{
    char file[PATH_BYTES];
    const struct wr_database_options options = {.path = file, .create = true};
    struct wr_fault fault;
    struct wr_book book;
    int status = 1;

    if (wr_book_open_policy(&book, path)) {
        (void)snprintf(file, sizeof file, "%s/%s", book.customers->directory, WR_DATABASE_NAME);
        if (is_there(file, book.now_ns))
            (void)fprintf(stderr, "%s: it is there; one that is damaged weir serve sets aside\n",
                          file);
        else if (wr_database_open(&book.database, &options, &fault) != 0)
            wr_book_print_fault(file, fault.text);
        else
            status = printf("%s: begun anew; weir serve puts into it whom customers.map knows, and "
                            "what they use\n",
                            file) < 0;
    }
    wr_book_close(&book);
    return status;
}

void wr_book_close(struct wr_book *book)
{
    if (book->database != NULL)
        wr_database_close(book->database);
    wr_policy_free(book->policy);
}

int wr_book_fail(const struct wr_book *book, const char *command, int result)
{
    const char *why = wr_database_fault(book->database)->text;

    if (result == WEIR_ENOENT)
        why = "there is no such customer or key";
    else if (result == WEIR_EAGAIN && why[0] == '\0')
        why = "there is one already";
    (void)fprintf(stderr, "weir %s: %s\n", command, why);
    return 1;
}

/* ---- rows ------------------------------------------------------------------------------------ */

void wr_book_print_customer(const struct wr_book *book, const struct wr_customer *c)
{
    const char *plan = wr_customer_plan_at(c, book->now_ns);
    const char *limits_of = wr_customer_limits_of(book->policy, c, book->now_ns);
    char until[WR_LOGTIME_TEXT_MAX];

    (void)printf("%-24s  %-12s  %-9s%s%s%s", c->name, plan, wr_customer_state_text(c),
                 c->partner ? "  partner" : "", c->tenant[0] != '\0' ? "  tenant " : "", c->tenant);
    if (c->anchor != 0)
        (void)printf("  months from the %u.", c->anchor);
    if (c->trial_plan[0] != '\0')
        (void)printf("  trial of %s until %s, then %s", c->trial_plan,
                     wr_moment_words(c->trial_until_ns, until, sizeof until), c->plan);
    if (c->wants_upgrade)
        (void)printf("  wants an upgrade that is not confirmed yet");
    if (strcmp(plan, limits_of) != 0)
        (void)printf("  (%s is not in the policy: %s's limits hold)", plan, limits_of);
    (void)printf("%s\n", c->from_file ? "  (from the file)" : "");
}

void wr_book_print_key(const struct wr_customer_key *key)
{
    char id[WR_KEY_ID_TEXT], created[WR_LOGTIME_TEXT_MAX], revoked[WR_LOGTIME_TEXT_MAX];

    wr_key_id(key->digest, id);
    (void)wr_moment_words(key->created_ns, created, sizeof created);
    (void)wr_moment_words(key->revoked_ns, revoked, sizeof revoked);
    (void)printf("  key %s  %s ...%s  since %s%s%s\n", id, key->identity, key->hint, created,
                 key->revoked_ns != 0 ? "  revoked " : "", key->revoked_ns != 0 ? revoked : "");
}

void wr_book_print_audit(const struct wr_audit *audit)
{
    char at[WR_LOGTIME_TEXT_MAX];

    (void)printf("  %s  %s  %s  %s -> %s%s%s\n", wr_moment_words(audit->at_ns, at, sizeof at),
                 audit->who, audit->what, audit->before[0] != '\0' ? audit->before : "-",
                 audit->after[0] != '\0' ? audit->after : "-",
                 audit->reason[0] != '\0' ? "  # " : "", audit->reason);
}

bool wr_book_print_page(struct wr_page *page)
{
    struct weir_slice text = wr_page_text(page);
    bool done =
        !page->full && fwrite(text.ptr, 1, text.len, stdout) == text.len && putchar('\n') != EOF;

    wr_page_free(page);
    return done;
}
