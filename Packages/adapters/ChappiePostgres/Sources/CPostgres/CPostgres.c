#define _GNU_SOURCE  // RTLD_DEFAULT
#include "CPostgres.h"

#include <dlfcn.h>
#include <stdint.h>

/// Keeps OpenSSL, which libpq works with, from registering its clean-up with atexit(): `exit()` would take away what another
/// thread is working with.
static void keep_openssl_until_the_end(void) {
    const uint64_t no_atexit = 0x00080000;  // OPENSSL_INIT_NO_ATEXIT
    int (*init)(uint64_t, const void *) = (int (*)(uint64_t, const void *))dlsym(RTLD_DEFAULT, "OPENSSL_init_crypto");
    if (init != NULL) init(no_atexit, NULL);
}

static void drop(void *context, const PGresult *notice) {
    (void)context;
    (void)notice;
}

PGconn *chappie_postgres_connect(const char *text) {
    // What the text says itself goes before what stands ahead of it here.
    const char *const keywords[] = {"fallback_application_name", "tcp_user_timeout", "dbname", "client_encoding", NULL};
    const char *const values[] = {"chappie", "10000", text, "UTF8", NULL};
    keep_openssl_until_the_end();
    PGconn *connection = PQconnectStartParams(keywords, values, 1);
    if (connection != NULL) {
        PQsetNoticeReceiver(connection, drop, NULL);
        // libpq reports the SQLSTATE of a refused connection only in such a message.
        PQsetErrorVerbosity(connection, PQERRORS_VERBOSE);
    }
    return connection;
}

const char *chappie_postgres_code(const PGresult *result) { return PQresultErrorField(result, PG_DIAG_SQLSTATE); }

const char *chappie_postgres_message(const PGresult *result) {
    return PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
}
