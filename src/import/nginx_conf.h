/* nginx_conf.h - the text of an nginx configuration as directives within blocks. */
#ifndef WR_IMPORT_NGINX_CONF_H
#define WR_IMPORT_NGINX_CONF_H

#include <stdbool.h>
#include <stddef.h>

#define WR_CONF_WORDS_MAX 32
#define WR_CONF_WORD_MAX 1024

enum wr_conf_end {
    WR_CONF_SEMICOLON, /* a directive */
    WR_CONF_OPEN,      /* a block begins */
    WR_CONF_CLOSE,     /* one ends: no words */
    WR_CONF_EOF,
    WR_CONF_BAD, /* |why| says what, at |line| */
};

struct wr_conf {
    const char *at, *end;
    unsigned line; /* of what was read last */
    const char *why;
    unsigned count;
    char words[WR_CONF_WORDS_MAX][WR_CONF_WORD_MAX]; /* without their quotes */
};

void wr_conf_begin(struct wr_conf *conf, const char *text, size_t len);

/* The next directive, or the head of a block: conf->words. Words beyond the most are dropped. */
enum wr_conf_end wr_conf_next(struct wr_conf *conf);

#endif
