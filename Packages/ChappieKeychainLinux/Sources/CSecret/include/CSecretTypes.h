// The types of libsecret and GLib that the shim needs, declared here so that building needs neither's headers.
//
// With CSECRET_REAL_HEADERS the same names stand for the real types; Checks/secret-declarations.c compiles both
// and compares.
#ifndef CSECRET_TYPES_H
#define CSECRET_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef CSECRET_REAL_HEADERS

// For secret_service_encode_dbus_secret, which has been exported under that name from the first release on.
#define SECRET_API_SUBJECT_TO_CHANGE
#include <libsecret/secret.h>

typedef GError CSError;
typedef GList CSList;
typedef GTypeQuery CSTypeQuery;
typedef GClassInitFunc CSClassInit;
typedef GInstanceInitFunc CSInstanceInit;
typedef GTypeFlags CSTypeFlags;
typedef GMainContext CSContext;
typedef GCancellable CSCancellable;
typedef GDBusConnection CSConnection;
typedef GDBusAuthObserver CSAuthObserver;
typedef GHashTable CSTable;
typedef GSource CSSource;
typedef GDBusProxy CSProxy;
typedef GVariant CSVariant;
typedef GVariantType CSVariantType;
typedef SecretService CSService;
typedef SecretCollection CSCollection;
typedef SecretItem CSItem;
typedef SecretValue CSValue;
typedef SecretSchema CSSchema;
typedef GDBusConnectionFlags CSConnectionFlags;
typedef GDBusCallFlags CSCallFlags;
typedef GDBusSignalFlags CSSignalFlags;
typedef SecretSearchFlags CSSearchFlags;
typedef SecretCollectionFlags CSCollectionFlags;

#else

/// GError. Freed by whoever received it.
typedef struct CSError {
    uint32_t domain;
    int code;
    char *message;
} CSError;

/// GList: one node of a doubly linked list.
typedef struct CSList {
    void *data;
    struct CSList *next;
    struct CSList *prev;
} CSList;

/// GTypeQuery.
typedef struct CSTypeQuery {
    size_t type;
    const char *name;
    unsigned int class_size;
    unsigned int instance_size;
} CSTypeQuery;

typedef void (*CSClassInit)(void *object_class, void *data);
typedef void (*CSInstanceInit)(void *instance, void *object_class);
typedef unsigned int CSTypeFlags;
typedef struct CSContext CSContext;
typedef struct CSCancellable CSCancellable;
typedef struct CSConnection CSConnection;
typedef struct CSAuthObserver CSAuthObserver;
typedef struct CSTable CSTable;
typedef struct CSSource CSSource;
typedef struct CSProxy CSProxy;
typedef struct CSVariant CSVariant;
typedef struct CSVariantType CSVariantType;
typedef struct CSService CSService;
typedef struct CSCollection CSCollection;
typedef struct CSItem CSItem;
typedef struct CSValue CSValue;
typedef struct CSSchema CSSchema;
typedef unsigned int CSConnectionFlags;
typedef unsigned int CSCallFlags;
typedef unsigned int CSSignalFlags;
typedef unsigned int CSSearchFlags;
typedef unsigned int CSCollectionFlags;

#endif

/// Takes a signal: who sent it, from which object and interface, its name and arguments.
typedef void (*CSSignalCallback)(
    CSConnection *connection, const char *sender, const char *path, const char *interface, const char *name,
    CSVariant *arguments, void *data);

/// How GObjectClass begins; what follows is not ours to touch.
typedef struct CSObjectClass {
    size_t type;
    void *construct_properties;
    void *(*constructor)(size_t type, unsigned int count, void *properties);
} CSObjectClass;

// Numbers that are part of the libraries' stable interfaces.
#ifndef CSECRET_NUMBERS_DECLARED
enum {
    CS_BUS_TYPE_NONE = 0,
    CS_CONNECTION_AUTHENTICATION_CLIENT = 1 << 0,
    CS_CONNECTION_MESSAGE_BUS = 1 << 3,
    CS_SIGNAL_NONE = 0,
    CS_CALL_NO_AUTO_START = 1 << 0,
    CS_SERVICE_OPEN_SESSION = 1 << 1,
    CS_SEARCH_ALL = 1 << 1,
    CS_SEARCH_LOAD_SECRETS = 1 << 3,
    CS_COLLECTION_NONE = 0,

    CS_IO_ERROR_NOT_FOUND = 1,
    CS_IO_ERROR_PERMISSION_DENIED = 14,
    CS_IO_ERROR_CLOSED = 18,
    CS_IO_ERROR_CANCELLED = 19,
    CS_IO_ERROR_TIMED_OUT = 24,
    CS_IO_ERROR_CONNECTION_REFUSED = 39,

    CS_DBUS_ERROR_SERVICE_UNKNOWN = 2,
    CS_DBUS_ERROR_NAME_HAS_NO_OWNER = 3,
    CS_DBUS_ERROR_ACCESS_DENIED = 9,
    CS_DBUS_ERROR_AUTH_FAILED = 10,
    CS_DBUS_ERROR_TIMEOUT = 12,
    CS_DBUS_ERROR_TIMED_OUT = 20,
    CS_DBUS_ERROR_UNKNOWN_METHOD = 19,
    CS_DBUS_ERROR_UNKNOWN_OBJECT = 41,
    CS_DBUS_ERROR_UNKNOWN_INTERFACE = 42,
    CS_DBUS_ERROR_UNKNOWN_PROPERTY = 43,
    CS_DBUS_ERROR_INVALID_ARGS = 16,
    CS_DBUS_ERROR_SPAWN_FIRST = 23,
    CS_DBUS_ERROR_SPAWN_LAST = 34,

    CS_SECRET_ERROR_PROTOCOL = 1,
    CS_SECRET_ERROR_IS_LOCKED = 2,
    CS_SECRET_ERROR_NO_SUCH_OBJECT = 3,
};
#endif

#endif
