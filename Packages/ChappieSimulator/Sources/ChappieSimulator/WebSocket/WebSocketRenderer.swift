import ChappieCore

/// Turns the answer to a message into what happens on the socket: frames, pauses, and a scenario's faults.
struct WebSocketRenderer {
    /// What is played for one message.
    struct Rendered {
        /// Up to and with the event that ends the response.
        var steps: [ScriptedAnswer.Step]
        /// What still follows, when the client may already ask again.
        var afterwards: [ScriptedAnswer.Step] = []
        /// Whether the last of it is a close frame.
        var closes = false
    }

    let answer: MessageAnswer
    /// Pieces of text for each second; `nil` for as fast as it goes.
    var deltasPerSecond: Double?
    /// `nil` when compression was not agreed.
    var deflater: MessageDeflater?

    private var faults: WireFaults { answer.faults }
    private var frames: FrameFaults { answer.frames }

    func render() -> Rendered {
        if faults.cut?.place == .beforeHead { return Rendered(steps: [parting]) }
        if faults.stall == .beforeHead { return Rendered(steps: [.stall]) }
        var kept = AnswerPieces.kept(answer.events, faults: faults)
        if let count = frames.close?.afterEvents { kept = kept.prefix(count) }
        let body = AnswerPieces(kept, rate: deltasPerSecond, write: self.bytes).spoiled(by: faults)
        var steps: [ScriptedAnswer.Step] = []
        for delay in [faults.delayBeforeHead, faults.delayBeforeBody] { if let delay { steps.append(.wait(delay)) } }
        for piece in body.pieces {
            if piece.pause > .zero { steps.append(.wait(piece.pause)) }
            steps.append(.send(piece.bytes))
        }
        guard body.isWhole else { return Rendered(steps: steps + [faults.stall == nil ? parting : .stall]) }
        guard !frames.after.isEmpty || frames.close != nil else { return Rendered(steps: steps) }
        var rest = frames.after.flatMap { message($0.serializedBytes(), isOdd: false) }
        if let close = frames.close { rest += ServerFrame.close(close.code, reason: close.reason).bytes }
        return Rendered(steps: steps, afterwards: [.send(rest)], closes: frames.close != nil)
    }

    // MARK: Frames

    private func bytes(of event: StreamedEvent, at index: Int) -> [UInt8] {
        guard index == frames.position else { return message(event.data, isOdd: false) }
        return frames.texts.flatMap { message(Array($0.utf8), isOdd: false) } + frames.bytes
            + message(event.data, isOdd: true)
    }

    /// - Parameter isOdd: whether this is the message that breaks the rules, if one is to.
    private func message(_ data: [UInt8], isOdd: Bool) -> [UInt8] {
        var payload = data
        // Inside the first string of the JSON, where nothing but the coding is wrong.
        if isOdd, frames.isInvalidUTF8 { payload.insert(0xFF, at: min(2, payload.count)) }
        var first = ServerFrame(opcode: Opcode.text, payload: [])
        if !frames.omitsCompression, let compressed = deflater?.compress(payload) {
            payload = compressed
            first.reservedBits = 4
        }
        if isOdd {
            first.opcode = frames.opcode ?? first.opcode
            first.reservedBits |= frames.reservedBits
            first.isMasked = frames.isMasked
        }
        guard let limit = frames.fragmentBytes, payload.count > limit else {
            first.payload = payload
            return first.bytes
        }
        return fragments(of: payload, first: first, limit: limit)
    }

    private func fragments(of payload: [UInt8], first: ServerFrame, limit: Int) -> [UInt8] {
        var output: [UInt8] = []
        for start in stride(from: 0, to: payload.count, by: limit) {
            var frame = start == 0 ? first : ServerFrame(opcode: Opcode.continuation, payload: [])
            frame.payload = Array(payload[start..<min(start + limit, payload.count)])
            frame.isFinal = start + limit >= payload.count
            output += frame.bytes
            if frames.pingsInside, !frame.isFinal { output += ServerFrame.ping(Array("inside".utf8)).bytes }
        }
        return output
    }

    private var parting: ScriptedAnswer.Step { faults.cut?.parting == .rst ? .reset : .finish }
}
