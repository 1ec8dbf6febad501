#include "CTLS.h"
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

struct ctls {
    SSL_CTX *context;
    SSL *ssl;
    BIO *in, *out;
    X509_STORE *store;
};

ctls *ctls_new(const char *host, int minimum, const unsigned char *protocols, size_t length) {
    ctls *tls = calloc(1, sizeof *tls);
    tls->context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_min_proto_version(tls->context, minimum);
    tls->ssl = SSL_new(tls->context);
    tls->in = BIO_new(BIO_s_mem());
    tls->out = BIO_new(BIO_s_mem());
    // An empty buffer is no end.
    BIO_set_mem_eof_return(tls->in, -1);
    SSL_set_bio(tls->ssl, tls->in, tls->out);
    SSL_set_tlsext_host_name(tls->ssl, host);
    if (length > 0) SSL_set_alpn_protos(tls->ssl, protocols, (unsigned)length);
    SSL_set_connect_state(tls->ssl);
    tls->store = X509_STORE_new();
    return tls;
}

void ctls_free(ctls *tls) {
    X509_STORE_free(tls->store);
    SSL_free(tls->ssl);
    SSL_CTX_free(tls->context);
    free(tls);
}

void ctls_take(ctls *tls, const void *bytes, size_t count) { BIO_write(tls->in, bytes, (int)count); }

size_t ctls_give(ctls *tls, void *buffer, size_t size) {
    int count = BIO_read(tls->out, buffer, (int)size);
    return count > 0 ? (size_t)count : 0;
}

int ctls_shake_hands(ctls *tls) {
    // SSL_get_error also reads what other connections of this thread have left.
    ERR_clear_error();
    int result = SSL_do_handshake(tls->ssl);
    if (result == 1) return 1;
    return SSL_get_error(tls->ssl, result) == SSL_ERROR_WANT_READ ? 0 : -1;
}

void ctls_write(ctls *tls, const void *bytes, size_t count) {
    if (count > 0) SSL_write(tls->ssl, bytes, (int)count);
}

int ctls_read(ctls *tls, void *buffer, size_t size) {
    ERR_clear_error();
    int count = SSL_read(tls->ssl, buffer, (int)size);
    if (count > 0) return count;
    switch (SSL_get_error(tls->ssl, count)) {
    case SSL_ERROR_WANT_READ: return -1;
    case SSL_ERROR_ZERO_RETURN: return 0;
    default: return -2;
    }
}

void ctls_trust(ctls *tls, const void *certificate, size_t count) {
    const unsigned char *bytes = certificate;
    X509 *parsed = d2i_X509(NULL, &bytes, (long)count);
    if (!parsed) return;
    X509_STORE_add_cert(tls->store, parsed);
    X509_free(parsed);
}

enum ctls_verdict ctls_verify(ctls *tls, const char *host, bool with_the_systems) {
    if (with_the_systems) X509_STORE_set_default_paths(tls->store);
    X509_STORE_CTX *check = X509_STORE_CTX_new();
    X509_STORE_CTX_init(check, tls->store, SSL_get0_peer_certificate(tls->ssl), SSL_get_peer_cert_chain(tls->ssl));
    X509_VERIFY_PARAM *rules = X509_STORE_CTX_get0_param(check);
    X509_VERIFY_PARAM_set_purpose(rules, X509_PURPOSE_SSL_SERVER);
    X509_VERIFY_PARAM_set_flags(rules, X509_V_FLAG_PARTIAL_CHAIN);
    if (host && X509_VERIFY_PARAM_set1_ip_asc(rules, host) != 1) X509_VERIFY_PARAM_set1_host(rules, host, 0);
    X509_verify_cert(check);
    int error = X509_STORE_CTX_get_error(check);
    X509_STORE_CTX_free(check);
    switch (error) {
    case X509_V_OK: return ctls_good;
    case X509_V_ERR_CERT_HAS_EXPIRED: return ctls_expired;
    case X509_V_ERR_CERT_NOT_YET_VALID: return ctls_not_yet_valid;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH: return ctls_other_host;
    default: return ctls_untrusted;
    }
}
