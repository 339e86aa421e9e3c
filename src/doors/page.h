/* page.h - a text of any length that is put together: the admin door's answers. JSON is written
 * member by member, with commas where they belong. */
#ifndef WR_DOORS_PAGE_H
#define WR_DOORS_PAGE_H

#include "serve/bytes.h"
#include "weir/weir.h"

/* All zeros is an empty one. After one failure everything more is dropped. */
struct wr_page {
    struct wr_bytes bytes;
    bool full; /* out of memory */
};

/* Empty it; its memory stays. */
void wr_page_clear(struct wr_page *page);
void wr_page_free(struct wr_page *page);
struct weir_slice wr_page_text(const struct wr_page *page);

/* As it stands. */
void wr_page_put(struct wr_page *page, const char *text);
void wr_page_put_slice(struct wr_page *page, struct weir_slice text);
void wr_page_put_int(struct wr_page *page, int64_t value);
void wr_page_put_uint(struct wr_page *page, uint64_t value);

/* JSON: `{` or `[`, and what ends it. A value that follows another in its list, and a key that
 * follows another member, get their comma. */
void wr_page_open(struct wr_page *page, char bracket);
void wr_page_close(struct wr_page *page, char bracket);
void wr_page_key(struct wr_page *page, const char *key); /* needs no escapes */
/* What is not UTF-8 becomes U+FFFD. */
void wr_page_string(struct wr_page *page, struct weir_slice text);
void wr_page_name(struct wr_page *page, const char *text); /* NULL: null */
void wr_page_int(struct wr_page *page, int64_t value);
void wr_page_uint(struct wr_page *page, uint64_t value);
void wr_page_bool(struct wr_page *page, bool value);
void wr_page_null(struct wr_page *page);

#endif
