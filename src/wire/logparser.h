/* logparser.h - what the two halves of the log parser share: accesslog.c (lines with columns) and
 * accesslog_json.c. */
#ifndef WR_WIRE_LOGPARSER_H
#define WR_WIRE_LOGPARSER_H

#include "wire/accesslog.h"
#include "wire/json_load.h"
#include "wire/logtime.h"

/* A line can be decoded once, and header values that come in pieces be joined once more; a comma
 * and a blank for each join is no more than the quotes and the comma that it replaces. */
#define WR_LOG_SCRATCH (2 * (size_t)WR_LOG_LINE_MAX)

struct wr_log_parser {
    enum wr_log_format format;
    const char *const *names;
    size_t count;
    size_t name_len[WR_LOG_FIELDS_MAX];
    int referer, user_agent, forwarded_for; /* indexes in names; -1: nobody asked */
    char memo_text[WR_LOGTIME_CLF_LEN];     /* the last time stamp, and what it means */
    int64_t memo_ns;
    char *scratch;              /* WR_LOG_SCRATCH bytes, used anew for each line */
    json_t *tree;               /* the last JSON line, which slices may point into; NULL: none */
    struct wr_json_error error; /* of the last JSON line */
    const char *column;         /* where in the line the error is */
};

/* The index of the wanted field called |name|, or -1. Letter case is ignored, and so is the
 * difference of '-' and '_', since nginx and others log X-Api-Key as x_api_key. */
int wr_log_field_find(const struct wr_log_parser *parser, struct weir_slice name);

/* "1.2.3.4:80" -> "1.2.3.4", "[::1]:80" and "[::1]" -> "::1"; anything else as it is. */
struct weir_slice wr_log_strip_port(struct weir_slice text);

/* "GET /x HTTP/1.1" -> method and path, as much as there is. */
void wr_log_split_request(struct weir_slice request, struct wr_log_record *out);

/* The JSON object |line|..|end|. Returns NULL or the error, its place in parser->column. */
const char *wr_log_parse_json(struct wr_log_parser *parser, const char *line, const char *end,
                              struct wr_log_record *out);

#endif
