// What Chappie takes from libcrypto: the EVP interface (ciphers, digests, scrypt), random bytes, comparing in constant
// time and wiping. Nothing of the low-level interfaces, which OpenSSL 3 has deprecated.
#ifndef COPENSSL_H
#define COPENSSL_H

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#endif
