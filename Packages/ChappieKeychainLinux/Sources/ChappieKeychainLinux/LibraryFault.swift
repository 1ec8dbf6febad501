import CSecret
import ChappieAuth
@_spi(ChappieInternals) import ChappieCore

/// libsecret as the machine has it.
enum SecretLibrary {
    /// Opened once per process and kept: GObject types can't be unloaded.
    private static let opened = open("libsecret-1.so.0")

    /// Makes the functions of CSecret usable.
    ///
    /// - Throws: `absent` when the library is missing or too old.
    static func require() throws(CredentialStoreError) { try opened.get() }

    static func open(_ name: String) -> Result<Void, CredentialStoreError> {
        guard let problem = csecret_open(name) else { return .success(()) }
        let words = String(cString: problem)
        return .failure(.absent("the library libsecret could not be opened (\(words)); Debian calls it libsecret-1-0"))
    }
}

/// A GError, as a value, and its meaning to a person.
struct LibraryFault: Error, Hashable {
    /// The D-Bus name of an error that came over the bus.
    var name: String?
    /// GIO's number for an error of its own.
    var ioCode: Int?
    let message: String

    /// A call that gave neither a result nor a reason, or a result of another type than its specification says.
    static func unexpected(_ message: String) -> LibraryFault { LibraryFault(message: message) }

    /// Calls one C function that reports through a GError, and throws what it reported.
    static func catching<Output>(
        _ call: (UnsafeMutablePointer<UnsafeMutablePointer<CSError>?>) -> Output
    ) throws(LibraryFault) -> Output {
        var error: UnsafeMutablePointer<CSError>?
        let output = call(&error)
        guard let error else { return output }
        defer { g_error_free(error) }
        let name = g_dbus_error_get_remote_error(error)
        defer { g_free(name) }
        // "GDBus.Error:org.freedesktop.DBus.Error.AccessDenied: " means nothing to a person.
        _ = g_dbus_error_strip_remote_error(error)
        throw LibraryFault(
            name: name.map { String(cString: $0) },
            ioCode: error.pointee.domain == g_io_error_quark() ? Int(error.pointee.code) : nil,
            message: clean(error.pointee.message.map { String(cString: $0) } ?? ""))
    }

    /// A sentence from outside as the middle of one of ours.
    static func clean(_ words: String) -> String {
        var text = UntrustedText.message(words) ?? ""
        while text.last == "." || text.last == " " { text.removeLast() }
        return text.isEmpty ? "no reason given" : text
    }

    /// - Parameter isConnecting: Whether the bus itself was being reached.
    func meaning(deadline: Duration, isConnecting: Bool = false) -> CredentialStoreError {
        switch (busName, ioCode) {
        case ("ServiceUnknown", _), ("NameHasNoOwner", _):
            .absent("no keyring service (org.freedesktop.secrets) is on the session bus")
        case (let name?, _) where name.hasPrefix("Spawn."):
            .absent("the keyring service could not be started (\(message))")
        case ("AccessDenied", _), ("AuthFailed", _), (_, CS_IO_ERROR_PERMISSION_DENIED): .denied(message)
        case ("Timeout", _), ("TimedOut", _), (_, CS_IO_ERROR_TIMED_OUT): .timedOut(deadline)
        // Our own cancellations are never looked at, so this one is the user's.
        case (_, CS_IO_ERROR_CANCELLED): .denied("the prompt was dismissed")
        case _ where name == "org.freedesktop.Secret.Error.IsLocked":
            .locked("the keyring service will not use it before it is unlocked")
        case _ where isConnecting: .absent("the session bus can't be reached (\(message))")
        case (_, CS_IO_ERROR_CLOSED): .failed("the session bus closed the connection")
        default: .failed(message)
        }
    }

    /// The object is gone: the service knows neither it nor, at its path, the method.
    var saysThereIsNoSuchObject: Bool {
        name == "org.freedesktop.Secret.Error.NoSuchObject" || busName == "UnknownObject" || busName == "UnknownMethod"
    }

    /// The name of the service has no owner, and none could be started for it.
    var saysThereIsNoService: Bool {
        busName == "ServiceUnknown" || busName == "NameHasNoOwner" || busName?.hasPrefix("Spawn.") == true
    }

    /// No bus listens there: the socket is missing, or was left behind.
    var saysThereIsNoBus: Bool { ioCode == CS_IO_ERROR_NOT_FOUND || ioCode == CS_IO_ERROR_CONNECTION_REFUSED }

    /// The part that is D-Bus's own: `AccessDenied`.
    var busName: String? {
        let prefix = "org.freedesktop.DBus.Error."
        return name.flatMap { $0.hasPrefix(prefix) ? String($0.dropFirst(prefix.count)) : nil }
    }
}
