import CSecret

/// A connection of our own to a message bus. Its calls block; on a lane's thread only.
struct BusConnection {
    let object: LibraryObject
    private let cancellation: Cancellation

    /// The same connection, for another call.
    init(_ object: LibraryObject, cancellation: Cancellation) {
        self.object = object
        self.cancellation = cancellation
    }

    init(address: String, cancellation: Cancellation) throws(LibraryFault) {
        self.cancellation = cancellation
        let flags = CSConnectionFlags(CS_CONNECTION_AUTHENTICATION_CLIENT | CS_CONNECTION_MESSAGE_BUS)
        let pointer = try LibraryFault.catching {
            g_dbus_connection_new_for_address_sync(address, flags, nil, cancellation.pointer, $0)
        }
        guard let pointer else { throw .without("the bus gave no connection") }
        object = LibraryObject(owning: pointer)
    }

    /// Calls one method and gives what it returned, a tuple.
    ///
    /// The service is not started for it: one that does not run has no state to ask for, and shows no prompt.
    ///
    /// - Parameters:
    ///   - milliseconds: A limit of its own; without one, the end of the whole call is its end.
    ///   - isCancellable: Whether it ends with the whole call.
    func call(
        _ method: String, of interface: String, at path: String, in name: String, _ arguments: [BusArgument] = [],
        milliseconds: Int32 = .max, isCancellable: Bool = true
    ) throws(LibraryFault) -> BusValue {
        // Each of them belongs to the tuple, and the tuple to the call: nothing to release here.
        let children = arguments.map { $0.makePointer() }
        let parameters = children.withUnsafeBufferPointer { g_variant_new_tuple($0.baseAddress, $0.count) }
        let answer = try LibraryFault.catching {
            g_dbus_connection_call_sync(
                object.pointer, name, path, interface, method, parameters, nil, CSCallFlags(CS_CALL_NO_AUTO_START),
                milliseconds, isCancellable ? cancellation.pointer : nil, $0)
        }
        guard let answer else { throw .without("the service gave no answer") }
        return BusValue(owning: answer)
    }
}
