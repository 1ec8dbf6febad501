// Compares our declarations of libsecret and GLib with the real headers (Debian: libsecret-1-dev):
//   cc -std=c11 -fsyntax-only -Werror -I Sources/CSecret/include $(pkg-config --cflags libsecret-1) Checks/secret-declarations.c
// Run from this package's folder. Any drift is a compile error that names the line.

// The list of functions over the real types.
#define CSECRET_REAL_HEADERS
#include "CSecret.h"

// An assignment, because gcc counts the attribute `const` of a function as a part of its type and a comparison of
// types would find a difference that is none.
#define CHECK(name, result, parameters, arguments) static result(*check_##name) parameters = &name;
CSECRET_FUNCTIONS(CHECK)

static __typeof__(((CSecretTable *)0)->g_initable_new) check_g_initable_new = &g_initable_new;
static __typeof__(((CSecretTable *)0)->g_object_set) check_g_object_set = &g_object_set;

#define LAYOUT(own, real, field) \
    _Static_assert(offsetof(struct own, field) == offsetof(real, field), #real "." #field " has moved"); \
    _Static_assert(sizeof(((struct own *)0)->field) == sizeof(((real *)0)->field), #real "." #field " has another size")
LAYOUT(csecret_error, GError, domain);
LAYOUT(csecret_error, GError, code);
LAYOUT(csecret_error, GError, message);
LAYOUT(csecret_type_query, GTypeQuery, type);
LAYOUT(csecret_type_query, GTypeQuery, class_size);
LAYOUT(csecret_type_query, GTypeQuery, instance_size);
LAYOUT(csecret_object_class, GObjectClass, constructor);
_Static_assert(sizeof(struct csecret_error) == sizeof(GError), "GError has another size");
_Static_assert(sizeof(struct csecret_type_query) == sizeof(GTypeQuery), "GTypeQuery has another size");

#define NUMBER(own, real) _Static_assert((int)own == (int)real, #real " has another value")
NUMBER(CS_BUS_TYPE_NONE, G_BUS_TYPE_NONE);
NUMBER(CS_CONNECTION_AUTHENTICATION_CLIENT, G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT);
NUMBER(CS_CONNECTION_MESSAGE_BUS, G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION);
NUMBER(CS_SIGNAL_NONE, G_DBUS_SIGNAL_FLAGS_NONE);
NUMBER(CS_CALL_NO_AUTO_START, G_DBUS_CALL_FLAGS_NO_AUTO_START);
NUMBER(CS_SERVICE_OPEN_SESSION, SECRET_SERVICE_OPEN_SESSION);
NUMBER(CS_IO_ERROR_NOT_FOUND, G_IO_ERROR_NOT_FOUND);
NUMBER(CS_IO_ERROR_PERMISSION_DENIED, G_IO_ERROR_PERMISSION_DENIED);
NUMBER(CS_IO_ERROR_CLOSED, G_IO_ERROR_CLOSED);
NUMBER(CS_IO_ERROR_CANCELLED, G_IO_ERROR_CANCELLED);
NUMBER(CS_IO_ERROR_TIMED_OUT, G_IO_ERROR_TIMED_OUT);
NUMBER(CS_IO_ERROR_CONNECTION_REFUSED, G_IO_ERROR_CONNECTION_REFUSED);
