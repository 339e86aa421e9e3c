/* database.h - the SQLite file of customers and of what they used: opened, brought to this build's
 * schema, asked by prepared statements; and what is wrong with its disk, in words that say what to
 * do.
 *
 * One connection belongs to one thread at a time; whoever needs the file in another thread or
 * process opens it again. WAL: readers never wait for the writer, nor it for them. synchronous =
 * NORMAL: a kill loses nothing that was committed; a power loss may lose the last transactions, but
 * never leaves half of one. */
#ifndef WR_METER_DATABASE_H
#define WR_METER_DATABASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/weir.h"

#define WR_DATABASE_NAME "customers.db" /* in the directory of customers */
#define WR_DATABASE_BUSY_MS 2000        /* how long a statement waits for another writer */
#define WR_FAULT_TEXT_MAX 512

struct wr_database;
struct sqlite3_stmt;

/* What is wrong with the file or its disk. */
enum wr_disk {
    WR_DISK_WELL,
    WR_DISK_FULL,
    WR_DISK_READ_ONLY,
    WR_DISK_BUSY,    /* another process holds its lock */
    WR_DISK_CORRUPT, /* or no database at all */
    WR_DISK_MISSING, /* no file, and it is not ours to make one */
    WR_DISK_FOREIGN, /* of another program, or of a newer weir */
    WR_DISK_FAILED,  /* anything else: it cannot be opened, read or written */
    WR_DISKS
};

/* "well", "full", "read-only", … for logs and labels. */
const char *wr_disk_name(enum wr_disk disk);

/* What may be wrong with the disk that |path| is on, or would be: for errors that do not say. */
enum wr_disk wr_disk_look(const char *path);

struct wr_fault {
    int error; /* WEIR_E*; 0: none */
    enum wr_disk disk;
    char text[WR_FAULT_TEXT_MAX]; /* one line, with what to do where something is to be done */
};

/* As it was opened. */
const char *wr_database_path(const struct wr_database *database);

/* Write |fault|; returns |error|. */
int wr_fault_set(struct wr_fault *fault, int error, enum wr_disk disk, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

struct wr_database_options {
    const char *path;
    bool create;      /* where there is none, or an empty one, make one; otherwise that is
                         WR_DISK_MISSING */
    bool read_only;   /* changes nothing, not even the schema */
    unsigned busy_ms; /* 0: WR_DATABASE_BUSY_MS */
};

/* Open |options->path|, and bring its schema to this build's. |*out| is NULL on an error, and
 * |fault| says what and why; it is written on success too.
 * Returns: 0, WEIR_EIO (full, read-only, failed), WEIR_EBUSY, WEIR_ECORRUPT, WEIR_ENOENT (missing),
 * WEIR_EFORMAT (foreign), WEIR_ENOMEM. */
int wr_database_open(struct wr_database **out, const struct wr_database_options *options,
                     struct wr_fault *fault);
void wr_database_close(struct wr_database *database);

/* Was its log (-wal) removed while it is open? Others do not see what is in that and not in the
 * database yet. */
bool wr_database_lost_log(const struct wr_database *database);

/* Then: bring what is in the log into the database, as far as nobody reads older states. Closing
 * does so as well. */
void wr_database_save_log(struct wr_database *database);

/* Read all of it and say whether it is sound: |whole| also compares each index with its table,
 * which takes longer. Returns as wr_database_open. */
int wr_database_check(struct wr_database *database, bool whole);

/* Rename the file at |path| and its -wal to NAME.corrupt-DATE, which |aside| gets: nothing is
 * deleted. No connection may be open in this process. Returns 0 or WEIR_EIO. */
int wr_database_set_aside(const char *path, int64_t now_ns, char *aside, size_t size);

/* ---- asking ------------------------------------------------------------------------------------
 */

/* |sql| prepared, reset and with no values bound. It must be a constant: its address is what the
 * statement is remembered by. NULL: see wr_database_fault. */
struct sqlite3_stmt *wr_database_statement(struct wr_database *database, const char *sql);

/* The next row of |statement|. Returns 1: there is one; 0: there are no more, and the statement is
 * reset; or as wr_database_open, or WEIR_EAGAIN: a constraint (what is to be unique is not), and it
 * is reset. |statement| may be NULL: the error that made it so. */
int wr_database_step(struct wr_database *database, struct sqlite3_stmt *statement);

/* Run |statement| to its end. 0 or as above. */
int wr_database_run(struct wr_database *database, struct sqlite3_stmt *statement);

/* A transaction that writes; at most one of a connection. Ends in one of the other two; a failed
 * commit has rolled back. */
int wr_database_begin(struct wr_database *database);
int wr_database_commit(struct wr_database *database);
void wr_database_rollback(struct wr_database *database);
/* Rows read within it are of one moment; ends with wr_database_rollback. */
int wr_database_begin_reading(struct wr_database *database);

/* What the last call that failed says. Never NULL; valid until the next call. */
const struct wr_fault *wr_database_fault(const struct wr_database *database);

/* Text of column |index|, cut to |size| - 1 bytes; "" for NULL. */
void wr_database_text(struct sqlite3_stmt *statement, int index, char *out, size_t size);

#endif
