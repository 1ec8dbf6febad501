import Dispatch
import Glibc
import Synchronization
import TestFixtures

/// Stands between a store and the server, and ends the connection at a chosen message of PostgreSQL's protocol
/// (https://www.postgresql.org/docs/15/protocol-message-formats.html): a byte for the kind, which the client's first message
/// does without, and four for the length.
final class CuttingProxy: Sendable {
    enum Direction: Sendable, CaseIterable { case toServer, toClient }

    /// The message at which to cut, counted from 0, and whether its first half is still passed on.
    struct Cut: Sendable {
        var direction: Direction
        var message: Int
        var passesHalf: Bool
        /// Runs before the connection ends.
        var andBefore: @Sendable () -> Void = {}
    }

    private struct State {
        var cut: Cut?
        var passed: [Direction: Int] = [:]
        var connections: [LoopbackConnection] = []
        var isSlow = false
    }

    var port: Int { listener.port }
    private let server: Int
    private let listener: LoopbackListener
    private let state = Mutex(State())

    init(to server: Int) throws {
        self.server = server
        listener = try LoopbackListener()
        DispatchQueue(label: "proxy").async { [self] in acceptAll() }
    }

    /// Ends everything.
    func close() {
        listener.close()
        state.withLock { state in for connection in state.connections { connection.shutDown() } }
    }

    /// Counts messages from 0 again, on whatever connection they pass, and cuts as said, once.
    func count(cuttingAt cut: Cut?) { state.withLock { ($0.cut, $0.passed) = (cut, [:]) } }

    /// How many messages have passed since then.
    func passed(_ direction: Direction) -> Int { state.withLock { $0.passed[direction] ?? 0 } }

    /// From now on 16 KiB pass each 1.3 ms.
    func slowDown() { state.withLock { $0.isSlow = true } }

    /// Whether the cut is still to come.
    var isArmed: Bool { state.withLock { $0.cut != nil } }

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
