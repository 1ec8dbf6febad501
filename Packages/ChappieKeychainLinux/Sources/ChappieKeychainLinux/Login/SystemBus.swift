/// Where the machine's own D-Bus listens.
enum SystemBus {
    /// D-Bus specification, "Well-known Message Bus Instances".
    static let socket = "/var/run/dbus/system_bus_socket"

    /// The address that `environment` names, or the well-known one; `nil` when nothing is there.
    static func address(environment: [String: String], isSocket: (String) -> Bool) -> String? {
        if let named = environment["DBUS_SYSTEM_BUS_ADDRESS"], !named.isEmpty { return named }
        return isSocket(socket) ? "unix:path=\(socket)" : nil
    }
}
