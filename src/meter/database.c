/* database.c - one connection to the SQLite file, and what its errors mean to people.
 *
 * Problem. SQLite tells a full disk from a failing one, and a busy file from a broken one, by codes
 * that differ by where they were met; callers want to know one of a few kinds, and what to do.
 *
 * Idea. Every call goes through here: it returns WEIR_E* and leaves a fault that has the kind and a
 * line in words. Statements are prepared once and kept by the address of their text.
 *
 * Invariants:
 *   1. What was committed survives a kill of any process; with synchronous = FULL a power loss too,
 *      where the disk does what it says. One fsync a transaction: the ledger makes a few a second.
 *   2. Nothing is ever made where a file should have been, unless the caller says create. A file
 *      with nothing in it is as good as none: a disk that was full, or a slip on a shell, left it.
 *   3. No page of the file is mapped: a disk that fails to read is an error here, not SIGBUS.
 *
 * Rejected: synchronous = NORMAL, with which a power loss takes back all since the last checkpoint,
 * which may be many flushes; a mutex in each connection (one thread at a time has it). */
#include "meter/database.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/units.h"
#include "meter/schema.h"
#include "meter/window.h"

#define STATEMENTS_MAX 96U

struct prepared {
    const char *sql;
    sqlite3_stmt *statement;
};

struct wr_database {
    sqlite3 *sqlite;
    struct wr_fault fault;
    char path[4096];
    dev_t device; /* of the file that is open */
    ino_t inode;
    bool logged; /* its log was there when it was opened */
    size_t count;
    struct prepared prepared[STATEMENTS_MAX];
};

const char *wr_database_path(const struct wr_database *database)
{
    return database->path;
}

/* ---- faults --------------------------------------------------------------------------------- */

const char *wr_disk_name(enum wr_disk disk)
{
    static const char *const names[WR_DISKS] = {
        [WR_DISK_WELL] = "well",           [WR_DISK_FULL] = "full",
        [WR_DISK_READ_ONLY] = "read-only", [WR_DISK_BUSY] = "busy",
        [WR_DISK_CORRUPT] = "corrupt",     [WR_DISK_MISSING] = "missing",
        [WR_DISK_FOREIGN] = "foreign",     [WR_DISK_FAILED] = "failed"};

    return (unsigned)disk < WR_DISKS ? names[disk] : "failed";
}

