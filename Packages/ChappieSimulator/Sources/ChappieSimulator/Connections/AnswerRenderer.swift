@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials

/// The bytes of an answer in the pieces they are written in, and the faults that HTTP and WebSocket have in common.
struct AnswerPieces {
    /// Bytes that are written together, after a pause.
    struct Piece {
        var pause = Duration.zero
        var bytes: [UInt8]
    }

    /// Above this many pieces of text a second several share a pause: timers are not finer than that.
    private static let ticksPerSecond = 100.0

    private(set) var pieces: [Piece]
    /// The length all of it has, also when it is not all here.
    let length: Int
    /// Whether all of it is here.
    private(set) var isWhole = true

    /// After cutting and dripping.
    init(_ pieces: [Piece], effect: ScenarioEffect) {
        self.pieces = pieces
        length = pieces.reduce(0) { $0 + $1.bytes.count }
        if let place = effect.breakingPoint {
            isWhole = place.isBeforeHead
            if let limit = place.afterBytes { cut(to: limit) }
        }
        if let drip = effect.drip { self.drip(drip.bytes ?? 1, pause: drip.pause ?? .zero) }
    }

    /// The events that a cut or a stall leaves.
    ///
    /// - Parameters:
    ///   - rate: pieces of text for each second; `nil` for as fast as it goes.
    ///   - writeSize: bytes gathered into one piece where no pause holds them apart; 0 for each event on its own.
    ///   - write: the bytes of the event with this index.
    init(
        _ events: [StreamedEvent], rate: Double?, effect: ScenarioEffect, writeSize: Int,
        write: (StreamedEvent, Int) -> [UInt8]
    ) {
        let perTick = max(1, Int(((rate ?? 0) / Self.ticksPerSecond).rounded(.up)))
        let pause = rate.map { Duration.seconds(Double(perTick) / $0) } ?? .zero
        var paced = 0
        var pieces: [Piece] = []
        for (index, event) in Self.kept(events, upTo: effect.breakingPoint).enumerated() {
            let waits = event.isPaced && paced % perTick == 0
            if event.isPaced { paced += 1 }
            if pause == .zero || !waits, let last = pieces.indices.last, pieces[last].bytes.count < writeSize {
                pieces[last].bytes.append(contentsOf: write(event, index))
            } else {
                pieces.append(Piece(pause: waits ? pause : .zero, bytes: write(event, index)))
            }
        }
        self.init(pieces, effect: effect)
    }

    private static func kept(_ events: [StreamedEvent], upTo place: ScenarioEffect.Place?) -> ArraySlice<StreamedEvent>
    {
        if let count = place?.afterEvents { return events.prefix(count) }
        guard let count = place?.afterDeltas else { return events[...] }
        let deltas = events.indices.filter { events[$0].name == "response.output_text.delta" }
        return count < deltas.count ? events[..<deltas[count]] : events[...]
    }

    private mutating func cut(to limit: Int) {
        var left = limit
        pieces = pieces.compactMap { piece in
            guard left > 0 else { return nil }
            defer { left -= min(left, piece.bytes.count) }
            return Piece(pause: piece.pause, bytes: Array(piece.bytes.prefix(left)))
        }
    }

    private mutating func drip(_ count: Int, pause: Duration) {
        pieces = pieces.flatMap { piece in
            stride(from: 0, to: piece.bytes.count, by: count).map { start in
                Piece(
                    pause: (start == 0 ? piece.pause : .zero) + pause,
                    bytes: Array(piece.bytes[start..<min(start + count, piece.bytes.count)]))
            }
        }
    }
}

/// Turns a response of HTTP into what happens on the socket: pieces, pauses, framing, and a scenario's faults.
struct AnswerRenderer {
    /// Bytes gathered into one write when nothing holds them apart.
    private static let writeSize = 64 * 1024

    /// Pieces of text for each second; `nil` for as fast as it goes.
    var deltasPerSecond: Double?
    var effect = ScenarioEffect()

    func render(_ response: BackendResponse) -> ScriptedAnswer {
        if effect.isSilent { return ScriptedAnswer(steps: [effect.breakStep]) }
        let (body, usual) = pieces(of: response.body)
        let framing = response.isBodyless ? .length : effect.framing ?? usual
        var steps: [ScriptedAnswer.Step] = []
        var pending = head(of: response, framing: framing, length: body.length)
        func flush(thenWait pause: Duration? = nil) {
            if !pending.isEmpty { steps.append(.send(pending)) }
            pending = []
            if let pause { steps.append(.wait(pause)) }
        }
        if let delay = effect.delayBeforeHead { steps.append(.wait(delay)) }
        if let delay = effect.delayBeforeBody { flush(thenWait: delay) }
        for piece in body.pieces {
            if piece.pause > .zero { flush(thenWait: piece.pause) }
            append(piece.bytes, framing: framing, to: &pending)
            if effect.drip != nil || pending.count >= Self.writeSize { flush() }
        }
        if body.isWhole, framing == .chunked { pending += Array("0\r\n\r\n".utf8) }
        flush()
        if !body.isWhole {
            steps.append(effect.breakStep)
        } else if framing == .close {
            steps.append(.finish)
        }
        return ScriptedAnswer(steps: steps)
    }

