/* log.c - lines of the daemon's log.
 *
 * Idea. A line is built in a buffer of fixed size on the stack and written at once: no lock, no
 * allocation, and a flood costs no more than its writes. What does not fit is cut inside a value,
 * never in the structure around it: room for the end is kept back.
 *
 * Rejected: syslog(3): its socket may block, and journald reads standard error as well. */
#include "serve/log.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"

static bool log_json;
static enum wr_log_level log_least = WR_LOG_INFO;

void wr_log_setup(bool json, enum wr_log_level least)
{
    log_json = json;
    log_least = least;
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

/* |text| in quotes. JSON's escapes serve the text form too. Bytes above ASCII pass: doors check
 * UTF-8 where they take text in, and a journal shows what is not. */
static void put_quoted(struct line *line, const char *text)
{
    char escaped[8];

    put(line, "\"", 1);
    for (; *text != '\0' && line->end - line->at > (ptrdiff_t)sizeof escaped; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            escaped[0] = '\\';
            escaped[1] = (char)c;
            put(line, escaped, 2);
        } else if (c < 0x20 || c == 0x7f) {
            (void)snprintf(escaped, sizeof escaped, "\\u%04x", c);
            put(line, escaped, 6);
        } else {
            put(line, text, 1);
        }
    }
    put(line, "\"", 1);
}

static bool is_bare(const char *text)
{
    for (const char *c = text; *c != '\0'; c++)
        if (*c <= 0x20 || *c == '"' || *c == '\\' || *c == '=' || *c == 0x7f)
            return false;
    return *text != '\0';
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
    if (value->text == NULL) {
        (void)snprintf(number, sizeof number, "%lld", (long long)value->number);
        put_text(line, number);
    } else if (!json && is_bare(value->text)) {
        put_text(line, value->text);
    } else {
        put_quoted(line, value->text);
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
        put_quoted(&line, event);
    else
        put_text(&line, event);
    for (size_t i = 0; i < count && line.end - line.at > 64; i++)
        put_value(&line, json, &values[i]);
    if (json)
        *line.at++ = '}';
    *line.at = '\0';
    return (size_t)(line.at - out);
}

void wr_log_write(enum wr_log_level level, const char *event, const struct wr_log_value *values,
                  size_t count)
{
    char text[WR_LOG_LINE_MAX];
    size_t len;

    if (level < log_least)
        return;
    len = wr_log_format(text, sizeof text - 1, log_json, wr_clock_wall().ns, level, event, values,
                        count);
    text[len] = '\n';
    (void)!write(STDERR_FILENO, text, len + 1);
}
