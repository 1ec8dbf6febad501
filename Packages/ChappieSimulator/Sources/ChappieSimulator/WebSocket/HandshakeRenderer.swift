/// Turns the answer to a handshake into what happens on the socket.
struct HandshakeRenderer {
    var faults = WireFaults()
    var handshake = HandshakeFaults()

    /// - Parameter extensions: what was agreed; `nil` for nothing.
    func render(_ response: BackendResponse, extensions: String?) -> ScriptedAnswer {
        if faults.cut?.place == .beforeHead { return ScriptedAnswer(steps: [parting]) }
        if faults.stall == .beforeHead { return ScriptedAnswer(steps: [.stall]) }
        let head = self.head(of: response, extensions: extensions)
        var steps: [ScriptedAnswer.Step] = []
        if let delay = faults.delayBeforeHead { steps.append(.wait(delay)) }
        let place = faults.stall ?? faults.cut?.place
        // A handshake has no events to count.
        let kept = if case .bytes(let count) = place { Array(head.prefix(count)) } else { head }
        if let drip = faults.drip {
            for start in stride(from: 0, to: kept.count, by: drip.bytes) {
                steps += [.wait(drip.pause), .send(Array(kept[start..<min(start + drip.bytes, kept.count)]))]
            }
        } else {
            steps.append(.send(kept))
        }
        if place != nil { steps.append(faults.stall == nil ? parting : .stall) }
        return ScriptedAnswer(steps: steps)
    }

    private func head(of response: BackendResponse, extensions: String?) -> [UInt8] {
        var response = response
        switch handshake.accept {
        case .right: break
        case .wrong: response.setHeader("sec-websocket-accept", Base64.encode(Array(repeating: 0x2A, count: 20)))
        case .absent: response.headers.removeAll { $0.0 == "sec-websocket-accept" }
        }
        if let extensions = handshake.extensions ?? extensions {
            response.setHeader("sec-websocket-extensions", extensions)
        }
        if let subprotocol = handshake.subprotocol { response.setHeader("sec-websocket-protocol", subprotocol) }
        return ScriptedAnswer.head(status: response.status, headers: response.headers)
    }

    private var parting: ScriptedAnswer.Step { faults.cut?.parting == .rst ? .reset : .finish }
}
