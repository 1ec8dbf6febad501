// libpq, and the two functions of libcrypto that a signed cookie needs.
#ifndef CSERVER_H
#define CSERVER_H

#include <openssl/crypto.h>
#include <openssl/hmac.h>

// Debian keeps the header in a separate folder.
#if __has_include(<postgresql/libpq-fe.h>)
#include <postgresql/libpq-fe.h>
#else
#include <libpq-fe.h>
#endif

#endif
