/* http1_parts.h - what the files of the HTTP/1.1 reader share with each other. */
#ifndef WR_WIRE_HTTP1_PARTS_H
#define WR_WIRE_HTTP1_PARTS_H

#include "wire/http1.h"

enum wr_http_char { WR_CHAR_TOKEN = 1, WR_CHAR_VALUE = 2, WR_CHAR_TARGET = 4, WR_CHAR_HOST = 8 };

/* How many bytes from |at| on are of |kind|. */
size_t wr_http_span(const char *at, const char *end, unsigned char kind);

/* Without blanks around it. */
struct weir_slice wr_http_trimmed(const char *at, const char *end);

/* The field line at |*at|, which is stepped over; it ends in CRLF before |end|. NULL, or what is
 * wrong with it. */
const char *wr_http_read_field(const char **at, const char *end, struct wr_http_field *field);

enum wr_http_step wr_http_bad(struct wr_http_parser *parser, int status, const char *error);

/* Walk on over the chunks from parser->scanned. DONE: the last line, at parser->scanned. */
enum wr_http_step wr_http_find_chunks(struct wr_http_parser *parser, const char *bytes, size_t len);

/* Put the data of whole, checked chunks together. Returns their length. */
size_t wr_http_join_chunks(const char *at, char *out);

#endif
