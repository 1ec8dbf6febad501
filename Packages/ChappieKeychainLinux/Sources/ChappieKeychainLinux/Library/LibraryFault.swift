import CSecret
import ChappieAuth

/// A GError, as a value, and what it means to a person.
struct LibraryFault: Error, Hashable {
    enum Domain: Hashable { case io, bus, secret, other }

    /// What was being done: the same number means different things.
    enum Stage: Hashable { case connecting, working }

    let domain: Domain
    let code: Int
    let message: String
    /// The D-Bus name of an error that came over the bus.
    var remoteName: String?

    func meaning(at stage: Stage, deadline: Duration) -> CredentialStoreError {
        switch (domain, code) {
        case (.secret, CS_SECRET_ERROR_IS_LOCKED):
            .locked("the keyring service will not use it before it is unlocked")
        // libsecret's word for a secret that does not decrypt, and for answers that break the protocol.
        case (.secret, CS_SECRET_ERROR_PROTOCOL):
            .corrupt("the keyring service answered with something that can't be decoded (\(message))")
        case (.bus, CS_DBUS_ERROR_SERVICE_UNKNOWN), (.bus, CS_DBUS_ERROR_NAME_HAS_NO_OWNER):
            .absent("no keyring service (org.freedesktop.secrets) is on the session bus")
        case (.bus, CS_DBUS_ERROR_SPAWN_FIRST...CS_DBUS_ERROR_SPAWN_LAST):
            .absent("the keyring service could not be started (\(message))")
        case (.bus, CS_DBUS_ERROR_ACCESS_DENIED), (.bus, CS_DBUS_ERROR_AUTH_FAILED),
            (.io, CS_IO_ERROR_PERMISSION_DENIED):
            .denied(message)
        case (.bus, CS_DBUS_ERROR_TIMEOUT), (.bus, CS_DBUS_ERROR_TIMED_OUT),
            (.io, CS_IO_ERROR_TIMED_OUT):
            .timedOut(deadline)
        // Our own cancellations are never looked at, so this one is the person's.
        case (.io, CS_IO_ERROR_CANCELLED):
            .denied("the prompt was dismissed")
        case _ where stage == .connecting:
            .absent("the session bus can't be reached (\(message))")
        case (.io, CS_IO_ERROR_CLOSED):
            .failed("the session bus closed the connection")
        default:
            .failed(message)
        }
    }

    /// A call that gave neither a result nor a reason, or a result of another type than its specification says.
    static func without(_ words: String) -> LibraryFault { LibraryFault(domain: .other, code: 0, message: words) }

    /// The item is gone, which somebody who deletes it does not mind.
    var saysThereIsNoSuchItem: Bool {
        switch (domain, code) {
        // The last is libsecret's own word for an item without properties.
        case (.secret, CS_SECRET_ERROR_NO_SUCH_OBJECT), (.bus, CS_DBUS_ERROR_UNKNOWN_OBJECT),
            (.bus, CS_DBUS_ERROR_UNKNOWN_METHOD):
            true
        default: false
        }
    }

    /// Words from outside as the middle of a sentence: one line, at most 300 characters, without a full stop.
    static func clean(_ words: String) -> String {
        let line = String(
            words.prefix(300).map { $0.isNewline || $0.unicodeScalars.contains(where: isControl) ? " " : $0 })
        var text = Substring(line)
        while let last = text.last, last == "." || last == " " { text.removeLast() }
        return text.isEmpty ? "no reason given" : String(text)
    }

    private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        scalar.properties.generalCategory == .control
    }
}
