// libcurl for Swift: curl.h, and one plain function for each way of calling its variadic ones.
//
// Swift can't call a variadic C function, and curl_easy_setopt's argument has another type for every family of options
// (https://curl.se/libcurl/c/curl_easy_setopt.html). Each shim below fixes one of them.
#ifndef CCURL_H
#define CCURL_H

#include <curl/curl.h>

#include <stdbool.h>
#include <stdint.h>

/// CURLOPTTYPE_LONG and CURLOPTTYPE_VALUES.
CURLcode ccurl_easy_set_long(CURL *easy, CURLoption option, long value);

/// CURLOPTTYPE_OFF_T.
CURLcode ccurl_easy_set_offset(CURL *easy, CURLoption option, curl_off_t value);

/// CURLOPTTYPE_STRINGPOINT: curl keeps a copy, but for CURLOPT_POSTFIELDS.
CURLcode ccurl_easy_set_string(CURL *easy, CURLoption option, const char *value);

/// CURLOPTTYPE_OBJECTPOINT and CURLOPTTYPE_CBPOINT: curl keeps the pointer.
CURLcode ccurl_easy_set_pointer(CURL *easy, CURLoption option, void *value);

/// CURLOPTTYPE_SLISTPOINT: curl keeps the pointer.
CURLcode ccurl_easy_set_list(CURL *easy, CURLoption option, struct curl_slist *value);

/// CURLOPTTYPE_BLOB; curl keeps a copy.
CURLcode ccurl_easy_set_blob(CURL *easy, CURLoption option, const void *bytes, size_t count);

/// CURLOPT_WRITEFUNCTION, CURLOPT_READFUNCTION and CURLOPT_HEADERFUNCTION, which share a shape.
typedef size_t (*ccurl_data_callback)(char *bytes, size_t size, size_t count, void *context);
CURLcode ccurl_easy_set_data_callback(CURL *easy, CURLoption option, ccurl_data_callback callback);

/// CURLOPT_SEEKFUNCTION.
CURLcode ccurl_easy_set_seek_callback(CURL *easy, curl_seek_callback callback);

/// CURLOPT_PREREQFUNCTION.
CURLcode ccurl_easy_set_prereq_callback(CURL *easy, curl_prereq_callback callback);

/// CURLOPT_CLOSESOCKETFUNCTION.
CURLcode ccurl_easy_set_close_callback(CURL *easy, curl_closesocket_callback callback);

/// CURLINFO_LONG.
CURLcode ccurl_easy_get_long(CURL *easy, CURLINFO info, long *value);

/// CURLINFO_OFF_T.
CURLcode ccurl_easy_get_offset(CURL *easy, CURLINFO info, curl_off_t *value);

/// CURLINFO_STRING; the text belongs to the handle.
CURLcode ccurl_easy_get_string(CURL *easy, CURLINFO info, const char **value);

/// CURLINFO_PTR.
CURLcode ccurl_easy_get_pointer(CURL *easy, CURLINFO info, void **value);

/// CURLINFO_SOCKET.
CURLcode ccurl_easy_get_socket(CURL *easy, CURLINFO info, curl_socket_t *value);

/// CURLMOPT_SOCKETFUNCTION and CURLMOPT_SOCKETDATA.
CURLMcode ccurl_multi_set_socket_callback(CURLM *multi, curl_socket_callback callback, void *context);

/// CURLMOPT_TIMERFUNCTION and CURLMOPT_TIMERDATA.
CURLMcode ccurl_multi_set_timer_callback(CURLM *multi, curl_multi_timer_callback callback, void *context);

/// The next finished transfer of `multi`, taken apart: curl_multi_info_read's message holds a union.
/// Returns its handle and writes its result, or returns NULL when there is none.
CURL *ccurl_multi_next_done(CURLM *multi, CURLcode *result);

/// Where this build of curl keeps its certificate authorities; NULL when it has no such default.
const char *ccurl_default_ca_file(void);

/// Keeps OpenSSL from registering its clean-up with atexit(): `exit()` would take away what another thread is working
/// with. To be called before anything else uses OpenSSL. Does nothing where libcurl uses another TLS library.
void ccurl_keep_openssl_until_the_end(void);

/// Bounds what the kernel takes over from us and has not sent yet, so that its taking more means that the network does.
void ccurl_limit_unsent(curl_socket_t socket, int bytes);

// A set of sockets to wait for, however many there are, and a bell that another thread can ring to end the wait. On Linux
// these are epoll and eventfd, which Swift's import of the C library leaves out; elsewhere they can't be opened.

/// A socket that is ready, by the name it was given. One that has failed is ready for both.
struct ccurl_ready {
    uint64_t name;
    bool reads;
    bool writes;
};

/// A new set, to be closed like any descriptor; -1 when the system has none left.
int ccurl_watch_open(void);

/// Says what `socket` is watched for, level-triggered; nothing takes it out of the set. 0, or -1 with errno.
int ccurl_watch_set(int watch, int socket, uint64_t name, bool reads, bool writes);

/// Waits at most that long and writes which sockets are ready, at most 128 at a time. Returns how many, or -1 with errno.
int ccurl_watch_wait(int watch, struct ccurl_ready *ready, int capacity, int milliseconds);

/// A new bell, to be closed and watched like a socket; -1 when the system has none left.
int ccurl_bell_open(void);

/// Makes the bell readable, from any thread.
void ccurl_bell_ring(int bell);

/// Makes it unreadable again.
void ccurl_bell_silence(int bell);

#endif
