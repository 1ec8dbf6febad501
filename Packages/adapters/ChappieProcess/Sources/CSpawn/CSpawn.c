#define _GNU_SOURCE
#include "CSpawn.h"

#include <errno.h>

#if defined(__linux__)

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

int cspawn_start(
    const char *path, char *const arguments[], char *const environment[], const char *folder, int input, int output,
    int error, pid_t *child) {
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

    // The copies get numbers above the standard descriptors, so that none is overwritten before it is used.
    int status = 0;
    int sources[3] = {input, output, error};
    for (int target = 0; target < 3; target++) {
        sources[target] = fcntl(sources[target], F_DUPFD_CLOEXEC, 3);
        if (sources[target] < 0) status = errno;
        else if (status == 0) status = posix_spawn_file_actions_adddup2(&actions, sources[target], target);
    }
    if (status == 0 && folder) status = posix_spawn_file_actions_addchdir_np(&actions, folder);
    if (status == 0) status = posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    if (status == 0) status = posix_spawn(child, path, &actions, &attributes, arguments, environment);

    for (int target = 0; target < 3; target++) {
        if (sources[target] >= 0) close(sources[target]);
    }
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return status;
}

int cspawn_memory_file(void) { return memfd_create("chappie", MFD_CLOEXEC); }

int cspawn_pipe(int ends[2]) { return pipe2(ends, O_CLOEXEC); }

void cspawn_forbid_dumps(void) { prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); }

#else

// Only Linux has this adapter; elsewhere the module compiles and starts nothing.
int cspawn_start(
    const char *path, char *const arguments[], char *const environment[], const char *folder, int input, int output,
    int error, pid_t *child) {
    (void)path, (void)arguments, (void)environment, (void)folder, (void)input, (void)output, (void)error, (void)child;
    return ENOTSUP;
}

int cspawn_memory_file(void) { return errno = ENOTSUP, -1; }

int cspawn_pipe(int ends[2]) { return (void)ends, errno = ENOTSUP, -1; }

void cspawn_forbid_dumps(void) {}

#endif
