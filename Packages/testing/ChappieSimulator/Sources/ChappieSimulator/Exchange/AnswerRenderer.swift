import ChappieCore
import HTTPTypes

/// A renderer that turns answers into the steps on a socket: pieces, pauses, framing, and a scenario's faults.
struct AnswerRenderer {
    typealias Step = ScriptedAnswer.Step

    /// Bytes that are written together, after a pause.
    private struct Piece {
        var pause = Duration.zero
        var bytes: [UInt8]
    }

    /// The number of pieces of text per second above which several pieces share a pause, because timers are not finer.
    private static let ticksPerSecond = 100.0

    /// The pieces of text per second, or `nil` for no pauses.
    var deltasPerSecond: Double?
    var effect = ScenarioEffect()

    /// Returns the steps of an HTTP answer.
    func render(_ response: BackendResponse) -> ScriptedAnswer {
        if effect.isSilent { return ScriptedAnswer(steps: [effect.breakStep]) }
        let (pieces, usual) = pieces(of: response.body)
        let framing = response.isBodyless ? .length : effect.framing ?? usual
        var headers = response.headers
        switch framing {
        case .chunked: headers.append(("transfer-encoding", "chunked"))
        case .length where response.isBodyless: break
        case .length: headers.append(("content-length", String(pieces.reduce(0) { $0 + $1.bytes.count })))
        case .close: headers.append(("connection", "close"))
        }
        var steps = wait(effect.delayBeforeHead?.seconds)
        steps.append(.send(ScriptedAnswer.head(status: response.status, headers: headers)))
        steps += wait(effect.delayBeforeBody?.seconds)
        for piece in cut(pieces) where !piece.bytes.isEmpty {
            let size = Array("\(String(piece.bytes.count, radix: 16))\r\n".utf8)
            let bytes = framing == .chunked ? size + piece.bytes + [0x0D, 0x0A] : piece.bytes
            steps += self.steps(of: Piece(pause: piece.pause, bytes: bytes))
        }
        if effect.breakingPoint != nil {
            steps.append(effect.breakStep)
        } else if framing == .chunked {
            steps.append(.send(Array("0\r\n\r\n".utf8)))
        } else if framing == .close {
            steps.append(.finish)
        }
        return ScriptedAnswer(steps: steps)
    }

    /// Returns the steps of the answer to a handshake.
    func renderHandshake(_ response: BackendResponse) -> ScriptedAnswer {
        if effect.isSilent { return ScriptedAnswer(steps: [effect.breakStep]) }
        let head = ScriptedAnswer.head(status: response.status, headers: response.headers)
        let broken = effect.breakingPoint == nil ? [] : [effect.breakStep]
        let steps = cut([Piece(bytes: head)]).flatMap(steps(of:))
        return ScriptedAnswer(steps: wait(effect.delayBeforeHead?.seconds) + steps + broken)
    }

    /// Returns the answer to a WebSocket message, event by event.
    ///
    /// Each event is written separately, as the service does, because clients must handle that many packets.
    ///
    /// - Parameter bytes: returns the frames of the event with this index.
    func render(_ events: [StreamedEvent], bytes: (StreamedEvent, Int) -> [UInt8]) -> [ScriptedAnswer] {
        if effect.isSilent { return [ScriptedAnswer(steps: [effect.breakStep])] }
        var parts = [wait(effect.delayBeforeHead?.seconds) + wait(effect.delayBeforeBody?.seconds)]
        parts += cut(pieces(of: events, apart: true, write: bytes)).map(steps(of:))
        if effect.breakingPoint != nil {
            // A break within a message leaves it partly sent.
            let isInside = effect.breakingPoint?.afterBytes != nil
            if isInside { parts[parts.count - 1].append(effect.breakStep) } else { parts.append([effect.breakStep]) }
        }
        return parts.map(ScriptedAnswer.init(steps:))
    }

    // MARK: In memory

    /// Returns an HTTP answer with its pauses and its break, without framing.
    func inMemory(_ response: BackendResponse) -> ScriptedHTTPAnswer {
        let broken: [ScriptedHTTPAnswer.Step] = effect.breakingPoint == nil ? [] : [.cut]
        if effect.isSilent { return ScriptedHTTPAnswer(beforeHead: broken) }
        let body: [ScriptedHTTPAnswer.Step] = cut(pieces(of: response.body).0).flatMap { piece in
            [.pause(piece.pause), .chunk(piece.bytes)]
        }
        return ScriptedHTTPAnswer(
            beforeHead: [.pause((effect.delayBeforeHead ?? 0).seconds)],
            status: HTTPResponse.Status(code: response.status), headerFields: HTTPFields(response.headers),
            body: [.pause((effect.delayBeforeBody ?? 0).seconds)] + body + broken)
    }

