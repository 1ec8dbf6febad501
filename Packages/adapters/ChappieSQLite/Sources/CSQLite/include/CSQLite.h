// SQLite's interface, imported as it is; and extended attributes of files, which Swift's module of the C library lacks.
#include <sqlite3.h>
#include <sys/xattr.h>
