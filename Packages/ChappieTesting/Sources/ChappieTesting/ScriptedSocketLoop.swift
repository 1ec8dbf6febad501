import ChappieCore
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
        DispatchQueue(label: "scripted sockets").async { loop.run() }
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

/// One connection of a ``ScriptedSocketLoop``; stays on its thread.
private final class ScriptedSocketConnection {
    enum Event {
        case request(ReceivedRequest)
        case message(WebSocketMessage, number: Int)
        case ping([UInt8])
        case pong
        case close(UInt16?)
    }

    let descriptor: CInt
    private let number: Int
    var steps: [ScriptedWebSocketServer.Step] = []
    private(set) var reads = true
    private(set) var isClosed = false
    private(set) var resumesAt: ContinuousClock.Instant?
    private var output: ArraySlice<UInt8> = []
    private var input: [UInt8] = []
    private var hasRequest = false
    private var hasStalled = false
    private var messageCount = 0

    init(_ descriptor: CInt, number: Int) {
        self.descriptor = descriptor
        self.number = number
    }

    var events: Int16 { Int16(reads ? POLLIN : 0) | Int16(output.isEmpty || resumesAt != nil ? 0 : POLLOUT) }

    func end(abruptly: Bool) {
        guard !isClosed else { return }
        isClosed = true
        LoopbackSocket.close(descriptor, abruptly: abruptly)
    }

    // MARK: Playing

    /// Does what can be done by now.
    ///
    /// - Returns: how many bytes went out.
    func play() -> Int {
        var written = 0
        while !isClosed {
            if let moment = resumesAt {
                guard moment <= .now else { break }
                resumesAt = nil
            }
            if !output.isEmpty {
                let count = output.withUnsafeBytes {
                    send(descriptor, $0.baseAddress, $0.count, CInt(MSG_DONTWAIT) | CInt(MSG_NOSIGNAL))
                }
                guard count > 0 else {
                    if count < 0, errno != EAGAIN, errno != EINTR { end(abruptly: false) }
                    break
                }
                written += count
                output.removeFirst(count)
                continue
            }
            guard !hasStalled, !steps.isEmpty else { break }
            begin(steps.removeFirst())
        }
        return written
    }

    private func begin(_ step: ScriptedWebSocketServer.Step) {
        switch step {
        case .raw(.send(let bytes)): output = bytes[...]
        case .raw(.wait(let duration)): resumesAt = .now + duration
        case .raw(.finish): end(abruptly: false)
        case .raw(.reset): end(abruptly: true)
        case .raw(.stall): hasStalled = true
        case .wait(until: let gate):
            guard !gate.isOpen else { return }
            // The loop has no other way to hear of it than to look again.
            resumesAt = .now + .milliseconds(5)
            steps.insert(step, at: 0)
        case .stopReading: reads = false
        case .startReading: reads = true
        case .drip(let bytes):
            steps = bytes.flatMap { [.send([$0]), .wait(.microseconds(50))] } + steps
        }
    }

    // MARK: Reading

    func received(_ bytes: ArraySlice<UInt8>) -> [Event] {
        input += bytes
        var events: [Event] = []
        if !hasRequest {
            guard let request = takeRequest() else { return [] }
            hasRequest = true
            events.append(.request(request))
        }
        var start = 0
        while let (event, end) = frame(at: start) {
            start = end
            if let event { events.append(event) }
        }
        input.removeFirst(start)
        return events
    }

    private func takeRequest() -> ReceivedRequest? {
        guard let end = input.firstRange(of: Array("\r\n\r\n".utf8)) else { return nil }
        let lines = String(decoding: input[..<end.lowerBound], as: UTF8.self).split(separator: "\r\n")
        input.removeFirst(end.upperBound)
        let words = (lines.first ?? "").split(separator: " ")
        let fields = lines.dropFirst().map { line in
            let halves = line.split(separator: ":", maxSplits: 1)
            return (name: String(halves[0]), value: String((halves.last ?? "").drop { $0 == " " }))
        }
        return ReceivedRequest(
            method: String(words.first ?? ""), target: String(words.dropFirst().first ?? ""), headerFields: fields,
            connection: number)
    }

    /// The frame that begins there, if it is whole, and where it ends.
    private func frame(at start: Int) -> (Event?, Int)? {
        guard input.count >= start + 2 else { return nil }
        let short = Int(input[start + 1] & 0x7F)
        let lengthBytes = short < 126 ? 0 : short == 126 ? 2 : 8
        let keyStart = start + 2 + lengthBytes
        guard input.count >= keyStart + 4 else { return nil }
        let length = lengthBytes == 0 ? short : input[(start + 2)..<keyStart].reduce(0) { $0 << 8 | Int($1) }
        let end = keyStart + 4 + length
        guard input.count >= end else { return nil }
        let key = Array(input[keyStart..<(keyStart + 4)])
        var payload = Array(input[(keyStart + 4)..<end])
        for index in payload.indices { payload[index] ^= key[index & 3] }
        return (event(input[start] & 0x0F, payload), end)
    }

    private func event(_ opcode: UInt8, _ payload: [UInt8]) -> Event? {
        switch opcode {
        case 1, 2:
            defer { messageCount += 1 }
            let message =
                opcode == 1 ? WebSocketMessage.text(String(decoding: payload, as: UTF8.self)) : .binary(payload)
            return .message(message, number: messageCount)
        case 8: return .close(payload.count < 2 ? nil : UInt16(payload[0]) << 8 | UInt16(payload[1]))
        case 9: return .ping(payload)
        case 10: return .pong
        default: return nil
        }
    }
}

/// Sockets on 127.0.0.1.
private enum LoopbackSocket {
    /// A listening socket on a free port; `nil` with errno.
    static func listen() -> (descriptor: CInt, port: Int)? {
        #if canImport(Glibc)
            let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_NONBLOCK.rawValue), 0)
        #else
            let descriptor = socket(AF_INET, SOCK_STREAM, 0)
            _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
        #endif
        guard descriptor >= 0 else { return nil }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isListening = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                bind(descriptor, pointer, size) == 0 && systemListen(descriptor)
                    && getsockname(descriptor, pointer, &size) == 0
            }
        }
        guard isListening else {
            systemClose(descriptor)
            return nil
        }
        return (descriptor, Int(UInt16(bigEndian: address.sin_port)))
    }

    /// The next connection, without Nagle's delay; negative when there is none.
    static func accept(_ listener: CInt) -> CInt {
        let descriptor = systemAccept(listener)
        if descriptor >= 0 {
            var on: CInt = 1
            setsockopt(descriptor, CInt(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<CInt>.size))
        }
        return descriptor
    }

    /// Closes with FIN, or abruptly with RST.
    static func close(_ descriptor: CInt, abruptly: Bool) {
        if abruptly {
            var linger = linger(l_onoff: 1, l_linger: 0)
            setsockopt(
                descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout.size(ofValue: linger)))
        } else {
            // Unread bytes would turn the end into a reset.
            shutdown(descriptor, CInt(SHUT_WR))
            var rest = [UInt8](repeating: 0, count: 65_536)
            while recv(descriptor, &rest, rest.count, CInt(MSG_DONTWAIT)) > 0 {}
        }
        systemClose(descriptor)
    }
}

// The C functions whose names the enum's own members hide.
private func systemListen(_ descriptor: CInt) -> Bool { listen(descriptor, 1024) == 0 }
private func systemAccept(_ descriptor: CInt) -> CInt { accept(descriptor, nil, nil) }
private func systemClose(_ descriptor: CInt) { close(descriptor) }
