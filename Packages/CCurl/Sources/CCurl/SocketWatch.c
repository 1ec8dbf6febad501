#include "SocketWatch.h"

#ifdef __linux__

#include <errno.h>
#include <sys/epoll.h>

int ccurl_watch_open(void) { return epoll_create1(EPOLL_CLOEXEC); }

int ccurl_watch_set(int watch, int socket, uint64_t name, bool reads, bool writes) {
    struct epoll_event event = {.data.u64 = name};
    if (reads) event.events |= EPOLLIN;
    if (writes) event.events |= EPOLLOUT;
    if (event.events == 0) return epoll_ctl(watch, EPOLL_CTL_DEL, socket, &event) == 0 || errno == ENOENT ? 0 : -1;
    if (epoll_ctl(watch, EPOLL_CTL_MOD, socket, &event) == 0) return 0;
    return errno == ENOENT ? epoll_ctl(watch, EPOLL_CTL_ADD, socket, &event) : -1;
}

int ccurl_watch_collect(int watch, struct ccurl_ready *ready, int capacity) {
    struct epoll_event events[128];
    if (capacity > 128) capacity = 128;
    int count;
    do count = epoll_wait(watch, events, capacity, 0);
    while (count < 0 && errno == EINTR);
    for (int i = 0; i < count; i++) {
        bool failed = events[i].events & (EPOLLERR | EPOLLHUP);
        ready[i].name = events[i].data.u64;
        ready[i].reads = failed || events[i].events & EPOLLIN;
        ready[i].writes = failed || events[i].events & EPOLLOUT;
    }
    return count;
}

#else

int ccurl_watch_open(void) { return -1; }

int ccurl_watch_set(int watch, int socket, uint64_t name, bool reads, bool writes) { return -1; }

int ccurl_watch_collect(int watch, struct ccurl_ready *ready, int capacity) { return -1; }

#endif
