@_spi(ChappieInternals) public import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials

/// A ``SessionLock`` that asks logind (or elogind) for the `LockedHint` of the login session, which lock screens set.
///
/// `XDG_SESSION_ID` names the session. Without it, the session is the process's own according to logind, or otherwise
/// the user's display session, because programs that a desktop starts through the user's service manager have no
/// session. If the machine has no system bus, no logind on it, or no session, there is nothing to check.
///
/// It uses libsecret's D-Bus client. Each call opens its own connection.
///
/// <https://www.freedesktop.org/software/systemd/man/latest/org.freedesktop.login1.html>
public struct LogindSessionLock: SessionLock {
    private let deadline: Duration
    private let busAddress: String?
    private let environment: @Sendable () -> [String: String]

    /// Creates a session lock.
    ///
    /// - Parameters:
    ///   - deadline: The limit for one call. Must be positive. The default is 2 seconds.
    ///   - busAddress: The D-Bus address of the bus that logind is on. With `nil`, which is the default, it is the
    ///     value of `DBUS_SYSTEM_BUS_ADDRESS` at the time of each call, or otherwise the socket
    ///     `/var/run/dbus/system_bus_socket`.
    public init(deadline: Duration = .seconds(2), busAddress: String? = nil) {
        self.init(deadline: deadline, busAddress: busAddress) { ProcessInfo.processInfo.environment }
    }

    init(deadline: Duration, busAddress: String?, environment: @escaping @Sendable () -> [String: String]) {
        precondition(deadline > .zero, "A call to logind needs a deadline above zero.")
        self.deadline = deadline
        self.busAddress = busAddress
        self.environment = environment
    }

    /// Returns the current state of the lock screen.
    ///
    /// - Throws: ``CredentialStoreError``, with `sessionUnknown` if logind or its bus gives no usable answer, `absent`
    ///   if libsecret is missing, `failed` if the task is cancelled. A missing bus, logind or session is not an error
    ///   but ``SessionLockState/noSession(_:)``.
    public func state() async throws(CredentialStoreError) -> SessionLockState {
        let environment = environment()
        guard let address = busAddress ?? BusAddress.system(environment) else {
            return .noSession("there is no system bus")
        }
        do {
            return try await BusWorker.worker(for: address).perform(within: deadline) { _, cancellation in
                do {
                    let connection = try BusConnection(address: address, cancellation: cancellation)
                    return try Logind(connection: connection).lockState(sessionID: environment["XDG_SESSION_ID"])
                } catch let fault as LibraryError {
                    if fault.saysThereIsNoBus { return .noSession("there is no system bus") }
                    if fault.saysThereIsNoService { return .noSession("there is no login manager on the system bus") }
                    throw CredentialStoreError.sessionUnknown(fault.message)
                }
            }
        } catch .timedOut(let limit) {
            throw .sessionUnknown("it did not answer within \(limit.words)")
        }
    }
}

/// The objects of logind, which are asked one after the other over one connection. elogind gives the same answers. The
/// methods block. Use them only on a worker's thread. They throw ``LibraryError``.
private struct Logind {
    let connection: BusConnection

    private static let name = "org.freedesktop.login1"

    func lockState(sessionID: String?) throws -> SessionLockState {
        guard let path = try sessionPath(id: sessionID) else {
            return .noSession("this program runs outside of a login session")
        }
        guard let hint = try property("LockedHint", of: "Session", at: path) else {
            return .noSession("the login manager has no lock for this session")
        }
        return try expected(hint.bool, from: "LockedHint") ? .locked : .unlocked
    }

    /// Returns the object of the process's session, or `nil` if it has no session.
    ///
    /// The session that the variable names may have ended long ago, because programs in tmux outlive their session.
    /// Programs that a desktop starts through the user's service manager have no session. In these cases the session
    /// that logind calls the user's display is used.
    private func sessionPath(id: String?) throws -> String? {
        if let id, !id.isEmpty, let path = try object("GetSession", .text(id)) { return path }
        // 0 means the caller.
        if let path = try object("GetSessionByPID", .number(0)) { return path }
        guard let user = try object("GetUser", .number(BusAddress.userID)),
            let display = try property("Display", of: "User", at: user),
            display.member(0, ofTuple: "(so)")?.text?.isEmpty == false
        else { return nil }
        return display.member(1, ofTuple: "(so)")?.text
    }

    private func object(_ method: String, _ argument: BusArgument) throws -> String? {
        try unlessUnknown {
            let answer = try connection.call(
                method, of: "\(Self.name).Manager", at: "/org/freedesktop/login1", in: Self.name, [argument])
            return try expected(answer.member(0, ofTuple: "(o)")?.text, from: method)
        }
    }

    private func property(_ name: String, of interface: String, at path: String) throws -> BusValue? {
        try unlessUnknown {
            let value = try connection.property(name, of: "\(Self.name).\(interface)", at: path, in: Self.name)
            return try expected(value, from: name)
        }
    }

    private func expected<Value>(_ value: Value?, from question: String) throws -> Value {
        guard let value else { throw LibraryError(message: "logind's answer to \(question) has another type") }
        return value
    }

    /// Runs `question`. Returns `nil` if logind does not know the process, user or session of the question, if the
    /// session has ended in between, or if the login manager is older than the property.
    private func unlessUnknown<Output>(_ question: () throws -> Output) throws -> Output? {
        do {
            return try question()
        } catch let fault as LibraryError {
            let absences = ["NoSuchSession", "NoSessionForPID", "NoSuchUser", "NoUserForPID"]
            let unknown = ["UnknownProperty", "UnknownInterface", "InvalidArgs"]
            guard
                fault.saysThereIsNoSuchObject || absences.contains(where: { fault.name == "\(Self.name).\($0)" })
                    || unknown.contains(fault.busName ?? "")
            else { throw fault }
            return nil
        }
    }
}
