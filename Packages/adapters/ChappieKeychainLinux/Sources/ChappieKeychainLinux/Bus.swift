import CSecret
import ChappieAuth

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// The address of a message bus.
enum BusAddress {
    /// Returns the address of the login session's bus. It is the address that `environment` names, or the socket of the
    /// user's bus under `XDG_RUNTIME_DIR`.
    ///
    /// An `autolaunch:` entry is ignored, because a bus that a library starts has no keyring and outlives this process.
    ///
    /// - Throws: `absent`.
    static func session(
        _ environment: [String: String], isSocket: (String) -> Bool = isSocket
    ) throws(CredentialStoreError) -> String {
        if let named = environment["DBUS_SESSION_BUS_ADDRESS"], !named.isEmpty {
            let entries = named.split(separator: ";").filter { !$0.hasPrefix("autolaunch:") }
            guard !entries.isEmpty else {
                throw .absent("DBUS_SESSION_BUS_ADDRESS asks for a new session bus, and none is running")
            }
            return entries.joined(separator: ";")
        }
        // According to the XDG Base Directory Specification, relative paths are invalid and ignored.
        if let folder = environment["XDG_RUNTIME_DIR"], folder.hasPrefix("/"), isSocket(folder + "/bus") {
            return "unix:path=" + escaped(folder + "/bus")
        }
        throw .absent(
            "there is no session bus (DBUS_SESSION_BUS_ADDRESS is not set and there is no $XDG_RUNTIME_DIR/bus)")
    }

    /// Returns the address of the machine's bus. It is the address that `environment` names, or the address in the
    /// D-Bus specification's "Well-known Message Bus Instances". Returns `nil` if the socket is missing.
    static func system(_ environment: [String: String], isSocket: (String) -> Bool = isSocket) -> String? {
        if let named = environment["DBUS_SYSTEM_BUS_ADDRESS"], !named.isEmpty { return named }
        let socket = "/var/run/dbus/system_bus_socket"
        return isSocket(socket) ? "unix:path=\(socket)" : nil
    }

    /// The numeric user ID, as both buses know it.
    static var userID: UInt32 { getuid() }

    static func isSocket(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFSOCK
    }

    /// Escapes a path for an address. Every byte that needs it is written as `%` and two hex digits (D-Bus
    /// specification, "Server Addresses").
    private static func escaped(_ path: String) -> String {
        let plain = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_/.\\*".utf8)
        return path.utf8.reduce(into: "") { text, byte in
            let hexadecimal = (byte < 16 ? "%0" : "%") + String(byte, radix: 16)
            text += plain.contains(byte) ? String(Unicode.Scalar(byte)) : hexadecimal
        }
    }
}

/// A private connection to a message bus, for one call of the store. Its methods block. Use it only on a worker's
/// thread.
struct BusConnection {
    let object: LibraryObject
    let cancellation: Cancellation

    /// Creates a value for the same connection and another call.
    init(_ object: LibraryObject, cancellation: Cancellation) {
        self.object = object
        self.cancellation = cancellation
    }

    /// Opens a connection to the bus at `address`.
    ///
    /// - Throws: ``LibraryError``, like ``call(_:of:at:in:_:milliseconds:)``.
    init(address: String, cancellation: Cancellation) throws {
        let flags = UInt32(CS_CONNECTION_AUTHENTICATION_CLIENT | CS_CONNECTION_MESSAGE_BUS)
        let pointer = try LibraryError.catching(isConnecting: true) {
            g_dbus_connection_new_for_address_sync(address, flags, nil, cancellation.pointer, $0)
        }
        self.init(LibraryObject(owning: pointer), cancellation: cancellation)
    }

    var isClosed: Bool { g_dbus_connection_is_closed(object.pointer) != 0 }

    /// Calls one method and returns its result, which is a tuple.
    ///
    /// The call does not start the service, because a service that is not running has no state and shows no prompt.
    ///
    /// - Parameter milliseconds: A separate limit for this method, which applies even after the entire call has ended.
    ///   With `nil`, the method ends with the entire call.
    func call(
        _ method: String, of interface: String, at path: String, in name: String, _ arguments: [BusArgument] = [],
        milliseconds: Int32? = nil
    ) throws -> BusValue {
        // The tuple owns each of them, and the call owns the tuple, so there is nothing to release here.
        let children = arguments.map { $0.makePointer() }
        let parameters = children.withUnsafeBufferPointer { g_variant_new_tuple($0.baseAddress, $0.count) }
        return BusValue(
            owning: try LibraryError.catching {
                g_dbus_connection_call_sync(
                    object.pointer, name, path, interface, method, parameters, nil, UInt32(CS_CALL_NO_AUTO_START),
                    milliseconds ?? .max, milliseconds == nil ? cancellation.pointer : nil, $0)
            })
    }

