import CSecret
import ChappieAuth

/// One connection to the bus and one encrypted session with the keyring service on it. Blocks; on a lane's thread only.
struct SecretServiceSession {
    let turn: KeyringTurn
    let limits: KeyringLimits
    let service: LibraryObject
    let connection: BusConnection

    var cancellation: Cancellation { turn.cancellation }

    /// - Throws: `absent`, `denied`, `timedOut` or `failed`.
    init(address: String, limits: KeyringLimits, turn: KeyringTurn) throws(CredentialStoreError) {
        self.turn = turn
        self.limits = limits
        let connection: BusConnection
        do throws(LibraryFault) {
            connection = try BusConnection(address: address, cancellation: turn.cancellation)
        } catch {
            throw error.meaning(at: .connecting, deadline: limits.work)
        }
        self.connection = connection
        service = try Self.object(at: .working, limits.work) {
            csecret_service_open(connection.object.pointer, turn.cancellation.pointer, $0)
        }
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
