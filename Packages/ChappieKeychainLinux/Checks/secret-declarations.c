// Compares our declarations of libsecret and GLib with the real headers (Debian: libsecret-1-dev):
//   cc -std=c11 -fsyntax-only -Werror -I Sources/CSecret/include $(pkg-config --cflags libsecret-1) Checks/secret-declarations.c
// Run from this package's folder. Any drift is a compile error that names the line.

// Our own structures under other names, for sizes and offsets below.
#include <stddef.h>
#include <stdint.h>

#define CSError OwnError
#define CSList OwnList
#define CSTypeQuery OwnTypeQuery
#define CSClassInit OwnClassInit
#define CSInstanceInit OwnInstanceInit
#define CSTypeFlags OwnTypeFlags
#define CSObjectClass OwnObjectClass
#define CSContext OwnContext
#define CSCancellable OwnCancellable
#define CSConnection OwnConnection
#define CSAuthObserver OwnAuthObserver
#define CSTable OwnTable
#define CSSource OwnSource
#define CSProxy OwnProxy
#define CSSignalFlags OwnSignalFlags
#define CSSignalCallback OwnSignalCallback
#define CSVariant OwnVariant
#define CSVariantType OwnVariantType
#define CSService OwnService
#define CSCollection OwnCollection
#define CSItem OwnItem
#define CSValue OwnValue
#define CSSchema OwnSchema
#define CSConnectionFlags OwnConnectionFlags
#define CSCallFlags OwnCallFlags
#define CSSearchFlags OwnSearchFlags
#define CSCollectionFlags OwnCollectionFlags
#include "CSecretTypes.h"
#undef CSError
#undef CSList
#undef CSTypeQuery
#undef CSClassInit
#undef CSInstanceInit
#undef CSTypeFlags
#undef CSObjectClass
#undef CSContext
#undef CSCancellable
#undef CSConnection
#undef CSAuthObserver
#undef CSTable
#undef CSSource
#undef CSProxy
#undef CSSignalFlags
#undef CSSignalCallback
#undef CSVariant
#undef CSVariantType
#undef CSService
#undef CSCollection
#undef CSItem
#undef CSValue
#undef CSSchema
#undef CSConnectionFlags
#undef CSCallFlags
#undef CSSearchFlags
#undef CSCollectionFlags
#undef CSECRET_TYPES_H

// The same list of functions again, over the real types. The numbers are compared below, not declared twice.
#define CSECRET_REAL_HEADERS
#define CSECRET_NUMBERS_DECLARED
#include "CSecret.h"

// An assignment, because gcc counts the attribute `const` of a function as a part of its type and a comparison of
// types would find a difference that is none.
#define CHECK(name, result, parameters, arguments) static result(*check_##name) parameters = &name;
#define CHECK_VOID(name, parameters, arguments) static void(*check_##name) parameters = &name;
CSECRET_FUNCTIONS(CHECK, CHECK_VOID)

static __typeof__(((CSecretTable *)0)->g_initable_new) check_g_initable_new = &g_initable_new;
static __typeof__(((CSecretTable *)0)->g_object_set) check_g_object_set = &g_object_set;

