/* tls.h - certificates of a listener: loaded, and loaded anew while connections are open. Those go
 * on under the certificate they began with. */
#ifndef WR_SERVE_TLS_H
#define WR_SERVE_TLS_H

#include <openssl/ssl.h>

#include "policy/policy.h"

struct wr_tls;

/* What is wrong with which file, and where the policy names it. */
struct wr_tls_error {
    struct wr_place at;
    char text[384];
};

/* Load |files|. On errors |*out| is NULL and |error| is written.
 * Returns 0, WEIR_EIO (a file), WEIR_ENOMEM. */
int wr_tls_new(struct wr_tls **out, const struct wr_policy_tls *files, struct wr_tls_error *error);
void wr_tls_free(struct wr_tls *tls);

/* Is the certificate out of its time? Then |why| says "expired on ..." or "is not valid before
 * ...".
 */
#define WR_TLS_EXPIRY_MAX 64
bool wr_tls_untimely(const struct wr_tls *tls, char why[WR_TLS_EXPIRY_MAX]);

/* The certificates of |from| take the place of those of |to|; |from| is freed. Any thread. */
void wr_tls_replace(struct wr_tls *to, struct wr_tls *from);

/* The server's side of a new connection over two memory BIOs. |alpn| is borrowed for its life.
 * NULL: out of memory. Any thread. */
struct wr_tls_alpn {
    const unsigned char *protocols;
    unsigned len; /* 0: none */
    bool needed;  /* whoever asks for none is refused */
};
SSL *wr_tls_begin(struct wr_tls *tls, const struct wr_tls_alpn *alpn);

/* The files it was loaded from, for doors whose library has TLS of its own. */
const struct wr_policy_tls *wr_tls_files(const struct wr_tls *tls);

/* The handshake is done: is the protocol agreed on, where that is needed? */
bool wr_tls_agreed(SSL *ssl);

/* The subject of the client's verified certificate (RFC 2253), to be freed; NULL: none. */
char *wr_tls_subject(SSL *ssl);

#endif
