// Every function that is looked up at run time, once: name, result, parameters, arguments.
//
// CSecret.h makes a table and forwarders of this list, CSecret.c fills the table, and
// Checks/secret-declarations.c compares each line with the real header.
#ifndef CSECRET_FUNCTIONS_H
#define CSECRET_FUNCTIONS_H

#include "CSecretTypes.h"

// X: functions with a result. V: functions without one.
#define CSECRET_FUNCTIONS(X, V) \
    /* GLib */ \
    V(g_error_free, (CSError *error), (error)) \
    V(g_free, (void *memory), (memory)) \
    X(g_strdup, char *, (const char *text), (text)) \
    V(g_list_free_full, (CSList *list, void (*release)(void *)), (list, release)) \
    X(g_hash_table_new_full, CSTable *, \
        (unsigned int (*hash)(const void *), int (*equal)(const void *, const void *), \
         void (*free_key)(void *), void (*free_value)(void *)), \
        (hash, equal, free_key, free_value)) \
    X(g_hash_table_insert, int, (CSTable *table, void *key, void *value), (table, key, value)) \
    X(g_hash_table_lookup, void *, (CSTable *table, const void *key), (table, key)) \
    V(g_hash_table_unref, (CSTable *table), (table)) \
    X(g_str_hash, unsigned int, (const void *text), (text)) \
    X(g_str_equal, int, (const void *left, const void *right), (left, right)) \
    X(g_main_context_new, CSContext *, (void), ()) \
    V(g_main_context_push_thread_default, (CSContext *context), (context)) \
    V(g_main_context_pop_thread_default, (CSContext *context), (context)) \
    X(g_main_context_iteration, int, (CSContext *context, int may_block), (context, may_block)) \
    X(g_main_context_get_thread_default, CSContext *, (void), ()) \
    V(g_main_context_unref, (CSContext *context), (context)) \
    V(g_source_set_callback, \
        (CSSource *source, int (*callback)(void *data), void *data, void (*release)(void *)), \
        (source, callback, data, release)) \
    X(g_source_attach, unsigned int, (CSSource *source, CSContext *context), (source, context)) \
    V(g_source_destroy, (CSSource *source), (source)) \
    V(g_source_unref, (CSSource *source), (source)) \
    X(g_variant_new_object_path, CSVariant *, (const char *path), (path)) \
    X(g_variant_new_array, CSVariant *, \
        (const CSVariantType *type, CSVariant *const *children, size_t count), (type, children, count)) \
    X(g_variant_new_string, CSVariant *, (const char *text), (text)) \
    X(g_variant_new_uint32, CSVariant *, (uint32_t number), (number)) \
    X(g_variant_new_boolean, CSVariant *, (int value), (value)) \
    X(g_variant_new_variant, CSVariant *, (CSVariant *value), (value)) \
    X(g_variant_new_dict_entry, CSVariant *, (CSVariant *key, CSVariant *value), (key, value)) \
    X(g_variant_new_tuple, CSVariant *, (CSVariant *const *children, size_t count), (children, count)) \
    X(g_variant_get_type_string, const char *, (CSVariant *value), (value)) \
    X(g_variant_get_child_value, CSVariant *, (CSVariant *value, size_t index), (value, index)) \
    X(g_variant_get_variant, CSVariant *, (CSVariant *value), (value)) \
    X(g_variant_get_string, const char *, (CSVariant *value, size_t *length), (value, length)) \
    X(g_variant_get_boolean, int, (CSVariant *value), (value)) \
    X(g_variant_ref_sink, CSVariant *, (CSVariant *value), (value)) \
    V(g_variant_unref, (CSVariant *value), (value)) \
    /* GObject, GIO */ \
    V(g_type_query, (size_t type, CSTypeQuery *query), (type, query)) \
    X(g_type_register_static_simple, size_t, \
        (size_t parent, const char *name, unsigned int class_size, CSClassInit class_init, \
         unsigned int instance_size, CSInstanceInit instance_init, CSTypeFlags flags), \
        (parent, name, class_size, class_init, instance_size, instance_init, flags)) \
    X(g_type_class_peek_parent, void *, (void *object_class), (object_class)) \
    X(g_object_ref, void *, (void *object), (object)) \
    V(g_object_unref, (void *object), (object)) \
    X(g_cancellable_new, CSCancellable *, (void), ()) \
    X(g_cancellable_is_cancelled, int, (CSCancellable *cancellable), (cancellable)) \
    X(g_cancellable_source_new, CSSource *, (CSCancellable *cancellable), (cancellable)) \
    V(g_cancellable_cancel, (CSCancellable *cancellable), (cancellable)) \
    X(g_io_error_quark, uint32_t, (void), ()) \
    X(g_dbus_error_quark, uint32_t, (void), ()) \
    X(g_dbus_error_strip_remote_error, int, (CSError *error), (error)) \
    X(g_dbus_error_get_remote_error, char *, (const CSError *error), (error)) \
    X(g_dbus_connection_call_sync, CSVariant *, \
        (CSConnection *connection, const char *bus_name, const char *object_path, const char *interface_name, \
         const char *method_name, CSVariant *parameters, const CSVariantType *reply_type, CSCallFlags flags, \
         int timeout, CSCancellable *cancellable, CSError **error), \
        (connection, bus_name, object_path, interface_name, method_name, parameters, reply_type, flags, timeout, \
         cancellable, error)) \
    X(g_dbus_connection_signal_subscribe, unsigned int, \
        (CSConnection *connection, const char *sender, const char *interface, const char *name, const char *path, \
         const char *first, CSSignalFlags flags, CSSignalCallback callback, void *data, void (*release)(void *)), \
        (connection, sender, interface, name, path, first, flags, callback, data, release)) \
    V(g_dbus_connection_signal_unsubscribe, (CSConnection *connection, unsigned int id), (connection, id)) \
    X(g_dbus_connection_is_closed, int, (CSConnection *connection), (connection)) \
    X(g_dbus_proxy_get_object_path, const char *, (CSProxy *proxy), (proxy)) \
    X(g_dbus_connection_new_for_address_sync, CSConnection *, \
        (const char *address, CSConnectionFlags flags, CSAuthObserver *observer, CSCancellable *cancellable, \
         CSError **error), \
        (address, flags, observer, cancellable, error)) \
    /* libsecret */ \
    X(secret_error_get_quark, uint32_t, (void), ()) \
    X(secret_service_get_type, size_t, (void), ()) \
    X(secret_service_search_sync, CSList *, \
        (CSService *service, const CSSchema *schema, CSTable *attributes, CSSearchFlags flags, \
         CSCancellable *cancellable, CSError **error), \
        (service, schema, attributes, flags, cancellable, error)) \
    X(secret_collection_for_alias_sync, CSCollection *, \
        (CSService *service, const char *alias, CSCollectionFlags flags, CSCancellable *cancellable, \
         CSError **error), \
        (service, alias, flags, cancellable, error)) \
    X(secret_collection_get_locked, int, (CSCollection *collection), (collection)) \
    X(secret_service_encode_dbus_secret, CSVariant *, (CSService *service, CSValue *value), (service, value)) \
    X(secret_item_get_attributes, CSTable *, (CSItem *item), (item)) \
    X(secret_item_get_locked, int, (CSItem *item), (item)) \
    X(secret_item_get_modified, uint64_t, (CSItem *item), (item)) \
    X(secret_item_get_secret, CSValue *, (CSItem *item), (item)) \
    X(secret_value_new, CSValue *, (const char *bytes, ptrdiff_t count, const char *content_type), \
        (bytes, count, content_type)) \
    X(secret_value_get, const char *, (CSValue *value, size_t *count), (value, count)) \
    V(secret_value_unref, (void *value), (value))

#endif
