/* http1_reply.c - responses of HTTP/1.1, and problems of input (RFC 9457). */
#include "wire/http1_reply.h"

#include <string.h>
#include <time.h>

#include "wire/json.h"

static const struct {
    int status;
    const char *reason;
} reasons[] = {
    {200, "OK"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

const char *wr_http_reason(int status)
{
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "";
}

/* The words of strftime are the locale's. */
void wr_http_date(int64_t unix_s, char out[WR_HTTP_DATE_BYTES])
{
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t seconds = (time_t)unix_s;
    struct tm tm = {0};

    (void)gmtime_r(&seconds, &tm);
    (void)strftime(out, WR_HTTP_DATE_BYTES, "xxx, %d xxx %Y %H:%M:%S GMT", &tm);
    memcpy(out, days[tm.tm_wday], 3);
    memcpy(out + 8, months[tm.tm_mon], 3);
}

static void put(struct wr_http_reply *reply, const char *text, size_t len)
{
    if (len > reply->size - reply->len) {
        reply->full = true;
        return;
    }
    memcpy(reply->out + reply->len, text, len);
    reply->len += len;
}

static void put_text(struct wr_http_reply *reply, const char *text)
{
    put(reply, text, strlen(text));
}

static size_t digits(char out[20], size_t value)
{
    char text[20];
    size_t at = sizeof text;

    do {
        text[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    memcpy(out, text + at, sizeof text - at);
    return sizeof text - at;
}

void wr_http_reply_begin(struct wr_http_reply *reply, int status)
{
    char number[20];

    if (status == 200) { /* nearly all of them */
        static const char line[] = "HTTP/1.1 200 OK\r\n";
        put(reply, line, sizeof line - 1);
        return;
    }
    put_text(reply, "HTTP/1.1 ");
    put(reply, number, digits(number, (size_t)status));
    put_text(reply, " ");
    put_text(reply, wr_http_reason(status));
    put_text(reply, "\r\n");
}

void wr_http_reply_field(struct wr_http_reply *reply, const char *name, struct weir_slice value)
{
    put_text(reply, name);
    put(reply, ": ", 2);
    put(reply, value.ptr, value.len);
    put(reply, "\r\n", 2);
}

void wr_http_reply_end(struct wr_http_reply *reply, size_t body_len, bool keep_alive,
                       bool say_keep_alive)
{
    char number[20];
    size_t n = digits(number, body_len);

    if (!keep_alive)
        put_text(reply, "Connection: close\r\n");
    else if (say_keep_alive)
        put_text(reply, "Connection: keep-alive\r\n");
    put_text(reply, "Content-Length: ");
    put(reply, number, n);
    put(reply, "\r\n\r\n", 4);
}

size_t wr_http_problem(char *out, int status, const char *detail, struct weir_slice member)
{
    struct wr_http_reply body = {.out = out, .size = WR_HTTP_PROBLEM_MAX};
    char number[20];

    if (member.len > 160) /* its escaped form has to fit */
        member.len = 160;
    put_text(&body, "{\"type\":\"about:blank\",\"title\":\"");
    put_text(&body, wr_http_reason(status));
    put_text(&body, "\",\"status\":");
    put(&body, number, digits(number, (size_t)status));
    put_text(&body, ",\"detail\":");
    body.len +=
        wr_json_write_string(out + body.len, body.size - body.len,
                             (struct weir_slice){detail, strnlen(detail, WR_HTTP_DETAIL_MAX)});
    if (member.len > 0) {
        put_text(&body, ",\"member\":");
        body.len += wr_json_write_string(out + body.len, body.size - body.len, member);
    }
    put_text(&body, "}");
    return body.len;
}