    /// The answer to a handshake.
    ///
    /// - Parameter extensions: what was agreed; `nil` for nothing.
    func renderHandshake(_ response: BackendResponse, extensions: String?) -> ScriptedAnswer {
        if effect.isSilent { return ScriptedAnswer(steps: [effect.breakStep]) }
        var response = response
        switch effect.handshake?.accept {
        case .right, nil: break
        case .wrong: response.setHeader("sec-websocket-accept", Data(repeating: 0x2A, count: 20).base64EncodedString())
        case .absent: response.headers.removeAll { $0.0 == "sec-websocket-accept" }
        }
        if let value = effect.handshake?.extensions?.text ?? extensions {
            response.setHeader("sec-websocket-extensions", value)
        }
        if let value = effect.handshake?.subprotocol?.text { response.setHeader("sec-websocket-protocol", value) }
        let head = ScriptedAnswer.head(status: response.status, headers: response.headers)
        let pieces = AnswerPieces([.init(bytes: head)], effect: effect).pieces
        return ScriptedAnswer(
            steps: (effect.delayBeforeHead.map { [.wait($0)] } ?? [])
                + pieces.flatMap { [.wait($0.pause), .send($0.bytes)].filter { $0 != .wait(.zero) } }
                + (effect.breakingPoint == nil ? [] : [effect.breakStep]))
    }

    /// The body, and how it is framed unless the scenario wants it otherwise.
    private func pieces(of body: BackendResponse.Body) -> (AnswerPieces, ScenarioEffect.Framing) {
        switch body {
        case .bytes(let bytes): return (AnswerPieces([.init(bytes: bytes)], effect: effect), .length)
        case .events(let events):
            let edits = effect.events ?? EventEdits()
            let pieces = AnswerPieces(
                events, rate: deltasPerSecond, effect: effect, writeSize: Self.writeSize
            ) { event, index in
                edits.write(event, isFirst: index == 0, isLast: index == events.count - 1)
            }
            return (pieces, .chunked)
        }
    }

    private func append(_ bytes: [UInt8], framing: ScenarioEffect.Framing, to output: inout [UInt8]) {
        guard framing == .chunked else { return output.append(contentsOf: bytes) }
        guard !bytes.isEmpty else { return }
        output.append(contentsOf: "\(String(bytes.count, radix: 16))\r\n".utf8)
        output.append(contentsOf: bytes)
        output.append(contentsOf: [0x0D, 0x0A])
    }

    private func head(of response: BackendResponse, framing: ScenarioEffect.Framing, length: Int) -> [UInt8] {
        var headers = response.headers
        switch framing {
        case .chunked: headers.append(("transfer-encoding", "chunked"))
        case .length where response.isBodyless: break
        case .length: headers.append(("content-length", String(length)))
        case .close: headers.append(("connection", "close"))
        }
        return ScriptedAnswer.head(status: response.status, headers: headers)
    }
}

/// Turns the answer to a message into what happens on the socket: frames, pauses, and a scenario's faults.
///
/// Each message is written on its own, as the service writes it: clients are to cope with that many packets.
struct MessageRenderer {
    /// The steps that answer one message.
    struct Rendered {
        /// Up to and with the event that ends the response.
        var steps: [ScriptedAnswer.Step]
        /// The steps that still follow when the client may already ask again.
        var afterwards: [ScriptedAnswer.Step] = []
        /// Whether the last of it is a close frame.
        var closes = false
    }

    let answer: MessageAnswer
    /// Pieces of text for each second; `nil` for as fast as it goes.
    var deltasPerSecond: Double?
    /// Makes frames and their bytes.
    let bytes: (WebSocketOutput) -> [UInt8]

    func render() -> Rendered {
        let effect = answer.effect
        if effect.isSilent { return Rendered(steps: [effect.breakStep]) }
        let events = Array(answer.events.prefix(answer.close?.afterEvents ?? .max))
        let body = AnswerPieces(events, rate: deltasPerSecond, effect: effect, writeSize: 0, write: self.bytes(of:at:))
        var steps = [effect.delayBeforeHead, effect.delayBeforeBody].compactMap { $0.map(ScriptedAnswer.Step.wait) }
        for piece in body.pieces {
            if piece.pause > .zero { steps.append(.wait(piece.pause)) }
            steps.append(.send(piece.bytes))
        }
        guard body.isWhole else { return Rendered(steps: steps + [effect.breakStep]) }
        var rest = (effect.frames?.after ?? []).flatMap { message($0.serializedBytes()) }
        if let close = answer.close { rest += bytes(.close(close.code?.number, reason: close.reason ?? "")) }
        return Rendered(steps: steps, afterwards: [.send(rest)], closes: answer.close != nil)
    }

    private func bytes(of event: StreamedEvent, at index: Int) -> [UInt8] {
        guard let frames = answer.effect.frames, index == frames.at ?? 2 else { return message(event.data) }
        return (frames.texts ?? []).flatMap { message(Array($0.utf8)) } + (frames.bytes?.bytes ?? [])
            + message(event.data, isOdd: true)
    }

    private func message(_ data: [UInt8], isOdd: Bool = false) -> [UInt8] {
        bytes(.message(data, faults: answer.effect.frames, isOdd: isOdd))
    }
}
