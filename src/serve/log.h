/* log.h - the daemon's own log: one line an event on standard error, as text or as JSON. Each line
 * leaves in one write, so that lines of several threads never mix. Secrets are the caller's to
 * leave out; what a terminal could take for a command, and what is not UTF-8, is escaped here. */
#ifndef WR_SERVE_LOG_H
#define WR_SERVE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "weir/weir.h"

enum wr_log_level { WR_LOG_DEBUG, WR_LOG_INFO, WR_LOG_WARNING, WR_LOG_ERROR };

#define WR_LOG_LINE_MAX 4096 /* bytes of a line; longer values are cut */

/* Before the first thread, and before anything is opened: a standard stream that is closed becomes
 * /dev/null, so that no connection gets its number, and our lines. */
void wr_log_setup(bool json, enum wr_log_level least);

/* Are lines of |level| written? */
bool wr_log_wants(enum wr_log_level level);

/* Are lines JSON? */
bool wr_log_is_json(void);

/* A value with its name; |text| NULL: a number. */
struct wr_log_value {
    const char *name;
    const char *text;
    size_t len; /* of |text| */
    int64_t number;
    bool is_bool; /* |number| is one */
};
static inline struct wr_log_value wr_log_slice(const char *name, struct weir_slice text)
{
    return (struct wr_log_value){name, text.ptr != NULL ? text.ptr : "", text.len, 0, false};
}
static inline struct wr_log_value wr_log_text(const char *name, const char *text)
{
    return wr_log_slice(name, (struct weir_slice){text, text != NULL ? strlen(text) : 0});
}
static inline struct wr_log_value wr_log_number(const char *name, int64_t number)
{
    return (struct wr_log_value){name, NULL, 0, number, false};
}

void wr_log_write(enum wr_log_level level, const char *event, const struct wr_log_value *values,
                  size_t count);

/* The same for events that callers can cause as often as they like: never waits for who reads the
 * log. False: not written, as nobody reads it or the disk is full. */
bool wr_log_try(enum wr_log_level level, const char *event, const struct wr_log_value *values,
                size_t count);

static inline struct wr_log_value wr_log_bool(const char *name, bool value)
{
    return (struct wr_log_value){name, NULL, 0, value, true};
}

/* wr_log(WR_LOG_INFO, "listening", wr_log_text("door", "http"), wr_log_number("loops", 2)); */
#define wr_log(level, event, ...)                                              \
    wr_log_write((level), (event), (const struct wr_log_value[]){__VA_ARGS__}, \
                 sizeof((const struct wr_log_value[]){__VA_ARGS__}) / sizeof(struct wr_log_value))

/* An event for each line of |text|, which is its `reason`. */
void wr_log_lines(enum wr_log_level level, const char *event, const char *text);

/* The same for lines about a policy: of level error and called |event|; those that are warnings are
 * policy warnings. */
void wr_log_findings(const char *event, const char *text);

/* The first line of |text| that is no warning; where all are, the first. Terminated at its end. */
void wr_log_first_error(const char *text, char *out, size_t size);

/* |text|, lines that say what is wrong with a policy or why there is no start: as it is, or where
 * lines are JSON an event for each, of level warning where the line says so. */
void wr_log_say(const char *text);

/* One line, without its end, at most |size| - 1 bytes and terminated; its length. For tests and for
 * logs that go elsewhere. |unix_ns|: when. */
size_t wr_log_format(char *out, size_t size, bool json, int64_t unix_ns, enum wr_log_level level,
                     const char *event, const struct wr_log_value *values, size_t count);

#endif
