public import ChappieAuth
import FoundationEssentials

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// ``SessionLock`` by logind (or elogind): the `LockedHint` of the login session, which lock screens set.
///
/// The session is the one that `XDG_SESSION_ID` names, otherwise the one that logind counts this process into, otherwise
/// the user's display session (programs that a desktop starts through the user's service manager are in no session of
/// their own). Where there is no system bus, no logind on it, or no session, there is nothing to check.
///
/// Each call opens its own connection to the system bus, works on a thread of its own, and is given up at the deadline or
/// when its task is cancelled. It uses the D-Bus client that libsecret brings along.
///
/// <https://www.freedesktop.org/software/systemd/man/latest/org.freedesktop.login1.html>
public struct LogindSessionLock: SessionLock {
    private let deadline: Duration
    private let busAddress: String?
    private let environment: @Sendable () -> [String: String]

    /// - Parameters:
    ///   - deadline: How long one call may take. Must be positive. Default 2 seconds.
    ///   - busAddress: The D-Bus address of the bus that logind is on. Default `nil`: what `DBUS_SYSTEM_BUS_ADDRESS` says
    ///     at the time of each call, otherwise the socket `/var/run/dbus/system_bus_socket`.
    public init(deadline: Duration = .seconds(2), busAddress: String? = nil) {
        self.init(deadline: deadline, busAddress: busAddress) { ProcessInfo.processInfo.environment }
    }

    init(deadline: Duration, busAddress: String?, environment: @escaping @Sendable () -> [String: String]) {
        precondition(deadline > .zero, "A call to logind needs a deadline above zero.")
        self.deadline = deadline
        self.busAddress = busAddress
        self.environment = environment
    }

    /// The state of the lock screen now.
    ///
    /// - Throws: ``CredentialStoreError``: `timedOut` when logind or its bus does not answer, `denied` when the bus
    ///   forbids asking, `absent` when libsecret is missing, `failed` for anything else and when the task is cancelled. No
    ///   bus, no logind and no session are ``SessionLockState/noSession(_:)``.
    public func state() async throws(CredentialStoreError) -> SessionLockState {
        let environment = environment()
        guard let address = busAddress ?? SystemBus.address(environment: environment, isSocket: SessionBus.isSocket)
        else { return .noSession("there is no system bus") }
        let deadline = deadline
        return try await KeyringLane.lane(for: address).perform(within: deadline) {
            turn throws(CredentialStoreError) in
            do throws(LibraryFault) {
                return try Self.ask(at: address, id: environment["XDG_SESSION_ID"], turn)
            } catch {
                if error.saysThereIsNoBus { return .noSession("there is no system bus") }
                if error.saysThereIsNoService { return .noSession("there is no login manager on the system bus") }
                throw error.meaningOfLogind(deadline: deadline)
            }
        }
    }

    private static func ask(at address: String, id: String?, _ turn: KeyringTurn) throws(LibraryFault)
        -> SessionLockState
    {
        let connection = try BusConnection(address: address, cancellation: turn.cancellation)
        let logind = LogindSession(connection: connection)
        guard let path = try logind.path(id: id, user: getuid()) else {
            return .noSession("this program runs outside of a login session")
        }
        return switch try logind.isLocked(at: path) {
        case true?: .locked
        case false?: .unlocked
        case nil: .noSession("the login manager has no lock for this session")
        }
    }
}