    /// Returns the value of a property, or `nil` if the answer has another type.
    func property(_ name: String, of interface: String, at path: String, in service: String) throws -> BusValue? {
        try call(
            "Get", of: "org.freedesktop.DBus.Properties", at: path, in: service, [.text(interface), .text(name)]
        ).member(0, ofTuple: "(v)")?.boxed
    }
}

/// An argument of a method.
indirect enum BusArgument {
    case text(String)
    case number(UInt32)
    case bool(Bool)
    case object(String)
    /// Object paths, at least one, because an empty array would have no type.
    case objects([String])
    /// `a{ss}`, with at least one entry.
    case texts([String: String])
    /// `a{sv}`, with at least one entry.
    case properties([String: BusArgument])
    case value(BusValue)

    /// Returns a GVariant that has no owner yet. Its container becomes the owner.
    func makePointer() -> OpaquePointer? {
        switch self {
        case .text(let text): g_variant_new_string(text)
        case .number(let number): g_variant_new_uint32(number)
        case .bool(let bool): g_variant_new_boolean(bool ? 1 : 0)
        case .object(let path): g_variant_new_object_path(path)
        case .objects(let paths): Self.array(paths.map { g_variant_new_object_path($0) })
        case .texts(let texts):
            Self.array(texts.map { g_variant_new_dict_entry(g_variant_new_string($0), g_variant_new_string($1)) })
        case .properties(let properties):
            Self.array(
                properties.map {
                    g_variant_new_dict_entry(g_variant_new_string($0), g_variant_new_variant($1.makePointer()))
                })
        case .value(let value): value.pointer
        }
    }

    private static func array(_ children: [OpaquePointer?]) -> OpaquePointer? {
        children.withUnsafeBufferPointer { g_variant_new_array(nil, $0.baseAddress, $0.count) }
    }
}

/// A reference to a GVariant, which is a value sent over D-Bus.
///
/// Each accessor first checks the type, because GLib's getters at best log a warning for a wrong type.
final class BusValue {
    let pointer: OpaquePointer

    /// Creates a value that takes over the caller's reference.
    init(owning pointer: OpaquePointer) { self.pointer = pointer }

    /// Creates a value with an additional reference, or takes over a "floating" one, which has no owner yet.
    init(retaining pointer: OpaquePointer) { self.pointer = g_variant_ref_sink(pointer) }

    deinit { g_variant_unref(pointer) }

    /// The type in D-Bus's notation, such as `(o)`.
    var type: String { g_variant_get_type_string(pointer).map { String(cString: $0) } ?? "" }

    /// The text of a string, an object path or a signature.
    var text: String? {
        guard ["s", "o", "g"].contains(type) else { return nil }
        return g_variant_get_string(pointer, nil).map { String(cString: $0) }
    }

    var bool: Bool? { type == "b" ? g_variant_get_boolean(pointer) != 0 : nil }

    var number: UInt64? {
        switch type {
        case "t": g_variant_get_uint64(pointer)
        case "u": UInt64(g_variant_get_uint32(pointer))
        default: nil
        }
    }

    /// The value inside a value of the type `v`.
    var boxed: BusValue? { type == "v" ? g_variant_get_variant(pointer).map(BusValue.init(owning:)) : nil }

    /// The elements of an array of object paths.
    var paths: [String]? { type == "ao" ? (0..<g_variant_n_children(pointer)).compactMap { child($0)?.text } : nil }

    /// Returns the value of `key` in a dictionary of strings, taken out of its box if it is in one.
    subscript(key: String) -> BusValue? {
        guard type.hasPrefix("a{s") else { return nil }
        return g_variant_lookup_value(pointer, key, nil).map(BusValue.init(owning:))
    }

    /// Returns a member of a tuple whose complete type must be `type`, because an index beyond its end would end the
    /// process.
    func member(_ index: Int, ofTuple type: String) -> BusValue? { self.type == type ? child(index) : nil }

    private func child(_ index: Int) -> BusValue? {
        g_variant_get_child_value(pointer, index).map(BusValue.init(owning:))
    }
}
