// libsecret and the parts of GLib that come with it, opened at run time and not linked: a machine without libsecret
// gets a sentence and not a loader error. This file declares them, so that a build does not need their headers.
//
// With CSECRET_REAL_HEADERS the same names stand for the real types: Checks/secret-declarations.c compiles this file
// that way and compares.
#ifndef CSECRET_H
#define CSECRET_H

#include <stddef.h>
#include <stdint.h>

// MARK: Types

/// GError. Freed by its receiver.
struct csecret_error {
    uint32_t domain;
    int code;
    char *message;
};

/// GTypeQuery.
struct csecret_type_query {
    size_t type;
    const char *name;
    unsigned int class_size;
    unsigned int instance_size;
};

/// The beginning of GObjectClass. The rest belongs to GObject.
struct csecret_object_class {
    size_t type;
    void *construct_properties;
    void *(*constructor)(size_t type, unsigned int count, void *properties);
};

#ifdef CSECRET_REAL_HEADERS
// For secret-paths.h, whose functions have had these exported names since the first release.
#define SECRET_API_SUBJECT_TO_CHANGE
#include <libsecret/secret.h>
#define CSECRET_OPAQUE(own, real) typedef real own;
typedef GError CSError;
typedef GTypeQuery CSTypeQuery;
typedef GInstanceInitFunc CSInstanceInit;
#else
#define CSECRET_OPAQUE(own, real) typedef struct own own;
typedef struct csecret_error CSError;
typedef struct csecret_type_query CSTypeQuery;
typedef void (*CSInstanceInit)(void *instance, void *object_class);
#endif

CSECRET_OPAQUE(CSContext, GMainContext)
CSECRET_OPAQUE(CSCancellable, GCancellable)
CSECRET_OPAQUE(CSConnection, GDBusConnection)
CSECRET_OPAQUE(CSAuthObserver, GDBusAuthObserver)
CSECRET_OPAQUE(CSVariant, GVariant)
CSECRET_OPAQUE(CSVariantType, GVariantType)
CSECRET_OPAQUE(CSService, SecretService)
CSECRET_OPAQUE(CSValue, SecretValue)

typedef void (*CSClassInit)(void *object_class, void *data);

/// Handles a signal: its sender, object, interface, name and arguments.
typedef void (*CSSignalCallback)(
    CSConnection *connection, const char *sender, const char *path, const char *interface, const char *name,
    CSVariant *arguments, void *data);

// Numbers that are part of the libraries' stable interfaces. Flags travel as unsigned int.
enum {
    CS_BUS_TYPE_NONE = 0,
    CS_CONNECTION_AUTHENTICATION_CLIENT = 1 << 0,
    CS_CONNECTION_MESSAGE_BUS = 1 << 3,
    CS_SIGNAL_NONE = 0,
    CS_CALL_NO_AUTO_START = 1 << 0,
    CS_SERVICE_OPEN_SESSION = 1 << 1,
    CS_IO_ERROR_NOT_FOUND = 1,
    CS_IO_ERROR_PERMISSION_DENIED = 14,
    CS_IO_ERROR_CLOSED = 18,
    CS_IO_ERROR_CANCELLED = 19,
    CS_IO_ERROR_TIMED_OUT = 24,
    CS_IO_ERROR_CONNECTION_REFUSED = 39,
};

// MARK: Functions

