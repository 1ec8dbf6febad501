import CSecret
@_spi(ChappieInternals) public import ChappieAuth
public import ChappieCore
import FoundationEssentials
import Synchronization

/// ``CredentialLock`` for credentials in the keyring: a queued name on the session bus, which is the same wherever the
/// keyring is the same. The bus takes the name from a process that dies.
///
/// The name is `com.chappie.lock.` with a digest of the slot, and it is asked for once a lock of files is held. The
/// files alone do not exclude a process with another state folder, such as a sandboxed one. If the bus forbids the name
/// or can't be reached, the lock of files is all there is: a Flatpak needs `--own-name=com.chappie.lock.*`.
///
/// D-Bus Specification, "Message Bus Messages": `RequestName`,
/// <https://dbus.freedesktop.org/doc/dbus-specification.html#bus-messages-request-name>
public struct SessionBusCredentialLock: CredentialLock {
    private static let workers = Mutex<[String: BusWorker]>([:])
    /// The limit for one call of the bus, which answers by itself.
    private static let callDeadline = Duration.seconds(5)

    private let files: any CredentialLock
    private let busAddress: String?
    private let clock: any ChappieClock

    /// - Parameters:
    ///   - files: Excludes the processes with the same state folder.
    ///   - busAddress: The D-Bus address of the bus. Default `nil`: the session's, as for
    ///     ``SecretServiceCredentialStore``.
    ///   - clock: For pauses between attempts.
    public init(files: any CredentialLock, busAddress: String? = nil, clock: any ChappieClock = SystemClock()) {
        self.files = files
        self.busAddress = busAddress
        self.clock = clock
    }

    /// Joins the queue for the name, and asks every few milliseconds whether it has come to its head.
    ///
    /// - Throws: ``CredentialStoreError/busy(_:)``, ``CredentialStoreError/failed(_:)``.
    public func acquire(
        _ slot: CredentialSlot, within limit: Duration
    ) async throws(CredentialStoreError) -> CredentialLockHold {
        let start = clock.elapsed
        let hold = try await files.acquire(slot, within: limit)
        guard let claim = await claim(on: slot) else { return hold }
        try await clock.waitForLock(limit, since: start) { () throws(CredentialStoreError) in
            try await claim.isFirst()
        }
        return CredentialLockHold { withExtendedLifetime((claim, hold)) {} }
    }

    /// A place in the queue for the slot's name; `nil` if the bus does not give one.
    private func claim(on slot: CredentialSlot) async -> BusNameClaim? {
        let environment = ProcessInfo.processInfo.environment
        guard let address = try? busAddress ?? BusAddress.session(environment) else { return nil }
        // A worker of its own: the keyring's may wait for a user.
        let worker = Self.workers.withLock { workers in
            let worker = workers[address] ?? BusWorker(address: address)
            workers[address] = worker
            return worker
        }
        let name = "com.chappie.lock.slot-\(slot.digest)"
        return try? await worker.perform(within: Self.callDeadline) { _, cancellation in
            let connection = try BusConnection(address: address, cancellation: cancellation)
            let claim = BusNameClaim(name, on: SharedConnection(connection.object), worker, deadline: Self.callDeadline)
            _ = try claim.request(cancellation)
            return claim
        }
    }
}

/// A place in the queue for a name of the bus, until this object goes.
private final class BusNameClaim: Sendable {
    private let name: String
    private let worker: BusWorker
    private let deadline: Duration
    private let connection: SharedConnection

    init(_ name: String, on connection: SharedConnection, _ worker: BusWorker, deadline: Duration) {
        self.name = name
        self.connection = connection
        self.worker = worker
        self.deadline = deadline
    }

    deinit {
        // With its connection the name and the place in the queue are gone. The last reference goes to the worker.
        worker.enqueue { [connection] in
            connection.object.withLock { _ = g_dbus_connection_close_sync($0.pointer, nil, nil) }
        }
    }

    func isFirst() async throws(CredentialStoreError) -> Bool {
        try await worker.perform(within: deadline) { [self] _, cancellation in try request(cancellation) }
    }

    /// Asks for the name, or asks again. Returns whether it belongs to this connection; a place in the queue stays.
    fileprivate func request(_ cancellation: Cancellation) throws -> Bool {
        let bus = "org.freedesktop.DBus"
        return try connection.object.withLock { object in
            let answer = try BusConnection(object, cancellation: cancellation).call(
                "RequestName", of: bus, at: "/org/freedesktop/DBus", in: bus, [.text(name), .number(0)])
            // 1: the name is this connection's now. 4: it was already.
            return [1, 4].contains(answer.member(0, ofTuple: "(u)")?.number)
        }
    }
}

/// A connection that one thread uses at a time, and another one may close.
private final class SharedConnection: Sendable {
    let object: Mutex<LibraryObject>

    init(_ object: sending LibraryObject) { self.object = Mutex(object) }
}
