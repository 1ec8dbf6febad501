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
        var sockets: Set<CInt> = []
        var isSlow = false
    }

    let port: Int
    private let server: Int
    private let listener: CInt
    private let state = Mutex(State())

    init(to server: Int) throws {
        let listener = socket(AF_INET, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isListening =
            withAddress(ofPort: 0) { bind(listener, $0, $1) } == 0 && listen(listener, 16) == 0
            && withUnsafeMutablePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(listener, $0, &size) }
            } == 0
        guard isListening else { throw FixtureFailure("no port of 127.0.0.1 for a proxy") }
        self.server = server
        self.listener = listener
        port = Int(UInt16(bigEndian: address.sin_port))
        DispatchQueue(label: "proxy").async { [self] in acceptAll() }
    }

    /// Ends everything.
    func close() {
        shutdown(listener, CInt(SHUT_RDWR))
        state.withLock { state in for socket in state.sockets { shutdown(socket, CInt(SHUT_RDWR)) } }
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
        while case let client = accept(listener, nil, nil), client >= 0 {
            let upstream = socket(AF_INET, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
            guard withAddress(ofPort: server, { connect(upstream, $0, $1) }) == 0 else {
                Glibc.close(client)
                Glibc.close(upstream)
                continue
            }
            // The kernel would wait for the next message before it sends a small one.
            var on: CInt = 1
            for socket in [client, upstream] {
                setsockopt(socket, CInt(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<CInt>.size))
            }
            state.withLock { $0.sockets.formUnion([client, upstream]) }
            let ends = DispatchGroup()
            for (direction, from, to) in [(Direction.toServer, client, upstream), (.toClient, upstream, client)] {
                DispatchQueue(label: "proxy.pump").async(group: ends) { [self] in
                    pump(direction, from: from, to: to)
                    shutdown(from, CInt(SHUT_RDWR))
                    shutdown(to, CInt(SHUT_RDWR))
                }
            }
            ends.notify(queue: DispatchQueue(label: "proxy.end")) { [self] in
                state.withLock { $0.sockets.subtract([client, upstream]) }
                Glibc.close(client)
                Glibc.close(upstream)
            }
        }
        Glibc.close(listener)
    }

    /// Passes whole messages on until one side ends, or the cut comes.
    private func pump(_ direction: Direction, from: CInt, to: CInt) {
        var pending: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 16 << 10)
        var hasKind = direction == .toClient
        while case let count = read(from, &chunk, chunk.count), count > 0 {
            if state.withLock(\.isSlow) {
                // It does not read on meanwhile, as a slow line does not.
                var moment = timespec(tv_sec: 0, tv_nsec: 1_300_000)
                nanosleep(&moment, nil)
                guard pending.isEmpty, Self.pass(Array(chunk[..<count]), to: to) else { return }
                continue
            }
            pending += chunk[..<count]
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
                    guard Self.pass(message, to: to) else { return }
                    continue
                }
                cut.andBefore()
                if cut.passesHalf { _ = Self.pass(Array(message.prefix(message.count / 2)), to: to) }
                return
            }
        }
    }

    private static func size(of bytes: [UInt8], hasKind: Bool) -> Int? {
        let start = hasKind ? 1 : 0
        guard bytes.count >= start + 4 else { return nil }
        return start + bytes[start..<start + 4].reduce(0) { $0 << 8 | Int($1) }
    }

    private static func pass(_ bytes: [UInt8], to socket: CInt) -> Bool {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes { buffer in
                send(socket, buffer.baseAddress.map { $0 + sent }, bytes.count - sent, CInt(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            sent += count
        }
        return true
    }
}

private func withAddress<Result>(
    ofPort port: Int, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
) -> Result {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    address.sin_port = UInt16(port).bigEndian
    return withUnsafePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
    }
}
