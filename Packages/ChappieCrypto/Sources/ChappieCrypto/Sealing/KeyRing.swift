import ChappieAuth
import Synchronization

/// The keys that one store has derived, so that each costs its quarter of a second once.
final class KeyRing: Sendable {
    /// A store has a handful of slots; a salt that somebody else changes all the time must not fill the memory.
    static let limit = 16

    private struct Entry {
        let passphrase: Secret
        let key: CredentialKey
    }

    private let entries = Mutex<[Entry]>([])

    var count: Int { entries.withLock(\.count) }

    func key(
        for passphrase: Secret, salt: [UInt8], parameters: ScryptParameters
    ) throws(CredentialStoreError) -> CredentialKey {
        let held = entries.withLock { entries in
            entries.first { $0.key.salt == salt && $0.key.parameters == parameters && $0.passphrase == passphrase }
        }
        if let held { return held.key }
        let key = try CredentialKey(passphrase, salt: salt, parameters: parameters)
        entries.withLock { entries in
            if entries.count == Self.limit { entries.removeFirst() }
            entries.append(Entry(passphrase: passphrase, key: key))
        }
        return key
    }

    func forgetAll() { entries.withLock { $0 = [] } }
}
