#define _GNU_SOURCE
#include "CMain.h"

#include <pthread.h>
#include <stddef.h>

static int argument_count;
static char **arguments;

// glibc calls the functions of .init_array with the arguments that it calls main with. Swift's own main drops them.
__attribute__((constructor)) static void keep_arguments(int count, char **words) {
    argument_count = count;
    arguments = words;
}

int cmain_argument_count(void) { return argument_count; }

const char *cmain_argument(int index) { return arguments[index]; }

static void *wait_for_all(void *gate) {
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

bool cmain_can_start_threads(int count) {
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t threads[count];
    int started = 0;
    pthread_mutex_lock(&gate);
    while (started < count && pthread_create(&threads[started], NULL, wait_for_all, &gate) == 0) started++;
    pthread_mutex_unlock(&gate);
    for (int index = 0; index < started; index++) pthread_join(threads[index], NULL);
    return started == count;
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define HAS_SANITIZER
#endif
#endif

#if defined(__linux__) && !defined(HAS_SANITIZER)

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

// The program's own functions stand before the C library's, for other libraries as well.

static void (*_Atomic on_missing_thread)(void);

void cmain_on_missing_thread(void (*handler)(void)) { atomic_store(&on_missing_thread, handler); }

int pthread_create(
    pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*body)(void *),
    void *restrict context) {
    static __typeof__(pthread_create) *_Atomic next;
    if (atomic_load(&next) == NULL) {
        atomic_store(&next, (__typeof__(pthread_create) *)dlsym(RTLD_NEXT, "pthread_create"));
    }
    __typeof__(pthread_create) *create = atomic_load(&next);
    int failure = create(thread, attributes, body, context);
    void (*handler)(void) = atomic_load(&on_missing_thread);
    // A thread that was joined a moment ago may still be counted.
    for (int tries = 0; failure == EAGAIN && handler != NULL && tries < 50; tries++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        failure = create(thread, attributes, body, context);
    }
    if (failure != 0 && handler != NULL) handler();
    return failure;
}

// Once a second libdispatch reads how busy each of its threads is, and ends a program that has no /proc for that. It passes
// over an empty file.
int open(const char *path, int flags, ...) {
    static int (*_Atomic next)(const char *, int, ...);
    if (atomic_load(&next) == NULL) {
        atomic_store(&next, (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open"));
    }
    int (*system_open)(const char *, int, ...) = atomic_load(&next);
    mode_t mode = 0;
    if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) {
        va_list rest;
        va_start(rest, flags);
        mode = va_arg(rest, mode_t);
        va_end(rest);
    }
    int descriptor = system_open(path, flags, mode);
    if (descriptor >= 0 || flags != (O_RDONLY | O_NONBLOCK) || strncmp(path, "/proc/", 6) != 0) return descriptor;
    const char *end = strrchr(path, '/');
    return strcmp(end, "/stat") == 0 ? system_open("/dev/null", O_RDONLY) : descriptor;
}

#else

void cmain_on_missing_thread(void (*handler)(void)) { (void)handler; }

#endif
