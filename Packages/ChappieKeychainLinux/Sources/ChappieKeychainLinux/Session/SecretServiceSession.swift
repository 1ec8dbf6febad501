import CSecret
import ChappieAuth

/// One call's use of a ``KeyringConnection``. Blocks; on a lane's thread only.
struct SecretServiceSession {
    let turn: KeyringTurn
    let limits: KeyringLimits
    let shared: KeyringConnection

    var cancellation: Cancellation { turn.cancellation }
    var service: LibraryObject { shared.service }
    var connection: BusConnection { BusConnection(shared.bus, cancellation: cancellation) }

    init(_ shared: KeyringConnection, limits: KeyringLimits, turn: KeyringTurn) {
        self.shared = shared
        self.limits = limits
        self.turn = turn
    }

    /// Connects anew.
    ///
    /// - Throws: `absent`, `denied`, `timedOut` or `failed`.
    init(address: String, limits: KeyringLimits, turn: KeyringTurn) throws(CredentialStoreError) {
        let connection: BusConnection
        do throws(LibraryFault) {
            connection = try BusConnection(address: address, cancellation: turn.cancellation)
        } catch {
            throw error.meaning(at: .connecting, deadline: limits.work)
        }
        let service = try Self.object(at: .working, limits.work) {
            csecret_service_open(connection.object.pointer, turn.cancellation.pointer, $0)
        }
        self.init(KeyringConnection(bus: connection.object, service: service), limits: limits, turn: turn)
    }

    /// Calls `body`, which gives a new reference, or nothing and an error.
    static func object(
        at stage: LibraryFault.Stage, _ deadline: Duration,
        _ body: (UnsafeMutablePointer<UnsafeMutablePointer<CSError>?>) -> OpaquePointer?
    ) throws(CredentialStoreError) -> LibraryObject {
        let pointer: OpaquePointer?
        do throws(LibraryFault) {
            pointer = try LibraryFault.catching(body)
        } catch {
            throw error.meaning(at: stage, deadline: deadline)
        }
        guard let pointer else { throw .failed("the keyring service gave no session") }
        return LibraryObject(owning: pointer)
    }
}
