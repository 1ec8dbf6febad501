import Dispatch
import Glibc
import Synchronization

/// A proxy between a store and PostgreSQL, which ends the connection at a chosen message of the protocol
/// (https://www.postgresql.org/docs/15/protocol-message-formats.html). A message begins with a byte for its kind, which
/// the client's first message omits, and four bytes for its length.
public final class CuttingProxy: Sendable {
    /// The direction of a message.
    public enum Direction: Sendable, CaseIterable {
        /// From the store to the server.
        case toServer
        /// From the server to the store.
        case toClient
    }

    /// A message at which to cut.
    public struct Cut: Sendable {
        /// The direction of the message.
        public var direction: Direction
        /// The number of the message, counted from 0.
        public var message: Int
        /// Whether its first half is still passed on.
        public var passesHalf: Bool
        /// Runs before the connection ends.
        public var andBefore: @Sendable () -> Void

        /// Creates a cut.
        public init(
            direction: Direction, message: Int, passesHalf: Bool, andBefore: @escaping @Sendable () -> Void = {}
        ) {
            self.direction = direction
            self.message = message
            self.passesHalf = passesHalf
            self.andBefore = andBefore
        }
    }

    private struct State {
        var cut: Cut?
        var passed: [Direction: Int] = [:]
        var connections: [LoopbackConnection] = []
        var isSlow = false
    }

    /// The port of the proxy on 127.0.0.1.
    public var port: Int { listener.port }
    private let server: Int
    private let listener: LoopbackListener
    private let state = Mutex(State())

    /// Creates a proxy to the server at this port.
    public init(to server: Int) throws {
        self.server = server
        listener = try LoopbackListener()
        DispatchQueue(label: "proxy").async { [self] in acceptAll() }
    }

    /// Ends all connections and stops accepting others.
    public func close() {
        listener.close()
        state.withLock { state in for connection in state.connections { connection.shutDown() } }
    }

    /// Counts the messages of all connections from 0 again, and cuts once, at `cut`.
    public func count(cuttingAt cut: Cut?) { state.withLock { ($0.cut, $0.passed) = (cut, [:]) } }

    /// Returns the number of messages that have passed since ``count(cuttingAt:)``.
    public func passed(_ direction: Direction) -> Int { state.withLock { $0.passed[direction] ?? 0 } }

    /// Lets only 16 KiB pass each 1.3 ms from now on.
    public func slowDown() { state.withLock { $0.isSlow = true } }

    /// Whether the cut is still to come.
    public var isArmed: Bool { state.withLock { $0.cut != nil } }

    private func acceptAll() {
        while let client = listener.accept() {
            guard let upstream = try? LoopbackConnection(port: server) else { continue }
            // The kernel would wait for the next message before it sends a small one.
            var on: CInt = 1
            for end in [client, upstream] {
                setsockopt(end.number, CInt(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<CInt>.size))
            }
            state.withLock { $0.connections += [client, upstream] }
            let ends = DispatchGroup()
            for (direction, from, to) in [(Direction.toServer, client, upstream), (.toClient, upstream, client)] {
                DispatchQueue(label: "proxy.pump").async(group: ends) { [self] in
                    pump(direction, from: from, to: to)
                    from.shutDown()
                    to.shutDown()
                }
            }
            ends.notify(queue: DispatchQueue(label: "proxy.end")) { [self] in
                state.withLock { $0.connections.removeAll { $0 === client || $0 === upstream } }
            }
        }
    }

    /// Passes whole messages on until one side ends, or the cut comes.
    private func pump(_ direction: Direction, from: LoopbackConnection, to: LoopbackConnection) {
        var pending: [UInt8] = []
        var hasKind = direction == .toClient
        while let piece = from.receive(atMost: 16 << 10), !piece.isEmpty {
            if state.withLock(\.isSlow) {
                // It does not read on meanwhile, as a slow line does not.
                var moment = timespec(tv_sec: 0, tv_nsec: 1_300_000)
                nanosleep(&moment, nil)
                guard pending.isEmpty, to.send(piece) else { return }
                continue
            }
            pending += piece
            while let size = Self.size(of: pending, hasKind: hasKind), pending.count >= size {
                let message = Array(pending[..<size])
                pending.removeFirst(size)
                hasKind = true
                let cut = state.withLock { state -> Cut? in
                    let number = state.passed[direction, default: 0]
                    if let cut = state.cut, cut.direction == direction, cut.message == number {
                        state.cut = nil
                        return cut
                    }
                    state.passed[direction] = number + 1
                    return nil
                }
                guard let cut else {
                    guard to.send(message) else { return }
                    continue
                }
                cut.andBefore()
                if cut.passesHalf { to.send(Array(message.prefix(message.count / 2))) }
                return
            }
        }
    }

    private static func size(of bytes: [UInt8], hasKind: Bool) -> Int? {
        let start = hasKind ? 1 : 0
        guard bytes.count >= start + 4 else { return nil }
        return start + bytes[start..<start + 4].reduce(0) { $0 << 8 | Int($1) }
    }
}
