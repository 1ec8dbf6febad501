#define _GNU_SOURCE
#include "CSpawn.h"

#if defined(__linux__)

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

// A copy of `descriptor` that none of the descriptors 0, 1 and 2 can be in the way of.
static int above_standard(int descriptor) {
    return fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
}

int cspawn_start(
    const char *path, char *const arguments[], char *const environment[], int input, int output, int error,
    pid_t *child) {
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    int status = posix_spawnattr_init(&attributes);
    if (status != 0) return status;
    status = posix_spawn_file_actions_init(&actions);
    if (status != 0) {
        posix_spawnattr_destroy(&attributes);
        return status;
    }

    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

    int sources[3] = {above_standard(input), above_standard(output), above_standard(error)};
    for (int target = 0; target < 3 && status == 0; target++) {
        status = sources[target] < 0 ? errno : posix_spawn_file_actions_adddup2(&actions, sources[target], target);
    }
    if (status == 0) status = posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    if (status == 0) status = posix_spawn(child, path, &actions, &attributes, arguments, environment);

    for (int index = 0; index < 3; index++) {
        if (sources[index] >= 0) close(sources[index]);
    }
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return status;
}

int cspawn_memory_file(void) {
    return memfd_create("chappie", MFD_CLOEXEC);
}

void cspawn_await_end(pid_t child) {
    siginfo_t info;
    while (waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == -1 && errno == EINTR) {}
}

int cspawn_reap(pid_t child) {
    int status = 0;
    pid_t reaped;
    do {
        reaped = waitpid(child, &status, 0);
    } while (reaped == -1 && errno == EINTR);
    if (reaped != child) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void cspawn_kill(pid_t child) {
    kill(-child, SIGKILL);
}

void cspawn_forbid_dumps(void) { prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); }

#else

// Only Linux has this adapter; elsewhere the module compiles and starts nothing.
#include <errno.h>

int cspawn_start(
    const char *path, char *const arguments[], char *const environment[], int input, int output, int error,
    pid_t *child) {
    (void)path, (void)arguments, (void)environment, (void)input, (void)output, (void)error, (void)child;
    return ENOTSUP;
}

int cspawn_memory_file(void) {
    errno = ENOTSUP;
    return -1;
}

void cspawn_await_end(pid_t child) { (void)child; }

int cspawn_reap(pid_t child) {
    (void)child;
    return -1;
}

void cspawn_kill(pid_t child) { (void)child; }

void cspawn_forbid_dumps(void) {}

#endif
