/* secret.h - a secret that stands in a file of its own. */
#ifndef WR_BASE_SECRET_H
#define WR_BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>

/* What such a file holds. */
struct wr_secret_kind {
    const char *what, *line;
    bool (*part)(unsigned char byte); /* may it be one of the secret's? */
};
extern const struct wr_secret_kind wr_secret_token, wr_secret_password, wr_secret_store_password,
    wr_secret_store, wr_secret_webhook;

#define WR_SECRET_ERROR_MAX 512

/* The one line of the file at |path|, to be freed. NULL, with |error| written: it is not that. A
 * FIFO or a device is no such file: reading it might not end. */
char *wr_secret_read(const char *path, const struct wr_secret_kind *kind, char *error, size_t size);

/* Wipe and free; NULL is allowed. */
void wr_secret_free(char *secret);

#endif
