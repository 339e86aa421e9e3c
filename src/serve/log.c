/* log.c - lines of the daemon's log.
 *
 * Idea. A line is built in a buffer of fixed size on the stack and written at once: no lock, no
 * allocation, and a flood costs no more than its writes. What does not fit is cut inside a value,
 * never in the structure around it: room for the end is kept back.
 *
 * Standard error may be a pipe or a socket that nobody reads. Making it non-blocking would make the
 * terminal or pipe so for every program that shares it. So wr_log_try asks poll(2) first: a pipe
 * that is writable takes a page, and a line is no longer. Two that ask at once could both hear yes;
 * hence the mutex, which wr_log_try does not wait for long either.
 *
 * Rejected: syslog(3): its socket may block, and journald reads standard error as well. */
#include "serve/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "wire/utf8.h"

#define TRIES 100 /* for the mutex: another line is being written, which takes microseconds */

static bool log_json;
static enum wr_log_level log_least = WR_LOG_INFO;
static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;

void wr_log_setup(bool json, enum wr_log_level least)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)open("/dev/null", O_RDWR); /* gets the lowest number that is free: this one */
    log_json = json;
    log_least = least;
}

bool wr_log_wants(enum wr_log_level level)
{
    return level >= log_least;
}

struct line {
    char *at, *end;
};

static void put(struct line *line, const char *text, size_t len)
{
    size_t room = (size_t)(line->end - line->at);

    if (len > room)
        len = room;
    memcpy(line->at, text, len);
    line->at += len;
}

static void put_text(struct line *line, const char *text)
{
    put(line, text, strlen(text));
}

/* |text| in quotes. JSON's escapes serve the text form too. */
static void put_quoted(struct line *line, const char *text, size_t len)
{
    char escaped[8];
    size_t n;

    put(line, "\"", 1);
    for (size_t i = 0; i < len && line->end - line->at > (ptrdiff_t)sizeof escaped; i += n) {
        uint32_t c = wr_utf8_read((const unsigned char *)text + i, len - i, &n);
        if (c == '"' || c == '\\') {
            escaped[0] = '\\';
            escaped[1] = (char)c;
            put(line, escaped, 2);
        } else if (wr_utf8_is_unseen(c)) {
            (void)snprintf(escaped, sizeof escaped, "\\u%04x", c & 0xffffU);
            put(line, escaped, 6);
        } else {
            put(line, text + i, n);
        }
    }
    put(line, "\"", 1);
}

static bool is_bare(const struct wr_log_value *value)
{
    for (size_t i = 0; i < value->len; i++) {
        char c = value->text[i];
        if (c <= 0x20 || c == '"' || c == '\\' || c == '=' || c == 0x7f)
            return false; /* |c| is signed: nothing above ASCII is bare */
    }
    return value->len > 0;
}

static void put_time(struct line *line, int64_t unix_ns)
{
    time_t seconds = (time_t)(unix_ns / WR_NS_PER_S);
    struct tm tm;
    char text[64];

    (void)gmtime_r(&seconds, &tm);
    (void)snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900,
                   tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
                   (int)(unix_ns % WR_NS_PER_S / 1000000));
    put_text(line, text);
}

static void put_value(struct line *line, bool json, const struct wr_log_value *value)
{
    char number[24];

    put_text(line, json ? ",\"" : " ");
    put_text(line, value->name);
    put_text(line, json ? "\":" : "=");
    if (value->is_bool) {
        put_text(line, value->number != 0 ? "true" : "false");
    } else if (value->text == NULL) {
        (void)snprintf(number, sizeof number, "%lld", (long long)value->number);
        put_text(line, number);
    } else if (!json && is_bare(value)) {
        put(line, value->text, value->len);
    } else {
        put_quoted(line, value->text, value->len);
    }
}

