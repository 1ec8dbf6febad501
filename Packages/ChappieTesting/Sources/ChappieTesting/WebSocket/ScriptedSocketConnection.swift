import ChappieCore
import ChappieSimulator

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// One connection of a ``ScriptedSocketLoop``; stays on its thread.
final class ScriptedSocketConnection {
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
