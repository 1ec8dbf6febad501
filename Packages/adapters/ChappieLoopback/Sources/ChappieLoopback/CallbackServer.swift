import ChappieAuth

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The work of the listener's thread: it accepts connections, reads a head from each and sends its answer.
struct CallbackServer {
    struct Limits: Sendable {
        var connections = 16
        /// In bytes.
        var head = 16 << 10
        /// The time for a head, and for the answer.
        var patience = Duration.seconds(10)
    }

    private let listener: Descriptor
    private let end: Descriptor
    private let limits: Limits
    private let answer: (_ head: [UInt8], _ peer: CallbackPeer) -> [UInt8]
    /// In the order of their arrival.
    private var connections: [CallbackConnection] = []
    /// Until then no connection is accepted, since the process had no descriptor left.
    private var restUntil: ContinuousClock.Instant?

    /// - Parameters:
    ///   - listener: A listening socket.
    ///   - end: The server ends once this socket's peer has shut it down.
    init(
        at listener: Descriptor, until end: Descriptor, limits: Limits,
        _ answer: @escaping (_ head: [UInt8], _ peer: CallbackPeer) -> [UInt8]
    ) {
        self.listener = listener
        self.end = end
        self.limits = limits
        self.answer = answer
    }

    /// Returns when the end has come. All connections are closed then.
    mutating func run() {
        defer { for connection in connections { connection.end() } }
        while true {
            let now = ContinuousClock.now
            if let rest = restUntil, rest <= now { restUntil = nil }
            var polled = [
                pollfd(fd: end.number, events: Int16(POLLIN), revents: 0),
                // poll(2) passes over a negative number.
                pollfd(fd: restUntil == nil ? listener.number : -1, events: Int16(POLLIN), revents: 0),
            ]
            polled += connections.map { pollfd(fd: $0.number, events: $0.events, revents: 0) }
            guard poll(&polled, nfds_t(polled.count), timeout(from: now)) >= 0 else {
                if errno == EINTR { continue }
                return
            }
            guard polled[0].revents == 0 else { return }
            for (connection, polled) in zip(connections, polled.dropFirst(2)) where polled.revents != 0 {
                connection.advance(answer)
            }
            dropFinished()
            if polled[1].revents != 0 { accept() }
        }
    }

    /// In milliseconds, for poll(2); rounded up, so that the deadline is over when it returns.
    private func timeout(from now: ContinuousClock.Instant) -> CInt {
        guard let next = (connections.map(\.deadline) + [restUntil].compactMap(\.self)).min() else { return -1 }
        return CInt(clamping: max(0, Int((next - now) / .milliseconds(1)) + 1))
    }

    private mutating func dropFinished() {
        let now = ContinuousClock.now
        for connection in connections where connection.deadline <= now { connection.end() }
        connections.removeAll(where: \.hasEnded)
    }

    /// Accepts the connections that wait. Each is read at once: if its request has arrived already, no later connection
    /// can take its place.
    private mutating func accept() {
        for _ in 0..<limits.connections {
            guard let socket = Descriptor(systemAccept(listener.number)) else {
                switch errno {
                case EINTR, ECONNABORTED: continue
                case EAGAIN: return
                default:
                    // The listener stays ready. Without a rest, the thread would run in circles.
                    restUntil = ContinuousClock.now + .milliseconds(100)
                    return
                }
            }
            let connection = CallbackConnection(socket, limits)
            connection.advance(answer)
            guard !connection.hasEnded else { continue }
            if connections.count >= limits.connections { makeRoom() }
            connections.append(connection)
        }
    }

    /// Ends the oldest connection, or one whose answer is on its way already.
    private mutating func makeRoom() {
        let index = connections.firstIndex(where: \.hasSentAll) ?? 0
        connections.remove(at: index).end()
    }
}

private func systemAccept(_ listener: CInt) -> CInt { accept(listener, nil, nil) }

/// A connection of the browser: one request, one answer.
private final class CallbackConnection {
    private enum State {
        /// Next: `sending`, `ended`.
        case reading(RequestHead)
        /// Next: `sent`, `ended`.
        case sending(ArraySlice<UInt8>)
        /// The peer closes first: bytes of it that are not read would undo the answer (RFC 9112, 9.6). Next: `ended`.
        case sent
        case ended
    }

    private static let tooLong = Array(
        "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".utf8)
    private let socket: Descriptor
    private let patience: Duration
    private var state: State
    /// When the connection ends, whatever its state is.
    private(set) var deadline: ContinuousClock.Instant

    init(_ socket: Descriptor, _ limits: CallbackServer.Limits) {
        self.socket = socket
        patience = limits.patience
        state = .reading(RequestHead(limit: limits.head))
        deadline = .now + limits.patience
    }

    var number: CInt { socket.number }

    /// The events of poll(2) to wait for.
    var events: Int16 { if case .sending = state { Int16(POLLOUT) } else { Int16(POLLIN) } }

    var hasEnded: Bool { if case .ended = state { true } else { false } }

    var hasSentAll: Bool { if case .sent = state { true } else { false } }

    func end() {
        state = .ended
        socket.shutDown()
    }

    /// Does what the socket is ready for: one read, so that a peer which sends without an end does not keep the thread.
    func advance(_ answer: (_ head: [UInt8], _ peer: CallbackPeer) -> [UInt8]) {
        switch state {
        case .reading(var head):
            // One owner, so that the head grows in place.
            state = .ended
            guard let piece = read() else { return state = .reading(head) }
            guard !piece.isEmpty else { return end() }
            switch head.received(piece) {
            case .unfinished: state = .reading(head)
            case .whole: respond(answer(head.bytes, peer))
            case .tooLong: respond(Self.tooLong)
            }
        case .sending(let rest): send(rest)
        case .sent: if read()?.isEmpty == true { end() }
        case .ended: break
        }
    }

    /// The user at the other end, who must still be there.
    private var peer: CallbackPeer {
        guard let server = socket.address(getsockname), let client = socket.address(getpeername) else {
            return .unknown
        }
        return SocketOwners().peer(from: client, to: server)
    }

    /// The bytes that have arrived; `nil` if there are none yet, empty at the end and after a failure.
    private func read() -> ArraySlice<UInt8>? {
        var piece = [UInt8](repeating: 0, count: 4096)
        let count = recv(socket.number, &piece, piece.count, 0)
        if count < 0, errno == EAGAIN || errno == EINTR { return nil }
        return piece.prefix(max(0, count))
    }

    private func respond(_ bytes: [UInt8]) {
        deadline = .now + patience
        send(bytes[...])
    }

    private func send(_ bytes: ArraySlice<UInt8>) {
        var rest = bytes
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { socket.send($0) }
            if count > 0 {
                rest = rest.dropFirst(count)
            } else if errno == EAGAIN {
                return state = .sending(rest)
            } else if errno != EINTR {
                return end()
            }
        }
        state = .sent
        socket.shutDown(CInt(SHUT_WR))
    }
}
