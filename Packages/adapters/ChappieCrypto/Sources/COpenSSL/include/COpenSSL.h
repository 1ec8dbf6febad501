// The parts of libcrypto that Chappie uses: the EVP interface (ciphers, digests, HMAC, scrypt, signatures), random bytes, comparing
// in constant time and wiping. Nothing of the low-level interfaces, which OpenSSL 3 has deprecated. And the kernel's
// keyrings, whose system calls have no functions in the C library.
#ifndef COPENSSL_H
#define COPENSSL_H

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <linux/keyctl.h>
#include <stddef.h>

/// Initialises libcrypto without its clean-up at exit. Call it before anything else uses libcrypto or libssl: `exit()`
/// would otherwise free what a thread still works with. The operating system takes everything back anyway.
///
/// Idempotent and thread-safe; returns 1, or 0 when libcrypto can't be initialised. Only the first initialisation of a
/// process decides: where the host program initialised OpenSSL earlier, its clean-up stays.
static inline int chappie_openssl_init(void) { return OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL); }

/// Runs an operation on a key or keyring (keyctl(2)). Returns a serial number or another result, or -1.
long chappie_keyctl(int operation, long serial, unsigned long second, unsigned long third);

/// Adds a key to a keyring, or replaces it (add_key(2)). Returns its serial number, or -1.
long chappie_add_key(const char *type, const char *name, const void *bytes, size_t count, long ring);

#endif
