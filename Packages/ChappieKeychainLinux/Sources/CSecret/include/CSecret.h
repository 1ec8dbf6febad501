// libsecret without linking it: opened at run time, so that a machine without it gets a sentence, not a loader error.
#ifndef CSECRET_H
#define CSECRET_H

#include "CSecretFunctions.h"

/// What the libraries export; all entries are set once csecret_open has succeeded.
typedef struct CSecretTable {
#define CSECRET_FIELD(name, result, parameters, arguments) result(*name) parameters;
#define CSECRET_VOID_FIELD(name, parameters, arguments) void(*name) parameters;
    CSECRET_FUNCTIONS(CSECRET_FIELD, CSECRET_VOID_FIELD)
#undef CSECRET_FIELD
#undef CSECRET_VOID_FIELD
    /// Variadic, so not forwarded: csecret_service_open uses them.
    void *(*g_initable_new)(size_t type, CSCancellable *cancellable, CSError **error, const char *first, ...);
    void (*g_object_set)(void *object, const char *first, ...);
} CSecretTable;

extern CSecretTable csecret_table;

/// Opens `library` and fills the table; not thread-safe, call it once before anything else.
///
/// Returns NULL, or the loader's own words (valid until the thread's next dl call).
const char *csecret_open(const char *library);

/// The Secret Service proxy on `connection`, with an encrypted session; NULL and `error` when that fails.
///
/// secret_service_get would use the process-wide bus connection, which ends the process when the bus goes away,
/// reads the address only once, and may start a bus of its own.
CSService *csecret_service_open(CSConnection *connection, CSCancellable *cancellable, CSError **error);

/// A table of strings to strings that frees both.
CSTable *csecret_attributes_new(void);
void csecret_attributes_set(CSTable *attributes, const char *name, const char *value);
/// NULL when there is no such attribute.
const char *csecret_attributes_get(CSTable *attributes, const char *name);

/// Releases a list and the objects in it.
void csecret_list_free(CSList *list);

#ifndef CSECRET_REAL_HEADERS
#define CSECRET_FORWARD(name, result, parameters, arguments) \
    static inline result name parameters { return csecret_table.name arguments; }
#define CSECRET_VOID_FORWARD(name, parameters, arguments) \
    static inline void name parameters { csecret_table.name arguments; }
CSECRET_FUNCTIONS(CSECRET_FORWARD, CSECRET_VOID_FORWARD)
#undef CSECRET_FORWARD
#undef CSECRET_VOID_FORWARD
#endif

#endif
