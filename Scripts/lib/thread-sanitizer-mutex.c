// Tells ThreadSanitizer about Swift's Mutex. Its uncontended path is compiled into the program and seen there; the
// contended one sleeps on a futex inside Swift's own library, which is not instrumented, so that data guarded by a
// contended mutex looks like a race. Preloaded by `Scripts/test --sanitize`, this stands before those two functions.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

#define SWIFT __attribute__((swiftcall))
#define SELF __attribute__((swift_context))

extern void __tsan_acquire(void *address) __attribute__((weak));
extern void __tsan_release(void *address) __attribute__((weak));

// _MutexHandle._lockSlow(_: UInt32)
SWIFT void lock_slow(uint32_t thread, SELF void *mutex) __asm__("$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF");
// _MutexHandle._unlockSlow()
SWIFT void unlock_slow(SELF void *mutex) __asm__("$s15Synchronization12_MutexHandleV11_unlockSlowyyF");

typedef SWIFT void (*lock_function)(uint32_t thread, SELF void *mutex);
typedef SWIFT void (*unlock_function)(SELF void *mutex);

SWIFT void lock_slow(uint32_t thread, SELF void *mutex) {
    lock_function next = (lock_function)dlsym(RTLD_NEXT, "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF");
    next(thread, mutex);
    if (__tsan_acquire) __tsan_acquire(mutex);
}

SWIFT void unlock_slow(SELF void *mutex) {
    if (__tsan_release) __tsan_release(mutex);
    unlock_function next = (unlock_function)dlsym(RTLD_NEXT, "$s15Synchronization12_MutexHandleV11_unlockSlowyyF");
    next(mutex);
}
