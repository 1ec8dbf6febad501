import CSecret

/// One reference to a GVariant: a value as it travels over D-Bus.
///
/// What comes from outside is looked at by its type first: GLib's getters answer a wrong type with a warning at best.
final class BusValue {
    let pointer: OpaquePointer

    /// Takes over the caller's reference.
    init(owning pointer: OpaquePointer) { self.pointer = pointer }

    /// Adds a reference of its own, or takes over one that nobody has yet (a "floating" one).
    init(retaining pointer: OpaquePointer) { self.pointer = g_variant_ref_sink(pointer) }

    deinit { g_variant_unref(pointer) }

    /// The type in D-Bus's own notation, such as `(o)`.
    var type: String { g_variant_get_type_string(pointer).map { String(cString: $0) } ?? "" }

    /// The text of a string, an object path or a signature.
    var text: String? {
        guard ["s", "o", "g"].contains(type) else { return nil }
        return g_variant_get_string(pointer, nil).map { String(cString: $0) }
    }

    var bool: Bool? { type == "b" ? g_variant_get_boolean(pointer) != 0 : nil }

    /// What a value of the type `v` holds.
    var boxed: BusValue? { type == "v" ? g_variant_get_variant(pointer).map(BusValue.init(owning:)) : nil }

    /// The member of a tuple, whose type must be `type` in all: an index past its end would end the process.
    func member(_ index: Int, ofTuple type: String) -> BusValue? {
        guard self.type == type else { return nil }
        return g_variant_get_child_value(pointer, index).map(BusValue.init(owning:))
    }
}
