#include "CSecret.h"

#include <dlfcn.h>

CSecretTable csecret_table;

// A SecretService on a private connection. Its constructor always sets the session bus, whatever the caller asks for
// (libsecret 0.20). This subclass resets that: the constructor may still set a property that is fixed after
// construction.
static size_t service_type;
static struct csecret_object_class *service_parent;

static void *service_constructor(size_t type, unsigned int count, void *properties) {
    void *object = service_parent->constructor(type, count, properties);
    csecret_table.g_object_set(object, "g-bus-type", CS_BUS_TYPE_NONE, NULL);
    return object;
}

static void service_class_init(void *object_class, void *data) {
    (void)data;
    service_parent = csecret_table.g_type_class_peek_parent(object_class);
    ((struct csecret_object_class *)object_class)->constructor = service_constructor;
}

static size_t service_type_register(void) {
    size_t parent = csecret_table.secret_service_get_type();
    CSTypeQuery query = {0};
    csecret_table.g_type_query(parent, &query);
    return csecret_table.g_type_register_static_simple(
        parent, "ChappieSecretService", query.class_size, service_class_init, query.instance_size, NULL, 0);
}

const char *csecret_open(const char *library) {
    // The library is never closed, because registered GObject types can't be unloaded.
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *words = dlerror();
        return words != NULL ? words : "unknown loader error";
    }
    // dlsym on this handle also finds the libraries that libsecret depends on: GLib, GObject, GIO.
    CSecretTable table;
#define CSECRET_FIND(name, result, parameters, arguments) \
    *(void **)&table.name = dlsym(handle, #name); \
    if (table.name == NULL) return #name " is missing from it";
    CSECRET_FUNCTIONS(CSECRET_FIND)
    CSECRET_FIND(g_initable_new, , , )
    CSECRET_FIND(g_object_set, , , )
    csecret_table = table;
    service_type = service_type_register();
    return service_type != 0 ? NULL : "its type SecretService can't be extended";
}

CSService *csecret_service_open(CSConnection *connection, CSCancellable *cancellable, CSError **error) {
    return csecret_table.g_initable_new(
        service_type, cancellable, error, "g-connection", connection, "flags", CS_SERVICE_OPEN_SESSION, NULL);
}
