// The start of a program: the arguments of main, and whether the system allows it threads.
#ifndef CMAIN_H
#define CMAIN_H

#include <stdbool.h>

/// The number of main's arguments, with the program's name.
int cmain_argument_count(void);

/// An argument of main. Swift's CommandLine.arguments looks for them on the stack, and finds none without /proc, or after a
/// preloaded library has changed the environment.
const char *cmain_argument(int index);

/// Starts so many threads, which exist at the same time, and ends them. Returns whether the system allowed them all.
bool cmain_can_start_threads(int count);

/// From here on calls `handler` on a thread of this process that could not start another thread, whichever library needs
/// it. libdispatch would try for ever, without a message; GLib would abort.
void cmain_on_missing_thread(void (*handler)(void));

#endif