/* Of a file that is not there, its folder. */
static bool look_at(const char *path, struct statvfs *out)
{
    char folder[4096];
    char *slash;

    if (statvfs(path, out) == 0)
        return true;
    (void)snprintf(folder, sizeof folder, "%s", path);
    slash = strrchr(folder, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    return statvfs(folder, out) == 0;
}

enum wr_disk wr_disk_look(const char *path)
{
    struct statvfs disk;

    if (!look_at(path, &disk))
        return WR_DISK_FAILED;
    if ((disk.f_flag & ST_RDONLY) != 0)
        return WR_DISK_READ_ONLY;
    return disk.f_bavail == 0 ? WR_DISK_FULL : WR_DISK_FAILED;
}

int wr_fault_set(struct wr_fault *fault, int error, enum wr_disk disk, const char *format, ...)
{
    va_list list;

    fault->error = error;
    fault->disk = disk;
    va_start(list, format);
    (void)vsnprintf(fault->text, sizeof fault->text, format, list);
    va_end(list);
    return error;
}

static enum wr_disk disk_of(int code, int system_error)
{
    switch (code & 0xff) {
    case SQLITE_FULL:
        return WR_DISK_FULL;
    case SQLITE_READONLY:
        return WR_DISK_READ_ONLY;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return WR_DISK_BUSY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return WR_DISK_CORRUPT;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
        if (system_error == ENOSPC || system_error == EDQUOT || system_error == EFBIG)
            return WR_DISK_FULL;
        return system_error == EROFS ? WR_DISK_READ_ONLY : WR_DISK_FAILED;
    default:
        return WR_DISK_FAILED;
    }
}

static int error_of(int code, enum wr_disk disk)
{
    if ((code & 0xff) == SQLITE_NOMEM)
        return WEIR_ENOMEM;
    if ((code & 0xff) == SQLITE_CONSTRAINT)
        return WEIR_EAGAIN;
    return disk == WR_DISK_BUSY ? WEIR_EBUSY : disk == WR_DISK_CORRUPT ? WEIR_ECORRUPT : WEIR_EIO;
}

/* The fault of |code|, which a call on |database| has just returned. */
static int fail(struct wr_database *database, int code)
{
    int last = errno, told_error = sqlite3_system_errno(database->sqlite);
    int system_error = told_error != 0 ? told_error : last; /* of a commit, only errno has it */
    enum wr_disk disk = disk_of(code, system_error);
    bool told = disk == WR_DISK_FAILED && system_error != 0;

    return wr_fault_set(&database->fault, error_of(code, disk), disk, "%s: %s%s%s", database->path,
                        sqlite3_errmsg(database->sqlite), told ? ": " : "",
                        told ? strerror(system_error) : "");
}

const struct wr_fault *wr_database_fault(const struct wr_database *database)
{
    return &database->fault;
}

int wr_database_refuse(struct wr_database *database, int error, const char *format, ...)
{
    va_list list;

    database->fault.error = error;
    database->fault.disk = WR_DISK_WELL;
    va_start(list, format);
    (void)vsnprintf(database->fault.text, sizeof database->fault.text, format, list);
    va_end(list);
    return error;
}

int wr_database_foreign(struct wr_database *database, const char *what)
{
    return wr_fault_set(&database->fault, WEIR_EFORMAT, WR_DISK_FOREIGN, "%s: %s", database->path,
                        what);
}

/* ---- opening -------------------------------------------------------------------------------- */

static int refuse_empty(struct wr_database *database)
{
    return wr_fault_set(&database->fault, WEIR_ENOENT, WR_DISK_MISSING,
                        "%s: there is nothing in it", database->path);
}

static int set_up(struct wr_database *database, const struct wr_database_options *options)
{
    static const char pragmas[] = "PRAGMA mmap_size = 0; PRAGMA foreign_keys = ON;"
                                  "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;"
                                  "PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 67108864;"
                                  "PRAGMA cache_size = -16384; PRAGMA temp_store = MEMORY;";
    int code;

    (void)sqlite3_extended_result_codes(database->sqlite, 1);
    (void)sqlite3_busy_timeout(
        database->sqlite, (int)(options->busy_ms > 0 ? options->busy_ms : WR_DATABASE_BUSY_MS));
    code = sqlite3_exec(database->sqlite, pragmas, NULL, NULL, NULL);
    if (code == SQLITE_OK) /* the first look at the file itself */
        code =
            sqlite3_exec(database->sqlite, "SELECT count(*) FROM sqlite_master", NULL, NULL, NULL);
    if (code != SQLITE_OK)
        return fail(database, code);
    if (!options->create && wr_schema_is_empty(database))
        return refuse_empty(database);
    if (options->read_only)
        return wr_schema_check(database);
    if (sqlite3_db_readonly(database->sqlite, "main") != 0)
        return wr_fault_set(&database->fault, WEIR_EIO, WR_DISK_READ_ONLY,
                            "%s: it cannot be written to", database->path);
    return wr_schema_migrate(database);
}

static void remember_file(struct wr_database *database)
{
    struct stat st;

    if (stat(database->path, &st) == 0) {
        database->device = st.st_dev;
        database->inode = st.st_ino;
    }
}

/* An empty file is an empty database; SQLite would make one that all may read. */
static void make_file(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);

    if (fd >= 0)
        (void)close(fd); /* before SQLite has it open: closing later would drop its locks */
}

/* Has the file no bytes? */
static bool is_bare(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0;
}

