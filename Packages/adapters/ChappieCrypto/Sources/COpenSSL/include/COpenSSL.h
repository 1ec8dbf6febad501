// The parts of libcrypto that Chappie uses: the EVP interface (ciphers, digests, HMAC, scrypt, signatures), random bytes, comparing
// in constant time and wiping. Nothing of the low-level interfaces, which OpenSSL 3 has deprecated.
#ifndef COPENSSL_H
#define COPENSSL_H

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>

/// Initialises libcrypto without its clean-up at exit. Call it before anything else uses libcrypto or libssl: `exit()`
/// would otherwise free what a thread still works with. The operating system takes everything back anyway.
///
/// Idempotent and thread-safe; returns 1, or 0 when libcrypto can't be initialised. Only the first initialisation of a
/// process decides: where the host program initialised OpenSSL earlier, its clean-up stays.
static inline int chappie_openssl_init(void) { return OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL); }

#endif
