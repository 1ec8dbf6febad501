import Glibc
import Synchronization

/// A listening socket that nobody accepts from.
public final class SilentListener: Sendable {
    /// Of 127.0.0.1.
    public let port: Int
    private let descriptors: Mutex<[CInt]>

    /// Returns when a further connection would meet with what is described.
    ///
    /// - Parameters:
    ///   - backlog: how many connections the kernel completes by itself (plus one).
    ///   - filled: whether those places are taken already, so that a further connection gets no answer at all.
    public init(backlog: Int = 0, filled: Bool = true) async throws {
        let (listener, port) = try LoopbackAddress.boundSocket()
        self.port = port
        descriptors = Mutex([listener])
        guard listen(listener, CInt(backlog)) == 0 else { throw FixtureFailure("port \(port) can't be listened on") }
        guard filled else { return }
        for _ in 0...backlog {
            let options = SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue
            let client = socket(AF_INET, CInt(options), 0)
            descriptors.withLock { $0.append(client) }
            _ = LoopbackAddress.with(port: port) { connect(client, $0, $1) }
        }
        // The kernel may be late with the last step of a handshake.
        guard try await eventually({ try TCPSocketTable().acceptQueueLength(of: port) == backlog + 1 }) else {
            throw FixtureFailure("the places of a listener with backlog \(backlog) don't fill up")
        }
    }

    /// Whether somebody tries to connect and gets no answer.
    public var isBeingDialled: Bool {
        get throws { try TCPSocketTable().isBeingDialled(port) }
    }

    /// Whether somebody has connected and sent something.
    public var hasBeenSpokenTo: Bool {
        get throws { try TCPSocketTable().hasUnreadBytes(at: port) }
    }

    /// Ends every connection to it.
    public func close() {
        descriptors.withLock { descriptors in
            for descriptor in descriptors { Glibc.close(descriptor) }
            descriptors = []
        }
    }

    deinit { close() }
}
