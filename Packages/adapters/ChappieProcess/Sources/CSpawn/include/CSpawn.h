// The parts of posix_spawn, memfd, pipe2 and prctl that Swift can't reach.
#ifndef CSPAWN_H
#define CSPAWN_H

#include <sys/types.h>

/// Starts `path` in a new session and in `folder` (null: this process's folder), with the three descriptors only,
/// without blocked signals, and with the default handling of signals. Returns 0 and sets `child`, or returns an errno
/// value.
int cspawn_start(
    const char *path, char *const arguments[], char *const environment[], const char *folder, int input, int output,
    int error, pid_t *child);

/// Makes an empty file without a name, closed on exec. Returns -1 and sets errno if that fails.
int cspawn_memory_file(void);

/// Makes a pipe, reader first, whose ends are closed on exec. Returns -1 and sets errno if that fails.
int cspawn_pipe(int ends[2]);

/// Keeps other processes of this user, and crash handlers, from reading this process's memory (PR_SET_DUMPABLE).
void cspawn_forbid_dumps(void);

#endif
