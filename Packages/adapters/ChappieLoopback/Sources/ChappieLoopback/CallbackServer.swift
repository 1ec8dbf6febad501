import ChappieAuth
@_spi(ChappieInternals) import ChappieFiles
import SystemPackage

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A server that runs on the listener's thread. It accepts connections, reads a head from each and sends the answer.
struct CallbackServer {
    struct Limits: Sendable {
        var connections = 16
        /// The maximum size of a head, in bytes.
        var head = 16 << 10
        /// The limit for the arrival of a head, and for sending the answer.
        var patience = Duration.seconds(10)
    }

    private let listener: Descriptor
    private let end: Descriptor
    private let limits: Limits
    private let answer: (_ head: [UInt8], _ peer: CallbackPeer) -> [UInt8]
    /// The connections, in the order of their arrival.
    private var connections: [CallbackConnection] = []
    /// The time until which no connection is accepted because the process had no descriptor left, or `nil`.
    private var restUntil: ContinuousClock.Instant?

    /// Creates a server.
    ///
    /// - Parameters:
    ///   - listener: A listening socket.
    ///   - end: A socket. The server ends once its peer has shut it down.
    init(
        at listener: Descriptor, until end: Descriptor, limits: Limits,
        _ answer: @escaping (_ head: [UInt8], _ peer: CallbackPeer) -> [UInt8]
    ) {
        self.listener = listener
        self.end = end
        self.limits = limits
        self.answer = answer
    }

    /// Runs the server until its end. All connections are then closed.
    mutating func run() {
        defer { for connection in connections { connection.end() } }
        while true {
            let now = ContinuousClock.now
            if let rest = restUntil, rest <= now { restUntil = nil }
            var polled = [
                pollfd(fd: end.number, events: Int16(POLLIN), revents: 0),
                // poll(2) ignores a negative number.
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

    /// Returns the time to wait, in milliseconds, for poll(2). It is rounded up, so that the deadline has passed when
    /// poll(2) returns.
    private func timeout(from now: ContinuousClock.Instant) -> CInt {
        guard let next = (connections.map(\.deadline) + [restUntil].compactMap(\.self)).min() else { return -1 }
        return CInt(clamping: max(0, Int((next - now) / .milliseconds(1)) + 1))
    }

    private mutating func dropFinished() {
        let now = ContinuousClock.now
        for connection in connections where connection.deadline <= now { connection.end() }
        connections.removeAll(where: \.hasEnded)
    }

    /// Accepts the waiting connections. Each is read at once, so that no later connection can replace it if its request
    /// has already arrived.
    private mutating func accept() {
        for _ in 0..<limits.connections {
            let socket: Descriptor
            do {
                socket = try listener.accepted()
            } catch .interrupted, .connectionAbort {
                continue
            } catch {
                // The listener stays ready. Without a pause, the thread would loop without sleeping.
                if error != .resourceTemporarilyUnavailable { restUntil = .now + .milliseconds(100) }
                return
            }
            let connection = CallbackConnection(socket, limits)
            connection.advance(answer)
            guard !connection.hasEnded else { continue }
            if connections.count >= limits.connections { makeRoom() }
            connections.append(connection)
        }
    }

    /// Ends a connection whose answer has already been sent, or otherwise the oldest connection.
    private mutating func makeRoom() {
        let index = connections.firstIndex(where: \.hasSentAll) ?? 0
        connections.remove(at: index).end()
    }
}

/// A connection from the browser, with one request and one answer.
private final class CallbackConnection {
    private enum State {
        /// The head is being read. The next state is `sending` or `ended`.
        case reading(RequestHead)
        /// The answer is being sent. The next state is `sent` or `ended`.
        case sending(ArraySlice<UInt8>)
        /// The answer has been sent. The peer closes the connection before the server does, because unread bytes from
        /// the peer would undo the answer (RFC 9112, 9.6). The next state is `ended`.
        case sent
        case ended
    }

    private static let tooLong = Array(
        "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".utf8)
    private let socket: Descriptor
    private let patience: Duration
    private var state: State
    /// The time when the connection ends, whatever its state.
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

    /// Does the work that the socket is ready for. Reads only once, so that a peer that sends endlessly does not occupy
    /// the thread.
    func advance(_ answer: (_ head: [UInt8], _ peer: CallbackPeer) -> [UInt8]) {
        switch state {
        case .reading(var head):
            // The head has only one owner, so that it grows in place.
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

    /// The user at the other end of the connection, which must still be open.
    private var peer: CallbackPeer {
        guard let server = try? socket.address(getsockname), let client = try? socket.address(getpeername) else {
            return .unknown
        }
        return SocketOwners().peer(from: client, to: server)
    }

    /// Reads the bytes that have arrived. Returns `nil` if there are none yet, and an empty array at the end and after
    /// a failure.
    private func read() -> [UInt8]? {
        do {
            return try socket.readArrived(atMost: 4096)
        } catch {
            return []
        }
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
