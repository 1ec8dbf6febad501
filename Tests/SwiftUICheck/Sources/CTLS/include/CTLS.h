// TLS for the stand-in of Network: OpenSSL between two buffers, without a socket. Its macros as functions.
#ifndef CTLS_H
#define CTLS_H
#include <stdbool.h>
#include <stddef.h>

typedef struct ctls ctls;

// Begins a handshake with a host. `minimum` is the number of a version; `protocols` are those of ALPN in their wire form.
ctls *ctls_new(const char *host, int minimum, const unsigned char *protocols, size_t length);
void ctls_free(ctls *tls);

// Takes what the peer has sent, and returns how much there is to send to it.
void ctls_take(ctls *tls, const void *bytes, size_t count);
size_t ctls_give(ctls *tls, void *buffer, size_t size);

// 1: done, 0: needs bytes of the peer, -1: failed.
int ctls_shake_hands(ctls *tls);

void ctls_write(ctls *tls, const void *bytes, size_t count);
// The number of bytes, 0: the peer has ended, -1: needs bytes of the peer, -2: failed.
int ctls_read(ctls *tls, void *buffer, size_t size);

// Adds a certificate in DER to those that `ctls_verify` trusts.
void ctls_trust(ctls *tls, const void *certificate, size_t count);

enum ctls_verdict { ctls_good, ctls_untrusted, ctls_expired, ctls_not_yet_valid, ctls_other_host };
// Checks the peer's certificate, with the system's authorities unless only the added ones count.
enum ctls_verdict ctls_verify(ctls *tls, const char *host, bool with_the_systems);
#endif
