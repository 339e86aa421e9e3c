/* nginx_conf.c - words, quotes, comments and braces, as nginx's ngx_conf_read_token has them: a
 * word ends at blanks, ; or {; quotes count at its begin only; a backslash keeps the next byte. */
#include "import/nginx_conf.h"

void wr_conf_begin(struct wr_conf *conf, const char *text, size_t len)
{
    conf->at = text;
    conf->end = text + len;
    conf->line = 1;
    conf->why = NULL;
    conf->count = 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static char step(struct wr_conf *conf)
{
    char c = *conf->at++;

    conf->line += c == '\n';
    return c;
}

static void skip(struct wr_conf *conf)
{
    while (conf->at < conf->end && (is_blank(*conf->at) || *conf->at == '#')) {
        if (*conf->at == '#')
            while (conf->at < conf->end && *conf->at != '\n')
                conf->at++;
        else
            (void)step(conf);
    }
}

/* False: it is too long, or its quote does not end. */
static bool read_word(struct wr_conf *conf, char *out)
{
    char quote = '\0';
    size_t len = 0;

    if (*conf->at == '"' || *conf->at == '\'')
        quote = step(conf);
    for (;;) {
        char c;
        if (conf->at == conf->end) {
            conf->why =
                quote != '\0' ? "a quote that does not end" : "a directive that does not end";
            return false;
        }
        c = *conf->at;
        if (quote != '\0' ? c == quote : is_blank(c) || c == ';' || c == '{')
            break;
        if (quote == '\0' && c == '$' && conf->at + 1 < conf->end && conf->at[1] == '{' &&
            len + 2 < WR_CONF_WORD_MAX)
            out[len++] = step(conf); /* ${name}: its brace begins no block */
        else if (c == '\\' && conf->at + 1 < conf->end &&
                 (conf->at[1] == '"' || conf->at[1] == '\''))
            (void)step(conf);
        if (len + 1 >= WR_CONF_WORD_MAX) {
            conf->why = "a word that is too long";
            return false;
        }
        out[len++] = step(conf);
    }
    if (quote != '\0')
        (void)step(conf);
    out[len] = '\0';
    return true;
}

enum wr_conf_end wr_conf_next(struct wr_conf *conf)
{
    char dropped[WR_CONF_WORD_MAX];

    conf->count = 0;
    for (;;) {
        char c;
        skip(conf);
        if (conf->at == conf->end) {
            conf->why = "a directive that does not end";
            return conf->count == 0 ? WR_CONF_EOF : WR_CONF_BAD;
        }
        c = *conf->at;
        if (c == ';' || c == '{' || c == '}') {
            if (c != '}' || conf->count == 0)
                (void)step(conf);
            if (c == '}') {
                conf->why = "a directive that does not end";
                return conf->count == 0 ? WR_CONF_CLOSE : WR_CONF_BAD;
            }
            if (conf->count > 0)
                return c == ';' ? WR_CONF_SEMICOLON : WR_CONF_OPEN;
            conf->why = "expected a directive";
            return WR_CONF_BAD;
        }
        if (!read_word(conf, conf->count < WR_CONF_WORDS_MAX ? conf->words[conf->count] : dropped))
            return WR_CONF_BAD;
        conf->count += conf->count < WR_CONF_WORDS_MAX;
    }
}