#define LAYOUT(own, real, field) \
    _Static_assert(offsetof(own, field) == offsetof(real, field), #real "." #field " has moved"); \
    _Static_assert(sizeof(((own *)0)->field) == sizeof(((real *)0)->field), #real "." #field " has another size")
LAYOUT(OwnError, GError, domain);
LAYOUT(OwnError, GError, code);
LAYOUT(OwnError, GError, message);
LAYOUT(OwnList, GList, data);
LAYOUT(OwnList, GList, next);
LAYOUT(OwnList, GList, prev);
LAYOUT(OwnTypeQuery, GTypeQuery, type);
LAYOUT(OwnTypeQuery, GTypeQuery, class_size);
LAYOUT(OwnTypeQuery, GTypeQuery, instance_size);
_Static_assert(sizeof(OwnTypeQuery) == sizeof(GTypeQuery), "GTypeQuery has another size");
LAYOUT(OwnObjectClass, GObjectClass, constructor);
_Static_assert(sizeof(OwnError) == sizeof(GError), "GError has another size");
_Static_assert(sizeof(OwnList) == sizeof(GList), "GList has another size");

// The flags travel as unsigned int where the headers have an enumeration.
_Static_assert(sizeof(OwnTypeFlags) == sizeof(GTypeFlags), "GTypeFlags");
_Static_assert(sizeof(OwnConnectionFlags) == sizeof(GDBusConnectionFlags), "GDBusConnectionFlags");
_Static_assert(sizeof(OwnCallFlags) == sizeof(GDBusCallFlags), "GDBusCallFlags");
_Static_assert(sizeof(OwnSignalFlags) == sizeof(GDBusSignalFlags), "GDBusSignalFlags");
_Static_assert(sizeof(OwnSearchFlags) == sizeof(SecretSearchFlags), "SecretSearchFlags");
_Static_assert(sizeof(OwnCollectionFlags) == sizeof(SecretCollectionFlags), "SecretCollectionFlags");

#define NUMBER(own, real) _Static_assert((int)own == (int)real, #real " has another value")
NUMBER(CS_BUS_TYPE_NONE, G_BUS_TYPE_NONE);
NUMBER(CS_CONNECTION_AUTHENTICATION_CLIENT, G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT);
NUMBER(CS_CONNECTION_MESSAGE_BUS, G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION);
NUMBER(CS_SIGNAL_NONE, G_DBUS_SIGNAL_FLAGS_NONE);
NUMBER(CS_CALL_NO_AUTO_START, G_DBUS_CALL_FLAGS_NO_AUTO_START);
NUMBER(CS_SERVICE_OPEN_SESSION, SECRET_SERVICE_OPEN_SESSION);
NUMBER(CS_SEARCH_ALL, SECRET_SEARCH_ALL);
NUMBER(CS_SEARCH_LOAD_SECRETS, SECRET_SEARCH_LOAD_SECRETS);
NUMBER(CS_COLLECTION_NONE, SECRET_COLLECTION_NONE);
NUMBER(CS_IO_ERROR_NOT_FOUND, G_IO_ERROR_NOT_FOUND);
NUMBER(CS_IO_ERROR_PERMISSION_DENIED, G_IO_ERROR_PERMISSION_DENIED);
NUMBER(CS_IO_ERROR_CLOSED, G_IO_ERROR_CLOSED);
NUMBER(CS_IO_ERROR_CANCELLED, G_IO_ERROR_CANCELLED);
NUMBER(CS_IO_ERROR_TIMED_OUT, G_IO_ERROR_TIMED_OUT);
NUMBER(CS_IO_ERROR_CONNECTION_REFUSED, G_IO_ERROR_CONNECTION_REFUSED);
NUMBER(CS_DBUS_ERROR_SERVICE_UNKNOWN, G_DBUS_ERROR_SERVICE_UNKNOWN);
NUMBER(CS_DBUS_ERROR_NAME_HAS_NO_OWNER, G_DBUS_ERROR_NAME_HAS_NO_OWNER);
NUMBER(CS_DBUS_ERROR_ACCESS_DENIED, G_DBUS_ERROR_ACCESS_DENIED);
NUMBER(CS_DBUS_ERROR_AUTH_FAILED, G_DBUS_ERROR_AUTH_FAILED);
NUMBER(CS_DBUS_ERROR_TIMEOUT, G_DBUS_ERROR_TIMEOUT);
NUMBER(CS_DBUS_ERROR_TIMED_OUT, G_DBUS_ERROR_TIMED_OUT);
NUMBER(CS_DBUS_ERROR_UNKNOWN_METHOD, G_DBUS_ERROR_UNKNOWN_METHOD);
NUMBER(CS_DBUS_ERROR_UNKNOWN_OBJECT, G_DBUS_ERROR_UNKNOWN_OBJECT);
NUMBER(CS_DBUS_ERROR_UNKNOWN_INTERFACE, G_DBUS_ERROR_UNKNOWN_INTERFACE);
NUMBER(CS_DBUS_ERROR_UNKNOWN_PROPERTY, G_DBUS_ERROR_UNKNOWN_PROPERTY);
NUMBER(CS_DBUS_ERROR_INVALID_ARGS, G_DBUS_ERROR_INVALID_ARGS);
NUMBER(CS_DBUS_ERROR_SPAWN_FIRST, G_DBUS_ERROR_SPAWN_EXEC_FAILED);
NUMBER(CS_DBUS_ERROR_SPAWN_LAST, G_DBUS_ERROR_SPAWN_NO_MEMORY);
NUMBER(CS_SECRET_ERROR_PROTOCOL, SECRET_ERROR_PROTOCOL);
NUMBER(CS_SECRET_ERROR_IS_LOCKED, SECRET_ERROR_IS_LOCKED);
NUMBER(CS_SECRET_ERROR_NO_SUCH_OBJECT, SECRET_ERROR_NO_SUCH_OBJECT);
