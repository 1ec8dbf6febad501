// Starting a program in the way that a library may: the parts of posix_spawn that Swift can't reach.
#ifndef CSPAWN_H
#define CSPAWN_H

#include <stddef.h>
#include <sys/types.h>

/// Starts `path` in a session of its own, with the three descriptors and no other, no blocked signal and the default
/// answers to signals. Returns 0 and sets `child`, or an errno value.
int cspawn_start(
    const char *path, char *const arguments[], char *const environment[], int input, int output, int error,
    pid_t *child);

/// A file without a name, at its start and without content, closed on exec. Returns -1 and errno when that fails.
int cspawn_memory_file(void);

/// Waits until `child` has ended and leaves it to be reaped, so that its number is not given away in between.
void cspawn_await_end(pid_t child);

/// Reaps `child`. Returns its exit code, 128 and the signal that ended it, or -1 when somebody else reaped it.
int cspawn_reap(pid_t child);

/// Kills `child` and everything in its session's first process group.
void cspawn_kill(pid_t child);

/// Keeps other processes of this user, and crash handlers, from reading this process's memory (PR_SET_DUMPABLE).
void cspawn_forbid_dumps(void);

#endif
