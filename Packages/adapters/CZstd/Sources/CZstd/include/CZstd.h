// libzstd's streaming API, imported as it is.
#include <zstd.h>