    /// Returns the answer to a WebSocket message. A cut leaves only complete messages.
    func inMemory(_ events: [StreamedEvent]) -> [ScriptedWebSocketStep] {
        let broken: [ScriptedWebSocketStep] = effect.breakingPoint == nil ? [] : [.cut]
        if effect.isSilent { return broken }
        var left = effect.breakingPoint?.afterBytes.map(Int.init) ?? .max
        let whole = pieces(of: events, apart: true) { event, _ in event.data }.prefix { piece in
            left -= piece.bytes.count
            return left >= 0
        }
        let messages: [ScriptedWebSocketStep] = whole.flatMap { piece in
            [.pause(piece.pause), .deliver([String(decoding: piece.bytes, as: UTF8.self)])]
        }
        let delay = (effect.delayBeforeHead ?? 0).seconds + (effect.delayBeforeBody ?? 0).seconds
        return [.pause(delay)] + messages + broken
    }

    // MARK: Pieces

    /// Returns the pieces of the body, and its framing unless the scenario specifies another.
    private func pieces(of body: BackendResponse.Body) -> ([Piece], ScenarioEffect.Framing) {
        switch body {
        case .bytes(let bytes): return ([Piece(bytes: bytes)], .length)
        case .events(let events):
            let edits = effect.events ?? EventEdits()
            let pieces = pieces(of: events, apart: false) { event, index in
                edits.write(event, isFirst: index == 0, isLast: index == events.count - 1)
            }
            return (pieces, .chunked)
        }
    }

    /// Returns the pieces of the events that a cut or a stall leaves.
    ///
    /// - Parameter apart: whether each event is a separate piece even if no pause precedes it.
    private func pieces(
        of events: [StreamedEvent], apart: Bool, write: (StreamedEvent, Int) -> [UInt8]
    ) -> [Piece] {
        let rate = deltasPerSecond ?? 0
        let perTick = max(1, Int((rate / Self.ticksPerSecond).rounded(.up)))
        var paced = 0
        var pieces: [Piece] = []
        for (index, event) in kept(events).enumerated() {
            let waits = event.isPaced && rate > 0 && paced % perTick == 0
            if event.isPaced { paced += 1 }
            if apart || waits || pieces.isEmpty {
                pieces.append(
                    Piece(pause: waits ? .seconds(Double(perTick) / rate) : .zero, bytes: write(event, index)))
            } else {
                pieces[pieces.count - 1].bytes += write(event, index)
            }
        }
        return pieces
    }

    private func kept(_ events: [StreamedEvent]) -> ArraySlice<StreamedEvent> {
        if let count = effect.breakingPoint?.afterEvents { return events.prefix(Int(count)) }
        guard let count = effect.breakingPoint?.afterDeltas.map(Int.init) else { return events[...] }
        let deltas = events.indices.filter { events[$0].name == "response.output_text.delta" }
        return count < deltas.count ? events[..<deltas[count]] : events[...]
    }

    /// Returns the pieces that remain within the scenario's limit of bytes.
    private func cut(_ pieces: [Piece]) -> [Piece] {
        guard let limit = effect.breakingPoint?.afterBytes else { return pieces }
        var left = Int(limit)
        return pieces.compactMap { piece in
            defer { left -= min(left, piece.bytes.count) }
            return left > 0 ? Piece(pause: piece.pause, bytes: Array(piece.bytes.prefix(left))) : nil
        }
    }

    // MARK: Steps

    private func wait(_ pause: Duration?) -> [Step] { pause.map { $0 > .zero ? [.wait($0)] : [] } ?? [] }

    /// Returns the steps of a piece, in drips if the scenario specifies them.
    private func steps(of piece: Piece) -> [Step] {
        guard let drip = effect.drip else { return wait(piece.pause) + [.send(piece.bytes)] }
        let size = max(1, Int(drip.bytes ?? 1))
        return wait(piece.pause)
            + stride(from: 0, to: piece.bytes.count, by: size).flatMap { start in
                wait(drip.pause?.seconds) + [.send(Array(piece.bytes[start..<min(start + size, piece.bytes.count)]))]
            }
    }
}

extension HTTPFields {
    /// Creates fields from `headers`, without those whose names HTTP forbids.
    fileprivate init(_ headers: [(String, String)]) {
        self.init()
        for (name, value) in headers {
            if let name = HTTPField.Name(name) { append(HTTPField(name: name, value: value)) }
        }
    }
}
