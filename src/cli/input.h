/* input.h - the lines of a file, plain or gzip. */
#ifndef WR_CLI_INPUT_H
#define WR_CLI_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wr_input;

/* Open |path|, "-" being standard input. NULL on error: errno says why. */
struct wr_input *wr_input_open(const char *path);
void wr_input_close(struct wr_input *input);

/* The next line, without its newline, borrowed until the next call; false at the end. Of a line
 * longer than WR_LOG_LINE_MAX the first WR_LOG_LINE_MAX + 1 bytes. */
bool wr_input_line(struct wr_input *input, const char **line, size_t *len);

/* What stopped the reading before the end of the file; NULL: nothing. */
const char *wr_input_error(const struct wr_input *input);

/* Bytes read of the file, and its size (0: not known), both as on disk. */
uint64_t wr_input_offset(const struct wr_input *input);
uint64_t wr_input_size(const struct wr_input *input);

#endif
