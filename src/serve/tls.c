/* tls.c - TLS contexts that can be replaced while they are in use.
 *
 * Idea. Each reload makes a whole new context and swaps it in; a connection counts a reference on
 * the context it began with, which is OpenSSL's own. The swap and the start of a connection meet
 * under a mutex: it is taken once a connection, never for a decision.
 *
 * Invariant: a context in use is complete: certificate, chain and matching key, and the authorities
 * of clients where they are asked for. */
#include "serve/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

struct wr_tls {
    pthread_mutex_t mutex; /* context, files */
    SSL_CTX *context;
    struct wr_policy_tls files; /* owned */
};

/* ---- a context --------------------------------------------------------------------------- */

/* A file, as the policy names it. */
struct named {
    const char *path;
    struct wr_place at;
};

static int wrong(struct wr_tls_error *error, struct named file, const char *what, const char *why)
{
    error->at = file.at;
    (void)snprintf(error->text, sizeof error->text, "%s: expected %s: %s", file.path, what, why);
    ERR_clear_error();
    return WEIR_EIO;
}

/* OpenSSL's reason, which is the first: those behind say where it passed. In plainer words where
 * the file has no such thing. */
static const char *reason(void)
{
    unsigned long first = ERR_peek_error();
    const char *text = ERR_reason_error_string(first);

    if ((ERR_GET_LIB(first) == ERR_LIB_PEM && ERR_GET_REASON(first) == PEM_R_NO_START_LINE) ||
        (ERR_GET_LIB(first) == ERR_LIB_OSSL_DECODER && ERR_GET_REASON(first) == ERR_R_UNSUPPORTED))
        return "there is none in it";
    return text != NULL ? text : "it could not be read";
}

