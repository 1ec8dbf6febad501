import CSecret
@_spi(ChappieInternals) public import ChappieAuth
public import ChappieCore
import FoundationEssentials
import Synchronization

/// A ``CredentialLock`` for credentials in the keyring. It uses a queued name on the session bus, which is shared
/// wherever the keyring is shared. If a process dies, the bus takes the name from it.
///
/// The name is `com.chappie.lock.` with a digest of the slot. It is requested after a lock of files has been acquired.
/// The files do not exclude a process with another state folder, such as a sandboxed one. If the bus forbids the name
/// or can't be reached, only the lock of files is used. A Flatpak needs `--own-name=com.chappie.lock.*`.
///
/// D-Bus Specification, "Message Bus Messages": `RequestName`,
/// <https://dbus.freedesktop.org/doc/dbus-specification.html#bus-messages-request-name>
public struct SessionBusCredentialLock: CredentialLock {
    private static let workers = Mutex<[String: BusWorker]>([:])
    /// The limit for one call to the bus, which answers without any service.
    private static let callDeadline = Duration.seconds(5)

    private let files: any CredentialLock
    private let busAddress: String?
    private let clock: any ChappieClock

    /// Creates a lock.
    ///
    /// - Parameters:
    ///   - files: A lock that excludes the processes with the same state folder.
    ///   - busAddress: The D-Bus address of the bus. With `nil`, which is the default, the session's bus is used, as in
    ///     ``SecretServiceCredentialStore``.
    ///   - clock: The clock for pauses between attempts.
    public init(files: any CredentialLock, busAddress: String? = nil, clock: any ChappieClock = SystemClock()) {
        self.files = files
        self.busAddress = busAddress
        self.clock = clock
    }

    /// Joins the queue for the name, and checks every few milliseconds whether it has reached the head of the queue.
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

    /// Returns a place in the queue for the slot's name, or `nil` if the bus does not provide one.
    private func claim(on slot: CredentialSlot) async -> BusNameClaim? {
        let environment = ProcessInfo.processInfo.environment
        guard let address = try? busAddress ?? BusAddress.session(environment) else { return nil }
        // The lock uses a separate worker, because the keyring's worker may wait for the user.
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

/// A place in the queue for a name on the bus. It is given up when this object is destroyed.
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
        // Closing the connection gives up the name and the place in the queue. The worker receives the last reference.
        worker.enqueue { [connection] in
            connection.object.withLock { _ = g_dbus_connection_close_sync($0.pointer, nil, nil) }
        }
    }

    func isFirst() async throws(CredentialStoreError) -> Bool {
        try await worker.perform(within: deadline) { [self] _, cancellation in try request(cancellation) }
    }

    /// Requests the name, or requests it again. Returns whether it belongs to this connection. The connection keeps its
    /// place in the queue.
    fileprivate func request(_ cancellation: Cancellation) throws -> Bool {
        let bus = "org.freedesktop.DBus"
        return try connection.object.withLock { object in
            let answer = try BusConnection(object, cancellation: cancellation).call(
                "RequestName", of: bus, at: "/org/freedesktop/DBus", in: bus, [.text(name), .number(0)])
            // 1 means that the name now belongs to this connection, 4 that it already did.
            return [1, 4].contains(answer.member(0, ofTuple: "(u)")?.number)
        }
    }
}

/// A connection that one thread uses at a time, and that another thread may close.
private final class SharedConnection: Sendable {
    let object: Mutex<LibraryObject>

    init(_ object: sending LibraryObject) { self.object = Mutex(object) }
}
