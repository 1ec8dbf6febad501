// SQLite's interface, imported as it is; and extended attributes of files and kinds of file systems, which Swift's module of the C
// library lacks. On Apple's platforms both headers and the library are the SDK's.
#include <sqlite3.h>
#include <sys/xattr.h>
#ifdef __linux__
#include <sys/statfs.h>
#endif
