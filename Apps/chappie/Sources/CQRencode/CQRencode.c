#include "CQRencode.h"

#include <dlfcn.h>
#include <pthread.h>

static __typeof__(QRcode_encodeData) *encode_data;
static __typeof__(QRcode_free) *free_code;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_library(void) {
    void *library = dlopen("libqrencode.so.4", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return;
    *(void **)&free_code = dlsym(library, "QRcode_free");
    *(void **)&encode_data = dlsym(library, "QRcode_encodeData");
}

bool cqrencode_is_there(void) {
    pthread_once(&once, open_library);
    return encode_data != NULL && free_code != NULL;
}

QRcode *cqrencode_encode(int size, const unsigned char *bytes) {
    return cqrencode_is_there() ? encode_data(size, bytes, 0, QR_ECLEVEL_L) : NULL;
}

void cqrencode_free(QRcode *code) { free_code(code); }
