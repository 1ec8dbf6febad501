import ChappieSimulator
import Dispatch
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The thread of a ``ScriptedWebSocketServer``: accepts, reads, and plays the steps.
final class ScriptedSocketLoop: Sendable {
    let port: Int
    let record = Mutex(ScriptedWebSocketServer.Record())
    private let listener: CInt
    private let opening: ScriptedWebSocketServer.Opening
    private let reply: ScriptedWebSocketServer.Reply
    /// A byte in it ends the loop.
    private let stopPipe: (read: CInt, write: CInt)
    private let isStopped = Mutex(false)
    private let hasEnded = DispatchSemaphore(value: 0)

    static func start(
        opening: @escaping ScriptedWebSocketServer.Opening, reply: @escaping ScriptedWebSocketServer.Reply
    ) throws(ContractViolation) -> ScriptedSocketLoop {
        guard let (listener, port) = LoopbackSocket.listen() else {
            throw ContractViolation("No socket to listen on: \(String(cString: strerror(errno))).")
        }
        var ends: [CInt] = [0, 0]
        guard pipe(&ends) == 0 else { throw ContractViolation("No pipe: \(String(cString: strerror(errno))).") }
        let loop = ScriptedSocketLoop(
            listener: listener, port: port, stopPipe: (ends[0], ends[1]), opening: opening, reply: reply)
        LoopbackSocket.startThread { loop.run() }
        return loop
    }

    private init(
        listener: CInt, port: Int, stopPipe: (CInt, CInt), opening: @escaping ScriptedWebSocketServer.Opening,
        reply: @escaping ScriptedWebSocketServer.Reply
    ) {
        self.listener = listener
        self.port = port
        self.stopPipe = stopPipe
        self.opening = opening
        self.reply = reply
    }

    func stop() {
        guard
            isStopped.withLock({ wasStopped in
                defer { wasStopped = true }
                return !wasStopped
            })
        else { return }
        var byte: UInt8 = 0
        _ = write(stopPipe.write, &byte, 1)
        hasEnded.wait()
        for descriptor in [stopPipe.read, stopPipe.write, listener] { close(descriptor) }
    }

    private func run() {
        var connections: [ScriptedSocketConnection] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            var polled = [
                pollfd(fd: stopPipe.read, events: Int16(POLLIN), revents: 0),
                pollfd(fd: listener, events: Int16(POLLIN), revents: 0),
            ]
            polled += connections.map { pollfd(fd: $0.descriptor, events: $0.events, revents: 0) }
            let moment = connections.compactMap(\.resumesAt).min()
            let wait = moment.map { max(0, ($0 - ContinuousClock.now) / .milliseconds(1)).rounded(.up) } ?? 60_000
            guard poll(&polled, nfds_t(polled.count), CInt(min(wait, 60_000))) >= 0 || errno == EINTR else { break }
            if polled[0].revents != 0 { break }
            for (index, connection) in connections.enumerated() {
                let events = polled[index + 2].revents
                if events & Int16(POLLIN | POLLHUP | POLLERR) != 0, connection.reads || events & Int16(POLLERR) != 0 {
                    receive(on: connection, &buffer)
                }
                play(connection)
            }
            if polled[1].revents != 0 { accept(&connections) }
            let count = connections.count
            connections.removeAll(where: \.isClosed)
            if connections.count != count {
                let open = connections.count
                record.withLock { $0.openConnectionCount = open }
            }
        }
        for connection in connections { connection.end(abruptly: false) }
        record.withLock { $0.openConnectionCount = 0 }
        hasEnded.signal()
    }

    private func accept(_ connections: inout [ScriptedSocketConnection]) {
        while true {
            let descriptor = LoopbackSocket.accept(listener)
            guard descriptor >= 0 else { return }
            let open = connections.count + 1
            let number = record.withLock { record in
                record.connectionCount += 1
                record.openConnectionCount = open
                return record.connectionCount - 1
            }
            connections.append(ScriptedSocketConnection(descriptor, number: number))
        }
    }

    private func receive(on connection: ScriptedSocketConnection, _ buffer: inout [UInt8]) {
        guard !connection.isClosed else { return }
        let count = recv(connection.descriptor, &buffer, buffer.count, CInt(MSG_DONTWAIT))
        if count <= 0 {
            if count == 0 || errno != EAGAIN && errno != EINTR { connection.end(abruptly: false) }
            return
        }
        record.withLock { $0.bytesRead += count }
        for event in connection.received(buffer[..<count]) {
            switch event {
            case .request(let request):
                record.withLock { $0.requests.append(request) }
                connection.steps += opening(request).steps
            case .message(let message, let number):
                record.withLock { $0.messages.append(message) }
                connection.steps += reply(message, number)
            case .ping(let payload):
                record.withLock { $0.pingCount += 1 }
                connection.steps.append(.send(WebSocketFrames.frame(10, payload)))
            case .pong: record.withLock { $0.pongCount += 1 }
            case .close(let code):
                record.withLock { $0.closeCodes.append(code) }
                connection.steps += [.send(WebSocketFrames.close(code)), .finish]
            }
        }
    }

    private func play(_ connection: ScriptedSocketConnection) {
        let written = connection.play()
        if written > 0 { record.withLock { $0.bytesWritten += written } }
    }
}
