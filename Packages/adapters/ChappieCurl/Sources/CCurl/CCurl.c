#define _GNU_SOURCE
#include "CCurl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>

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
