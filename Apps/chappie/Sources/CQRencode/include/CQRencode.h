// libqrencode, opened at run time: loading it would cost every start of a program 0.4 ms, and it need not be installed.
#ifndef CQRENCODE_H
#define CQRENCODE_H

#include <qrencode.h>
#include <stdbool.h>

/// Whether the library is installed.
bool cqrencode_is_there(void);

/// QRcode_encodeData of the smallest size that holds so many bytes at level L; NULL also where the library is missing.
QRcode *cqrencode_encode(int size, const unsigned char *bytes);

/// QRcode_free.
void cqrencode_free(QRcode *code);

#endif
