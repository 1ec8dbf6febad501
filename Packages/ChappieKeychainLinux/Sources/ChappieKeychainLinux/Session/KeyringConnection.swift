import CSecret
import ChappieAuth

/// A connection to the bus and an encrypted session with the keyring service on it, which outlive the call that has made
/// them: a token that was renewed is stored sooner when they are there already.
final class KeyringConnection {
    let bus: LibraryObject
    let service: LibraryObject
    private let madeAt = ContinuousClock.now
    // Not the item itself, which holds its secret.
    private var found: (slot: CredentialSlot, path: String)?

    init(bus: LibraryObject, service: LibraryObject) {
        self.bus = bus
        self.service = service
    }

    /// Whether it is worth trying: what has become of the service meanwhile, only a call can tell.
    func isUsable(for keepTime: Duration) -> Bool {
        g_dbus_connection_is_closed(bus.pointer) == 0 && ContinuousClock.now - madeAt < keepTime
    }

    /// The path of the one item of `slot`, when the last search was for it and found no other.
    func item(of slot: CredentialSlot) -> String? { found.flatMap { $0.slot == slot ? $0.path : nil } }

    func remember(_ items: [LibraryObject], of slot: CredentialSlot) {
        found = items.count == 1 ? SecretServiceSession.path(of: items[0]).map { (slot, $0) } : nil
    }

    func forgetItem() { found = nil }
}