/* Can it be read, to an end? OpenSSL says "system lib" for all that cannot. */
static int look(struct wr_tls_error *error, struct named file, const char *what)
{
    int fd = open(file.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st = {.st_mode = 0};
    int failed = fd < 0 || fstat(fd, &st) != 0 ? errno : 0;

    if (fd >= 0)
        (void)close(fd);
    if (failed != 0)
        return wrong(error, file, what, strerror(failed));
    return S_ISREG(st.st_mode) ? 0 : wrong(error, file, what, "not a regular file");
}

/* Whoever is to type a passphrase would be asked again at each reload, and it would wait. */
static int no_passphrase(char *buffer, int size, int writing, void *asked)
{
    (void)buffer;
    (void)size;
    (void)writing;
    *(bool *)asked = true;
    return -1;
}

static int choose_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                       const unsigned char *in, unsigned in_len, void *arg)
{
    const struct wr_tls_alpn *alpn = SSL_get_app_data(ssl);
    unsigned char *chosen;

    (void)arg;
    if (alpn == NULL || alpn->len == 0)
        return SSL_TLSEXT_ERR_NOACK;
    if (SSL_select_next_proto(&chosen, out_len, alpn->protocols, alpn->len, in, in_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static int ask_for_clients(SSL_CTX *context, struct named file, struct wr_tls_error *error)
{
    static const char what[] = "certificates of authorities in PEM";
    STACK_OF(X509_NAME) * names;

    if (look(error, file, what) != 0)
        return WEIR_EIO;
    names = SSL_load_client_CA_file(file.path);
    if (names == NULL || SSL_CTX_load_verify_locations(context, file.path, NULL) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return wrong(error, file, what, reason());
    }
    SSL_CTX_set_client_CA_list(context, names);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return 0;
}

static int load_key(SSL_CTX *context, const struct wr_policy_tls *files, struct wr_tls_error *error)
{
    static const char what[] = "the private key of the certificate in PEM";
    const struct named key = {files->key, files->key_at};
    bool encrypted = false, good;

    if (look(error, key, what) != 0)
        return WEIR_EIO;
    SSL_CTX_set_default_passwd_cb(context, no_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(context, &encrypted);
    good = SSL_CTX_use_PrivateKey_file(context, files->key, SSL_FILETYPE_PEM) == 1;
    SSL_CTX_set_default_passwd_cb_userdata(context, NULL);
    if (encrypted)
        return wrong(error, key, what,
                     "it is encrypted, and nobody can be asked for its passphrase: "
                     "openssl pkey -in KEY -out NEW writes it in clear");
    if (!good && ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH)
        return wrong(error, key, what, "it is the key of another certificate");
    if (!good || SSL_CTX_check_private_key(context) != 1)
        return wrong(error, key, what, reason());
    return 0;
}

static int fill_context(SSL_CTX *context, const struct wr_policy_tls *files,
                        struct wr_tls_error *error)
{
    static const unsigned char id[] = "weir"; /* resumption under client certificates needs one */
    static const char what[] = "a certificate in PEM, its chain behind it";
    const struct named certificate = {files->certificate, files->certificate_at};
    const struct named authorities = {files->client_ca, files->client_ca_at};

    (void)SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    (void)SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                           SSL_OP_CIPHER_SERVER_PREFERENCE);
    (void)SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    (void)SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_session_id_context(context, id, sizeof id - 1);
    SSL_CTX_set_alpn_select_cb(context, choose_alpn, NULL);
    if (look(error, certificate, what) != 0)
        return WEIR_EIO;
    if (SSL_CTX_use_certificate_chain_file(context, files->certificate) != 1)
        return wrong(error, certificate, what, reason());
    if (load_key(context, files, error) != 0)
        return WEIR_EIO;
    return files->client_ca != NULL ? ask_for_clients(context, authorities, error) : 0;
}

/* "expired on 2026-01-31" into |why|, by ASN.1's "20260131...". */
static void say_when(const ASN1_TIME *when, const char *what, char why[WR_TLS_EXPIRY_MAX])
{
    struct tm tm = {0};

    (void)ASN1_TIME_to_tm(when, &tm);
    (void)snprintf(why, WR_TLS_EXPIRY_MAX, "%s %04d-%02d-%02d", what, tm.tm_year + 1900,
                   tm.tm_mon + 1, tm.tm_mday);
}

bool wr_tls_untimely(const struct wr_tls *tls, char why[WR_TLS_EXPIRY_MAX])
{
    const X509 *certificate = SSL_CTX_get0_certificate(tls->context);

    why[0] = '\0';
    if (certificate == NULL)
        return false;
    if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0)
        say_when(X509_get0_notAfter(certificate), "expired on", why);
    else if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0)
        say_when(X509_get0_notBefore(certificate), "is not valid before", why);
    return why[0] != '\0';
}

/* ---- its life ---------------------------------------------------------------------------- */

static char *copy(const char *text)
{
    return text != NULL ? strdup(text) : NULL;
}

static void free_files(struct wr_policy_tls *files)
{
    free((void *)(uintptr_t)files->certificate);
    free((void *)(uintptr_t)files->key);
    free((void *)(uintptr_t)files->client_ca);
}

int wr_tls_new(struct wr_tls **out, const struct wr_policy_tls *files, struct wr_tls_error *error)
{
    struct wr_tls *tls = calloc(1, sizeof *tls);
    int result = WEIR_ENOMEM;

    *out = NULL;
    *error = (struct wr_tls_error){.text = "out of memory"};
    if (tls == NULL)
        return WEIR_ENOMEM;
    (void)pthread_mutex_init(&tls->mutex, NULL);
    tls->files = (struct wr_policy_tls){.certificate = copy(files->certificate),
                                        .key = copy(files->key),
                                        .client_ca = copy(files->client_ca),
                                        .certificate_at = files->certificate_at,
                                        .key_at = files->key_at,
                                        .client_ca_at = files->client_ca_at};
    ERR_clear_error();
    tls->context = SSL_CTX_new(TLS_server_method());
    if (tls->context != NULL && tls->files.certificate != NULL && tls->files.key != NULL)
        result = fill_context(tls->context, files, error);
    if (result != 0) {
        wr_tls_free(tls);
        return result;
    }
    *out = tls;
    return 0;
}

void wr_tls_free(struct wr_tls *tls)
{
    if (tls == NULL)
        return;
    SSL_CTX_free(tls->context);
    free_files(&tls->files);
    (void)pthread_mutex_destroy(&tls->mutex);
    free(tls);
}

void wr_tls_replace(struct wr_tls *to, struct wr_tls *from)
{
    SSL_CTX *context;
    struct wr_policy_tls files;

    (void)pthread_mutex_lock(&to->mutex);
    context = to->context;
    files = to->files;
    to->context = from->context;
    to->files = from->files;
    (void)pthread_mutex_unlock(&to->mutex);
    from->context = context;
    from->files = files;
    wr_tls_free(from);
}

const struct wr_policy_tls *wr_tls_files(const struct wr_tls *tls)
{
    return &tls->files;
}

/* ---- connections ------------------------------------------------------------------------- */

SSL *wr_tls_begin(struct wr_tls *tls, const struct wr_tls_alpn *alpn)
{
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    SSL *ssl;

    (void)pthread_mutex_lock(&tls->mutex);
    ssl = SSL_new(tls->context);
    (void)pthread_mutex_unlock(&tls->mutex);
    if (ssl == NULL || in == NULL || out == NULL) {
        BIO_free(in);
        BIO_free(out);
        SSL_free(ssl);
        return NULL;
    }
    (void)BIO_set_mem_eof_return(in, -1); /* empty is not the end */
    (void)BIO_set_mem_eof_return(out, -1);
    SSL_set_bio(ssl, in, out);
    SSL_set_app_data(ssl, (void *)(uintptr_t)alpn);
    SSL_set_accept_state(ssl);
    return ssl;
}

bool wr_tls_agreed(SSL *ssl)
{
    const struct wr_tls_alpn *alpn = SSL_get_app_data(ssl);
    const unsigned char *chosen;
    unsigned len;

    SSL_get0_alpn_selected(ssl, &chosen, &len);
    return alpn == NULL || !alpn->needed || len > 0;
}

char *wr_tls_subject(SSL *ssl)
{
    X509 *certificate = SSL_get1_peer_certificate(ssl);
    BIO *text = BIO_new(BIO_s_mem());
    char *subject = NULL, *bytes;
    long len;

    if (certificate != NULL && text != NULL && SSL_get_verify_result(ssl) == X509_V_OK &&
        X509_NAME_print_ex(text, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253) >= 0) {
        len = BIO_get_mem_data(text, &bytes);
        if (len > 0)
            subject = strndup(bytes, (size_t)len);
    }
    BIO_free(text);
    X509_free(certificate);
    return subject;
}
