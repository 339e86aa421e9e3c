/* page.c - a text that grows, and JSON in it.
 *
 * The idea. Whether a comma is due can be seen from the last byte: none behind an opening bracket,
 * a colon, or nothing. So there is no state to keep, and a page can be written by many functions.
 */
#include "doors/page.h"

#include <string.h>

#include "wire/json_write.h"

#define STRING_AT_ONCE 256U

void wr_page_clear(struct wr_page *page)
{
    page->bytes.start = page->bytes.end = 0;
    page->full = false;
}

void wr_page_free(struct wr_page *page)
{
    wr_bytes_free(&page->bytes);
}

struct weir_slice wr_page_text(const struct wr_page *page)
{
    return (struct weir_slice){(const char *)page->bytes.bytes, page->bytes.end};
}

/* ---- text ---------------------------------------------------------------------------------- */

void wr_page_put_slice(struct wr_page *page, struct weir_slice text)
{
    if (text.len > 0 && !page->full)
        page->full = !wr_bytes_append(&page->bytes, text.ptr, text.len);
}

void wr_page_put(struct wr_page *page, const char *text)
{
    wr_page_put_slice(page, (struct weir_slice){text, strlen(text)});
}

void wr_page_put_uint(struct wr_page *page, uint64_t value)
{
    char digits[20];
    size_t at = sizeof digits;

    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    wr_page_put_slice(page, (struct weir_slice){digits + at, sizeof digits - at});
}

void wr_page_put_int(struct wr_page *page, int64_t value)
{
    if (value < 0)
        wr_page_put(page, "-");
    wr_page_put_uint(page, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void comma(struct wr_page *page)
{
    size_t len = page->bytes.end;
    uint8_t last = len > 0 ? page->bytes.bytes[len - 1] : '{';

    if (last != '{' && last != '[' && last != ':')
        wr_page_put(page, ",");
}

void wr_page_open(struct wr_page *page, char bracket)
{
    comma(page);
    wr_page_put_slice(page, (struct weir_slice){&bracket, 1});
}

void wr_page_close(struct wr_page *page, char bracket)
{
    wr_page_put_slice(page, (struct weir_slice){&bracket, 1});
}

void wr_page_key(struct wr_page *page, const char *key)
{
    comma(page);
    wr_page_put(page, "\"");
    wr_page_put(page, key);
    wr_page_put(page, "\":");
}

void wr_page_string(struct wr_page *page, struct weir_slice text)
{
    size_t room = 6 * text.len + 2, end;
    char small[6 * STRING_AT_ONCE + 2];

    comma(page);
    if (text.len <= STRING_AT_ONCE) {
        wr_page_put_slice(
            page, (struct weir_slice){small, wr_json_write_string(small, sizeof small, text)});
        return;
    }
    end = page->bytes.end;
    while (room > 0 && !page->full) { /* make the room, then write over it */
        size_t piece = room < sizeof small ? room : sizeof small;
        memset(small, ' ', piece);
        wr_page_put_slice(page, (struct weir_slice){small, piece});
        room -= piece;
    }
    if (!page->full)
        page->bytes.end =
            end + wr_json_write_string((char *)page->bytes.bytes + end, 6 * text.len + 2, text);
}

void wr_page_name(struct wr_page *page, const char *text)
{
    if (text == NULL)
        wr_page_null(page);
    else
        wr_page_string(page, (struct weir_slice){text, strlen(text)});
}

void wr_page_int(struct wr_page *page, int64_t value)
{
    comma(page);
    wr_page_put_int(page, value);
}

void wr_page_uint(struct wr_page *page, uint64_t value)
{
    comma(page);
    wr_page_put_uint(page, value);
}

void wr_page_bool(struct wr_page *page, bool value)
{
    comma(page);
    wr_page_put(page, value ? "true" : "false");
}

void wr_page_null(struct wr_page *page)
{
    comma(page);
    wr_page_put(page, "null");
}
