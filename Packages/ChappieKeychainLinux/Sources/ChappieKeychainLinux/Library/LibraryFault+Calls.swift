import CSecret
import ChappieAuth

extension LibraryFault {
    /// Calls one C function that reports through a GError, and throws what it reported.
    static func catching<Output>(
        _ call: (UnsafeMutablePointer<UnsafeMutablePointer<CSError>?>) -> Output
    ) throws(LibraryFault) -> Output {
        var error: UnsafeMutablePointer<CSError>?
        let output = call(&error)
        guard let error else { return output }
        defer { g_error_free(error) }
        throw LibraryFault(error)
    }

    private init(_ error: UnsafeMutablePointer<CSError>) {
        let name = g_dbus_error_get_remote_error(error)
        remoteName = name.map { String(cString: $0) }
        g_free(name)
        // "GDBus.Error:org.freedesktop.DBus.Error.AccessDenied: " means nothing to a person.
        _ = g_dbus_error_strip_remote_error(error)
        domain =
            switch error.pointee.domain {
            case g_io_error_quark(): .io
            case g_dbus_error_quark(): .bus
            case secret_error_get_quark(): .secret
            default: .other
            }
        code = Int(error.pointee.code)
        message = Self.clean(error.pointee.message.map { String(cString: $0) } ?? "")
    }
}
