// libcurl for Swift: curl.h, and one plain function for each way of calling its variadic ones, which Swift can't; beside
// it the parts of Linux that the network loop needs and that Swift's import of the C library leaves out.
#ifndef CCURL_H
#define CCURL_H

#include <curl/curl.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

/// CURLOPTTYPE_LONG and CURLOPTTYPE_VALUES.
CURLcode ccurl_easy_set_long(CURL *easy, CURLoption option, long value);

/// CURLOPTTYPE_STRINGPOINT, _SLISTPOINT, _OBJECTPOINT, _CBPOINT and _BLOB: curl copies strings and flagged blobs, and
/// keeps the pointer to all else.
CURLcode ccurl_easy_set_pointer(CURL *easy, CURLoption option, const void *value);

/// Any CURLINFO, written to a value of its type.
CURLcode ccurl_easy_get(CURL *easy, CURLINFO info, void *value);

/// The functions that write, read and head callbacks have in common.
typedef size_t (*ccurl_data_callback)(char *bytes, size_t size, size_t count, void *context);

/// The functions of a transfer, all called with the same context.
void ccurl_easy_set_callbacks(
    CURL *easy, ccurl_data_callback header, ccurl_data_callback body, ccurl_data_callback upload,
    curl_prereq_callback connected, void *context);

/// Opens each socket of the handle, which programs that this process starts don't inherit. If the process or the machine
/// has too many open files, writes EMFILE or ENFILE to `failure`.
void ccurl_easy_note_failed_sockets(CURL *easy, int *failure);

/// EMFILE or ENFILE if no pair of sockets can be opened now for that reason, otherwise 0. curl needs a pair to look up a
/// name, and does not report why it has none.
int ccurl_missing_descriptors(void);

/// CURLOPT_SOCKOPTFUNCTION and CURLOPT_CLOSESOCKETFUNCTION, called with the same context.
void ccurl_easy_set_socket_callbacks(
    CURL *easy, curl_sockopt_callback opened, curl_closesocket_callback closing, void *context);

/// CURLMOPT_SOCKETFUNCTION and CURLMOPT_TIMERFUNCTION, called with the same context.
void ccurl_multi_set_callbacks(
    CURLM *multi, curl_socket_callback socket, curl_multi_timer_callback timer, void *context);

/// The next finished transfer of `multi`: curl_multi_info_read's message holds a union.
/// Returns its handle and writes its result, or returns NULL when there is none.
CURL *ccurl_multi_next_done(CURLM *multi, CURLcode *result);

/// Keeps OpenSSL from registering its clean-up with atexit(): `exit()` would take away what another thread is working
/// with. To be called before anything else uses OpenSSL. Does nothing where libcurl uses another TLS library.
void ccurl_keep_openssl_until_the_end(void);

/// Whether OpenSSL can read the certificate, in DER. True as well where libcurl uses another TLS library.
bool ccurl_is_certificate(const void *bytes, size_t count);

/// Starts a detached thread with every signal blocked: signals are for the program's own threads, and a write to a
/// connection that the peer has closed must be an error and not a SIGPIPE. Returns whether the system gave one.
bool ccurl_start_thread(void *(*body)(void *), void *context);

#endif
