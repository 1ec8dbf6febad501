// A set of sockets that is a descriptor itself: readable when one of them is ready, however many there are.
//
// On Linux it is epoll, which Swift's import of the C library leaves out; elsewhere it can't be opened.
#ifndef CCURL_SOCKET_WATCH_H
#define CCURL_SOCKET_WATCH_H

#include <stdbool.h>
#include <stdint.h>

/// A socket that is ready, by the name it was given. One that has failed is ready for both.
struct ccurl_ready {
    uint64_t name;
    bool reads;
    bool writes;
};

/// A new set, to be closed like any descriptor; -1 when there is none to be had.
int ccurl_watch_open(void);

/// Says what `socket` is watched for, level-triggered; for nothing takes it out. 0, or -1 with errno.
int ccurl_watch_set(int watch, int socket, uint64_t name, bool reads, bool writes);

/// Writes which sockets are ready, at most 128 at a time, without waiting. How many, or -1 with errno.
int ccurl_watch_collect(int watch, struct ccurl_ready *ready, int capacity);

#endif
