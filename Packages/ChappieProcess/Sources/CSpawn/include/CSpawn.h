// The parts of posix_spawn, memfd, pipe2 and prctl that Swift can't reach.
#ifndef CSPAWN_H
#define CSPAWN_H

#include <sys/types.h>

/// Starts `path` in a session of its own and in `folder` (null: where this process is), with the three descriptors and no
/// other, no blocked signal and the default answers to signals. Returns 0 and sets `child`, or an errno value.
int cspawn_start(
    const char *path, char *const arguments[], char *const environment[], const char *folder, int input, int output,
    int error, pid_t *child);

/// A file without a name, at its start and without content, closed on exec. Returns -1 and errno when that fails.
int cspawn_memory_file(void);

/// A pipe, reader first, whose ends no program inherits by itself. Returns -1 and errno when that fails.
int cspawn_pipe(int ends[2]);

/// Keeps other processes of this user, and crash handlers, from reading this process's memory (PR_SET_DUMPABLE).
void cspawn_forbid_dumps(void);

#endif
