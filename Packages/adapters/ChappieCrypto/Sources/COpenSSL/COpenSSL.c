#define _GNU_SOURCE
#include "COpenSSL.h"

#include <sys/syscall.h>
#include <unistd.h>

long chappie_keyctl(int operation, long serial, unsigned long second, unsigned long third) {
    return syscall(SYS_keyctl, operation, serial, second, third, 0);
}

long chappie_add_key(const char *type, const char *name, const void *bytes, size_t count, long ring) {
    return syscall(SYS_add_key, type, name, bytes, count, ring);
}