// Each function that csecret_open looks up, once: name, result, parameters, arguments.
#define CSECRET_FUNCTIONS(X) \
    /* GLib */ \
    X(g_error_free, void, (CSError *error), (error)) \
    X(g_free, void, (void *memory), (memory)) \
    X(g_main_context_new, CSContext *, (void), ()) \
    X(g_main_context_push_thread_default, void, (CSContext *context), (context)) \
    X(g_main_context_pop_thread_default, void, (CSContext *context), (context)) \
    X(g_main_context_iteration, int, (CSContext *context, int may_block), (context, may_block)) \
    X(g_main_context_wakeup, void, (CSContext *context), (context)) \
    X(g_main_context_unref, void, (CSContext *context), (context)) \
    X(g_variant_new_object_path, CSVariant *, (const char *path), (path)) \
    X(g_variant_new_string, CSVariant *, (const char *text), (text)) \
    X(g_variant_new_uint32, CSVariant *, (uint32_t number), (number)) \
    X(g_variant_new_boolean, CSVariant *, (int value), (value)) \
    X(g_variant_new_variant, CSVariant *, (CSVariant *value), (value)) \
    X(g_variant_new_dict_entry, CSVariant *, (CSVariant *key, CSVariant *value), (key, value)) \
    X(g_variant_new_array, CSVariant *, \
        (const CSVariantType *type, CSVariant *const *children, size_t count), (type, children, count)) \
    X(g_variant_new_tuple, CSVariant *, (CSVariant *const *children, size_t count), (children, count)) \
    X(g_variant_get_type_string, const char *, (CSVariant *value), (value)) \
    X(g_variant_n_children, size_t, (CSVariant *value), (value)) \
    X(g_variant_get_child_value, CSVariant *, (CSVariant *value, size_t index), (value, index)) \
    X(g_variant_lookup_value, CSVariant *, \
        (CSVariant *dictionary, const char *key, const CSVariantType *type), (dictionary, key, type)) \
    X(g_variant_get_variant, CSVariant *, (CSVariant *value), (value)) \
    X(g_variant_get_string, const char *, (CSVariant *value, size_t *length), (value, length)) \
    X(g_variant_get_boolean, int, (CSVariant *value), (value)) \
    X(g_variant_get_uint32, uint32_t, (CSVariant *value), (value)) \
    X(g_variant_get_uint64, uint64_t, (CSVariant *value), (value)) \
    X(g_variant_ref_sink, CSVariant *, (CSVariant *value), (value)) \
    X(g_variant_unref, void, (CSVariant *value), (value)) \
    /* GObject, GIO */ \
    X(g_type_query, void, (size_t type, CSTypeQuery *query), (type, query)) \
    X(g_type_register_static_simple, size_t, \
        (size_t parent, const char *name, unsigned int class_size, CSClassInit class_init, \
         unsigned int instance_size, CSInstanceInit instance_init, unsigned int flags), \
        (parent, name, class_size, class_init, instance_size, instance_init, flags)) \
    X(g_type_class_peek_parent, void *, (void *object_class), (object_class)) \
    X(g_object_unref, void, (void *object), (object)) \
    X(g_cancellable_new, CSCancellable *, (void), ()) \
    X(g_cancellable_is_cancelled, int, (CSCancellable *cancellable), (cancellable)) \
    X(g_cancellable_cancel, void, (CSCancellable *cancellable), (cancellable)) \
    X(g_io_error_quark, uint32_t, (void), ()) \
    X(g_dbus_error_strip_remote_error, int, (CSError *error), (error)) \
    X(g_dbus_error_get_remote_error, char *, (const CSError *error), (error)) \
    X(g_dbus_connection_new_for_address_sync, CSConnection *, \
        (const char *address, unsigned int flags, CSAuthObserver *observer, CSCancellable *cancellable, \
         CSError **error), \
        (address, flags, observer, cancellable, error)) \
    X(g_dbus_connection_is_closed, int, (CSConnection *connection), (connection)) \
    X(g_dbus_connection_close_sync, int, (CSConnection *connection, CSCancellable *cancellable, CSError **error), \
        (connection, cancellable, error)) \
    X(g_dbus_connection_call_sync, CSVariant *, \
        (CSConnection *connection, const char *bus_name, const char *object_path, const char *interface_name, \
         const char *method_name, CSVariant *parameters, const CSVariantType *reply_type, unsigned int flags, \
         int timeout, CSCancellable *cancellable, CSError **error), \
        (connection, bus_name, object_path, interface_name, method_name, parameters, reply_type, flags, timeout, \
         cancellable, error)) \
    X(g_dbus_connection_signal_subscribe, unsigned int, \
        (CSConnection *connection, const char *sender, const char *interface, const char *name, const char *path, \
         const char *first, unsigned int flags, CSSignalCallback callback, void *data, void (*release)(void *)), \
        (connection, sender, interface, name, path, first, flags, callback, data, release)) \
    X(g_dbus_connection_signal_unsubscribe, void, (CSConnection *connection, unsigned int id), (connection, id)) \
    /* libsecret */ \
    X(secret_service_get_type, size_t, (void), ()) \
    X(secret_service_get_session_dbus_path, const char *, (CSService *service), (service)) \
    X(secret_service_encode_dbus_secret, CSVariant *, (CSService *service, CSValue *value), (service, value)) \
    X(secret_service_decode_dbus_secret, CSValue *, (CSService *service, CSVariant *value), (service, value)) \
    X(secret_value_new, CSValue *, (const char *bytes, ptrdiff_t count, const char *content_type), \
        (bytes, count, content_type)) \
    X(secret_value_get, const char *, (CSValue *value, size_t *count), (value, count)) \
    X(secret_value_unref, void, (void *value), (value))

/// The exports of the libraries; all entries are set once csecret_open has succeeded.
typedef struct CSecretTable {
#define CSECRET_FIELD(name, result, parameters, arguments) result(*name) parameters;
    CSECRET_FUNCTIONS(CSECRET_FIELD)
    /// These are variadic and can't be forwarded; csecret_service_open uses them.
    void *(*g_initable_new)(size_t type, CSCancellable *cancellable, CSError **error, const char *first, ...);
    void (*g_object_set)(void *object, const char *first, ...);
} CSecretTable;

extern CSecretTable csecret_table;

/// Opens `library` and fills the table. It is not thread-safe: call it once, before the other functions.
///
/// Returns NULL, or the loader's own words (valid until the thread's next dl call).
const char *csecret_open(const char *library);

/// The Secret Service proxy on `connection`, with an encrypted session; NULL and `error` if that fails.
///
/// secret_service_get would use the process-wide bus connection, which ends the process when the bus goes away,
/// reads the address only once, and may start a bus of its own.
CSService *csecret_service_open(CSConnection *connection, CSCancellable *cancellable, CSError **error);

#ifndef CSECRET_REAL_HEADERS
#define CSECRET_FORWARD(name, result, parameters, arguments) \
    static inline result name parameters { return csecret_table.name arguments; }
CSECRET_FUNCTIONS(CSECRET_FORWARD)
#endif

#endif
