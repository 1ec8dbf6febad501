// zlib's API, imported as it is, and the two set-up macros that Swift can't read as functions.
#ifndef CZLIB_H
#define CZLIB_H

#include <zlib.h>

/// deflateInit2 for a raw stream (RFC 1951, no header) with `window_bits` of 9 to 15.
int czlib_deflate_init_raw(z_stream *stream, int level, int window_bits, int memory_level);

/// inflateInit2 for a raw stream with `window_bits` of 8 to 15.
int czlib_inflate_init_raw(z_stream *stream, int window_bits);

#endif
