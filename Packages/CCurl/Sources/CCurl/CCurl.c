#define _GNU_SOURCE
#include "CCurl.h"

#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef __linux__
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#endif

// curl.h wraps these functions in type-checking macros; the shims want the functions themselves.
#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

CURLcode ccurl_easy_set_long(CURL *easy, CURLoption option, long value) {
    return curl_easy_setopt(easy, option, value);
}

CURLcode ccurl_easy_set_offset(CURL *easy, CURLoption option, curl_off_t value) {
    return curl_easy_setopt(easy, option, value);
}

CURLcode ccurl_easy_set_string(CURL *easy, CURLoption option, const char *value) {
    return curl_easy_setopt(easy, option, value);
}

CURLcode ccurl_easy_set_pointer(CURL *easy, CURLoption option, void *value) {
    return curl_easy_setopt(easy, option, value);
}

CURLcode ccurl_easy_set_list(CURL *easy, CURLoption option, struct curl_slist *value) {
    return curl_easy_setopt(easy, option, value);
}

CURLcode ccurl_easy_set_blob(CURL *easy, CURLoption option, const void *bytes, size_t count) {
    struct curl_blob blob = {.data = (void *)bytes, .len = count, .flags = CURL_BLOB_COPY};
    return curl_easy_setopt(easy, option, &blob);
}

CURLcode ccurl_easy_set_data_callback(CURL *easy, CURLoption option, ccurl_data_callback callback) {
    return curl_easy_setopt(easy, option, callback);
}

CURLcode ccurl_easy_set_seek_callback(CURL *easy, curl_seek_callback callback) {
    return curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, callback);
}

CURLcode ccurl_easy_set_prereq_callback(CURL *easy, curl_prereq_callback callback) {
    return curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, callback);
}

CURLcode ccurl_easy_set_close_callback(CURL *easy, curl_closesocket_callback callback) {
    return curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, callback);
}

CURLcode ccurl_easy_get_long(CURL *easy, CURLINFO info, long *value) {
    return curl_easy_getinfo(easy, info, value);
}

CURLcode ccurl_easy_get_offset(CURL *easy, CURLINFO info, curl_off_t *value) {
    return curl_easy_getinfo(easy, info, value);
}

CURLcode ccurl_easy_get_string(CURL *easy, CURLINFO info, const char **value) {
    return curl_easy_getinfo(easy, info, value);
}

CURLcode ccurl_easy_get_pointer(CURL *easy, CURLINFO info, void **value) {
    return curl_easy_getinfo(easy, info, value);
}

CURLcode ccurl_easy_get_socket(CURL *easy, CURLINFO info, curl_socket_t *value) {
    return curl_easy_getinfo(easy, info, value);
}

CURL *ccurl_multi_next_done(CURLM *multi, CURLcode *result) {
    int waiting = 0;
    CURLMsg *message;
    while ((message = curl_multi_info_read(multi, &waiting)) != NULL) {
        if (message->msg == CURLMSG_DONE) {
            *result = message->data.result;
            return message->easy_handle;
        }
    }
    return NULL;
}

const char *ccurl_default_ca_file(void) {
    curl_version_info_data *info = curl_version_info(CURLVERSION_NOW);
    return info->age >= CURLVERSION_SEVENTH ? info->cainfo : NULL;
}

CURLMcode ccurl_multi_set_socket_callback(CURLM *multi, curl_socket_callback callback, void *context) {
    CURLMcode result = curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, callback);
    return result == CURLM_OK ? curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, context) : result;
}

CURLMcode ccurl_multi_set_timer_callback(CURLM *multi, curl_multi_timer_callback callback, void *context) {
    CURLMcode result = curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, callback);
    return result == CURLM_OK ? curl_multi_setopt(multi, CURLMOPT_TIMERDATA, context) : result;
}

void ccurl_keep_openssl_until_the_end(void) {
    const uint64_t no_atexit = 0x00080000;  // OPENSSL_INIT_NO_ATEXIT
    int (*init)(uint64_t, const void *) = (int (*)(uint64_t, const void *))dlsym(RTLD_DEFAULT, "OPENSSL_init_crypto");
    if (init != NULL) init(no_atexit, NULL);
}

void ccurl_limit_unsent(curl_socket_t socket, int bytes) {
#ifdef TCP_NOTSENT_LOWAT
    setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
#endif
}

#ifdef __linux__

int ccurl_watch_open(void) { return epoll_create1(EPOLL_CLOEXEC); }

int ccurl_watch_set(int watch, int socket, uint64_t name, bool reads, bool writes) {
    struct epoll_event event = {.data.u64 = name};
    if (reads) event.events |= EPOLLIN;
    if (writes) event.events |= EPOLLOUT;
    if (event.events == 0) return epoll_ctl(watch, EPOLL_CTL_DEL, socket, &event) == 0 || errno == ENOENT ? 0 : -1;
    if (epoll_ctl(watch, EPOLL_CTL_MOD, socket, &event) == 0) return 0;
    return errno == ENOENT ? epoll_ctl(watch, EPOLL_CTL_ADD, socket, &event) : -1;
}

int ccurl_watch_wait(int watch, struct ccurl_ready *ready, int capacity, int milliseconds) {
    struct epoll_event events[128];
    if (capacity > 128) capacity = 128;
    int count = epoll_wait(watch, events, capacity, milliseconds);
    for (int i = 0; i < count; i++) {
        bool failed = events[i].events & (EPOLLERR | EPOLLHUP);
        ready[i].name = events[i].data.u64;
        ready[i].reads = failed || events[i].events & EPOLLIN;
        ready[i].writes = failed || events[i].events & EPOLLOUT;
    }
    return count;
}

int ccurl_bell_open(void) { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }

void ccurl_bell_ring(int bell) { eventfd_write(bell, 1); }

void ccurl_bell_silence(int bell) {
    eventfd_t count;
    eventfd_read(bell, &count);
}

#else

int ccurl_watch_open(void) { return -1; }
int ccurl_watch_set(int watch, int socket, uint64_t name, bool reads, bool writes) { return -1; }
int ccurl_watch_wait(int watch, struct ccurl_ready *ready, int capacity, int milliseconds) { return -1; }
int ccurl_bell_open(void) { return -1; }
void ccurl_bell_ring(int bell) {}
void ccurl_bell_silence(int bell) {}

#endif
