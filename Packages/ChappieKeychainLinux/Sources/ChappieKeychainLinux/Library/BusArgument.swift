import CSecret

/// What a method is called with.
indirect enum BusArgument {
    case text(String)
    case number(UInt32)
    case bool(Bool)
    /// Object paths, at least one: an empty array would have no type.
    case objects([String])
    /// `a{ss}`, with at least one entry.
    case texts([String: String])
    /// `a{sv}`, with at least one entry.
    case properties([String: BusArgument])
    /// A value that a library has made.
    case value(BusValue)

    /// A GVariant that whatever it is put into takes or shares.
    func makePointer() -> OpaquePointer? {
        switch self {
        case .text(let text): g_variant_new_string(text)
        case .number(let number): g_variant_new_uint32(number)
        case .bool(let bool): g_variant_new_boolean(bool ? 1 : 0)
        case .objects(let paths): Self.array(of: paths.map { g_variant_new_object_path($0) })
        case .texts(let texts):
            Self.array(of: texts.map { g_variant_new_dict_entry(g_variant_new_string($0), g_variant_new_string($1)) })
        case .properties(let properties):
            Self.array(
                of: properties.map {
                    g_variant_new_dict_entry(g_variant_new_string($0), g_variant_new_variant($1.makePointer()))
                })
        case .value(let value): value.pointer
        }
    }

    private static func array(of children: [OpaquePointer?]) -> OpaquePointer? {
        children.withUnsafeBufferPointer { g_variant_new_array(nil, $0.baseAddress, $0.count) }
    }
}