size_t wr_log_format(char *out, size_t size, bool json, int64_t unix_ns, enum wr_log_level level,
                     const char *event, const struct wr_log_value *values, size_t count)
{
    static const char *const names[] = {"debug", "info", "warning", "error"};
    struct line line = {out, out + size - 2}; /* room for the last brace and the terminator */

    put_text(&line, json ? "{\"time\":\"" : "");
    put_time(&line, unix_ns);
    put_text(&line, json ? "\",\"level\":\"" : " ");
    put_text(&line, names[level]);
    put_text(&line, json ? "\",\"event\":" : " ");
    if (json)
        put_quoted(&line, event, strlen(event));
    else
        put_text(&line, event);
    for (size_t i = 0; i < count && line.end - line.at > 64; i++)
        put_value(&line, json, &values[i]);
    if (json)
        *line.at++ = '}';
    *line.at = '\0';
    return (size_t)(line.at - out);
}

/* A whole line at |text|, of WR_LOG_LINE_MAX bytes; its length. */
static size_t make_line(char *text, enum wr_log_level level, const char *event,
                        const struct wr_log_value *values, size_t count)
{
    size_t len = wr_log_format(text, WR_LOG_LINE_MAX - 1, log_json, wr_clock_wall().ns, level,
                               event, values, count);

    text[len] = '\n';
    return len + 1;
}

void wr_log_write(enum wr_log_level level, const char *event, const struct wr_log_value *values,
                  size_t count)
{
    char text[WR_LOG_LINE_MAX];
    size_t len;

    if (!wr_log_wants(level))
        return;
    len = make_line(text, level, event, values, count);
    (void)pthread_mutex_lock(&log_mutex);
    (void)!write(STDERR_FILENO, text, len);
    (void)pthread_mutex_unlock(&log_mutex);
}

static bool lock_soon(void)
{
    for (int i = 0; i < TRIES; i++) {
        if (pthread_mutex_trylock(&log_mutex) == 0)
            return true;
        (void)sched_yield();
    }
    return false;
}

bool wr_log_try(enum wr_log_level level, const char *event, const struct wr_log_value *values,
                size_t count)
{
    struct pollfd ready = {STDERR_FILENO, POLLOUT, 0};
    char text[WR_LOG_LINE_MAX];
    size_t len;
    bool written;

    if (!wr_log_wants(level))
        return true;
    len = make_line(text, level, event, values, count);
    if (!lock_soon())
        return false;
    written = poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) != 0 &&
              write(STDERR_FILENO, text, len) == (ssize_t)len;
    (void)pthread_mutex_unlock(&log_mutex);
    return written;
}

bool wr_log_is_json(void)
{
    return log_json;
}

void wr_log_lines(enum wr_log_level level, const char *event, const char *text)
{
    while (*text != '\0') {
        size_t len = strcspn(text, "\n");
        wr_log(level, event, wr_log_slice("reason", (struct weir_slice){text, len}));
        text += len;
        text += *text == '\n';
    }
}

/* Of the first line of |text|. */
static bool is_warning(const char *text)
{
    const char *word = strstr(text, ": warning: "), *error = strstr(text, ": error: ");

    return word != NULL && (size_t)(word - text) < strcspn(text, "\n") &&
           (error == NULL || word < error);
}

/* The line after the first of |text|. */
static const char *next_line(const char *text)
{
    text += strcspn(text, "\n");
    return *text == '\n' ? text + 1 : text;
}

void wr_log_findings(const char *event, const char *text)
{
    for (; *text != '\0'; text = next_line(text)) {
        bool warning = is_warning(text);
        wr_log(warning ? WR_LOG_WARNING : WR_LOG_ERROR, warning ? "policy warning" : event,
               wr_log_slice("reason", (struct weir_slice){text, strcspn(text, "\n")}));
    }
}

void wr_log_first_error(const char *text, char *out, size_t size)
{
    const char *line = text;

    while (*line != '\0' && is_warning(line))
        line = next_line(line);
    if (*line == '\0')
        line = text;
    (void)snprintf(out, size, "%.*s", (int)strcspn(line, "\n"), line);
}

void wr_log_say(const char *text)
{
    if (log_json)
        wr_log_findings("start failed", text);
    else
        (void)fputs(text, stderr);
}