static int open_file(struct wr_database *database, const struct wr_database_options *options)
{
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE;
    bool makes = options->create && !options->read_only;
    int code;

    flags |= options->read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
    if (makes)
        make_file(options->path);
    else if (access(options->path, F_OK) != 0 && errno == ENOENT)
        return wr_fault_set(&database->fault, WEIR_ENOENT, WR_DISK_MISSING,
                            "%s: there is no such file", options->path);
    else if (is_bare(options->path)) /* SQLite would throw away what its log still has */
        return refuse_empty(database);
    errno = 0;
    code = sqlite3_open_v2(options->path, &database->sqlite, flags, NULL);
    if (database->sqlite == NULL)
        return wr_fault_set(&database->fault, WEIR_ENOMEM, WR_DISK_FAILED, "out of memory");
    if (code != SQLITE_OK)
        return fail(database, code);
    code = wr_window_register(database->sqlite);
    if (code != SQLITE_OK)
        return fail(database, code);
    remember_file(database);
    return set_up(database, options);
}

static bool has_log(const struct wr_database *database)
{
    char log[sizeof database->path + 8];

    (void)snprintf(log, sizeof log, "%s-wal", database->path);
    return access(log, F_OK) == 0 || errno != ENOENT;
}

bool wr_database_lost_log(const struct wr_database *database)
{
    return database->logged && !has_log(database);
}

