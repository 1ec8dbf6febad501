#define _GNU_SOURCE
#include "CCurl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/socket.h>

// curl.h wraps these functions in type-checking macros; the shims want the functions themselves.
#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

CURLcode ccurl_easy_set_long(CURL *easy, CURLoption option, long value) {
    return curl_easy_setopt(easy, option, value);
}

CURLcode ccurl_easy_set_pointer(CURL *easy, CURLoption option, const void *value) {
    return curl_easy_setopt(easy, option, value);
}

CURLcode ccurl_easy_get(CURL *easy, CURLINFO info, void *value) { return curl_easy_getinfo(easy, info, value); }

void ccurl_easy_set_callbacks(
    CURL *easy, ccurl_data_callback header, ccurl_data_callback body, ccurl_data_callback upload,
    curl_prereq_callback connected, void *context) {
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, context);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, context);
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, upload);
    curl_easy_setopt(easy, CURLOPT_READDATA, context);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, connected);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, context);
}

static int missing_descriptors(int result) {
    return result < 0 && (errno == EMFILE || errno == ENFILE) ? errno : 0;
}

static curl_socket_t open_socket(void *failure, curlsocktype purpose, struct curl_sockaddr *address) {
    (void)purpose;
    int opened = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    int reason = missing_descriptors(opened);
    if (reason != 0) *(int *)failure = reason;
    return opened < 0 ? CURL_SOCKET_BAD : opened;
}

void ccurl_easy_note_failed_sockets(CURL *easy, int *failure) {
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, failure);
}

int ccurl_missing_descriptors(void) {
    int pair[2];
    int result = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
    int reason = missing_descriptors(result);
    if (result == 0) {
        close(pair[0]);
        close(pair[1]);
    }
    return reason;
}

void ccurl_easy_set_socket_callbacks(
    CURL *easy, curl_sockopt_callback opened, curl_closesocket_callback closing, void *context) {
    curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, opened);
    curl_easy_setopt(easy, CURLOPT_SOCKOPTDATA, context);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, closing);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, context);
}

void ccurl_multi_set_callbacks(
    CURLM *multi, curl_socket_callback socket, curl_multi_timer_callback timer, void *context) {
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, socket);
    curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, context);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, timer);
    curl_multi_setopt(multi, CURLMOPT_TIMERDATA, context);
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

void ccurl_keep_openssl_until_the_end(void) {
    const uint64_t no_atexit = 0x00080000;  // OPENSSL_INIT_NO_ATEXIT
    int (*init)(uint64_t, const void *) = (int (*)(uint64_t, const void *))dlsym(RTLD_DEFAULT, "OPENSSL_init_crypto");
    if (init != NULL) init(no_atexit, NULL);
}

bool ccurl_is_certificate(const void *bytes, size_t count) {
    ccurl_keep_openssl_until_the_end();
    void *(*decode)(void **, const unsigned char **, long) =
        (void *(*)(void **, const unsigned char **, long))dlsym(RTLD_DEFAULT, "d2i_X509");
    void (*release)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "X509_free");
    if (decode == NULL || release == NULL) return true;
    const unsigned char *start = bytes;
    void *certificate = decode(NULL, &start, (long)count);
    if (certificate == NULL) return false;
    release(certificate);
    return true;
}

bool ccurl_start_thread(void *(*body)(void *), void *context) {
    sigset_t every, previous;
    pthread_t thread;
    sigfillset(&every);
    // The new thread inherits the mask, so that there is no moment in which it has another.
    pthread_sigmask(SIG_SETMASK, &every, &previous);
    bool has_started = pthread_create(&thread, NULL, body, context) == 0;
    pthread_sigmask(SIG_SETMASK, &previous, NULL);
    if (has_started) {
        pthread_setname_np(thread, "chappie-net");
        pthread_detach(thread);
    }
    return has_started;
}