void wr_database_save_log(struct wr_database *database)
{
    (void)sqlite3_wal_checkpoint_v2(database->sqlite, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
}

int wr_database_open(struct wr_database **out, const struct wr_database_options *options,
                     struct wr_fault *fault)
{
    struct wr_database *database = calloc(1, sizeof *database);
    int result;

    *out = NULL;
    if (database == NULL)
        return wr_fault_set(fault, WEIR_ENOMEM, WR_DISK_FAILED, "out of memory");
    (void)snprintf(database->path, sizeof database->path, "%s", options->path);
    result = open_file(database, options);
    if (result != 0 && database->fault.disk == WR_DISK_FAILED)
        database->fault.disk = wr_disk_look(options->path);
    *fault = database->fault;
    database->logged = result == 0 && has_log(database);
    if (result == 0)
        *out = database;
    else
        wr_database_close(database);
    return result;
}

void wr_database_close(struct wr_database *database)
{
    if (database == NULL)
        return;
    for (size_t i = 0; i < database->count; i++)
        (void)sqlite3_finalize(database->prepared[i].statement);
    if (database->sqlite != NULL && wr_database_lost_log(database))
        wr_database_save_log(database); /* who else reads it would keep SQLite from doing that */
    (void)sqlite3_close(database->sqlite);
    free(database);
}

bool wr_database_moved(const struct wr_database *database)
{
    struct stat st;

    return stat(database->path, &st) != 0 || st.st_dev != database->device ||
           st.st_ino != database->inode;
}

/* ---- asking --------------------------------------------------------------------------------- */

sqlite3_stmt *wr_database_statement(struct wr_database *database, const char *sql)
{
    struct prepared *prepared;
    size_t i = 0;
    int code;

    while (i < database->count && database->prepared[i].sql != sql)
        i++;
    prepared = &database->prepared[i];
    if (i < database->count) {
        (void)sqlite3_reset(prepared->statement);
        (void)sqlite3_clear_bindings(prepared->statement);
        return prepared->statement;
    }
    if (i == STATEMENTS_MAX) {
        (void)wr_fault_set(&database->fault, WEIR_ENOMEM, WR_DISK_FAILED, "too many statements");
        return NULL;
    }
    code = sqlite3_prepare_v3(database->sqlite, sql, -1, SQLITE_PREPARE_PERSISTENT,
                              &prepared->statement, NULL);
    if (code != SQLITE_OK) {
        (void)fail(database, code);
        return NULL;
    }
    prepared->sql = sql;
    database->count++;
    return prepared->statement;
}

int wr_database_step(struct wr_database *database, sqlite3_stmt *statement)
{
    int code, result;

    if (statement == NULL)
        return database->fault.error;
    errno = 0;
    code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        return 1;
    result = code == SQLITE_DONE ? 0 : fail(database, code);
    (void)sqlite3_reset(statement);
    return result;
}

int wr_database_run(struct wr_database *database, sqlite3_stmt *statement)
{
    int result = wr_database_step(database, statement);

    while (result == 1)
        result = wr_database_step(database, statement);
    return result;
}

int wr_database_exec(struct wr_database *database, const char *sql)
{
    int code;

    errno = 0;
    code = sqlite3_exec(database->sqlite, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? 0 : fail(database, code);
}

int wr_database_begin(struct wr_database *database)
{
    return wr_database_run(database, wr_database_statement(database, "BEGIN IMMEDIATE"));
}

int wr_database_begin_reading(struct wr_database *database)
{
    return wr_database_run(database, wr_database_statement(database, "BEGIN DEFERRED"));
}

int wr_database_commit(struct wr_database *database)
{
    int result = wr_database_run(database, wr_database_statement(database, "COMMIT"));

    if (result != 0) {
        struct wr_fault fault = database->fault;
        wr_database_rollback(database);
        database->fault = fault;
    }
    return result;
}

/* SQLite has rolled back by itself after some errors; and what is still being read keeps it from
 * nothing. */
void wr_database_rollback(struct wr_database *database)
{
    struct wr_fault fault = database->fault;

    for (size_t i = 0; i < database->count; i++)
        (void)sqlite3_reset(database->prepared[i].statement);
    if (sqlite3_get_autocommit(database->sqlite) == 0)
        (void)wr_database_run(database, wr_database_statement(database, "ROLLBACK"));
    database->fault = fault;
}

bool wr_database_writing(const struct wr_database *database)
{
    return sqlite3_get_autocommit(database->sqlite) == 0;
}

void wr_database_text(sqlite3_stmt *statement, int index, char *out, size_t size)
{
    const unsigned char *text = sqlite3_column_text(statement, index);
    size_t len = text != NULL ? (size_t)sqlite3_column_bytes(statement, index) : 0;

    len = len < size ? len : size - 1;
    if (len > 0)
        memcpy(out, text, len);
    out[len] = '\0';
}

/* ---- its health ----------------------------------------------------------------------------- */

int wr_database_check(struct wr_database *database, bool whole)
{
    sqlite3_stmt *statement = wr_database_statement(database, whole ? "PRAGMA integrity_check(1)"
                                                                    : "PRAGMA quick_check(1)");
    char text[256] = "";
    const char *what = text;
    int result = wr_database_step(database, statement);

    if (result == 1)
        wr_database_text(statement, 0, text, sizeof text);
    if (statement != NULL)
        (void)sqlite3_reset(statement);
    if (result < 0)
        return result;
    if (strcmp(text, "ok") == 0)
        return 0;
    if (text[0] == '*' && strchr(text, '\n') != NULL) /* "*** in database main ***" */
        what = strchr(text, '\n') + 1;
    text[(size_t)(what - text) + strcspn(what, "\n")] = '\0';
    return wr_fault_set(&database->fault, WEIR_ECORRUPT, WR_DISK_CORRUPT, "%s: it is damaged: %s",
                        database->path, what);
}

static int rename_with(const char *from, const char *to, const char *suffix)
{
    char source[4096 + 8], target[4096 + 64];

    (void)snprintf(source, sizeof source, "%s%s", from, suffix);
    (void)snprintf(target, sizeof target, "%s%s", to, suffix);
    return rename(source, target) == 0 || errno == ENOENT ? 0 : WEIR_EIO;
}

/* The log of the file goes first: should we be killed in between, a file without its log is still
 * not taken for a sound one, as it is damaged. */
int wr_database_set_aside(const char *path, int64_t now_ns, char *aside, size_t size)
{
    time_t now = (time_t)(now_ns / WR_NS_PER_S);
    char date[32] = "";
    struct tm tm;

    if (gmtime_r(&now, &tm) != NULL)
        (void)strftime(date, sizeof date, "%Y%m%dT%H%M%SZ", &tm);
    (void)snprintf(aside, size, "%s.corrupt-%s", path, date);
    for (unsigned i = 2; i < 100 && access(aside, F_OK) == 0; i++)
        (void)snprintf(aside, size, "%s.corrupt-%s-%u", path, date, i);
    if (rename_with(path, aside, "-wal") != 0 || rename_with(path, aside, "") != 0)
        return WEIR_EIO;
    (void)rename_with(path, aside, "-shm");
    return 0;
}
