/// Turns a response into what happens on the socket: pieces, pauses, framing, and a scenario's faults.
struct AnswerRenderer {
    /// Pieces of text for each second; `nil` for as fast as it goes.
    var deltasPerSecond: Double?
    var faults = WireFaults()
    var format = EventFormat()

    func render(_ response: BackendResponse) -> ScriptedAnswer {
        if faults.cut?.place == .beforeHead { return ScriptedAnswer(steps: [parting(.fin)]) }
        if faults.stall == .beforeHead { return ScriptedAnswer(steps: [.stall]) }
        let body = pieces(of: response.body).spoiled(by: faults)
        let framing = bodyless(response) ? .length : faults.framing ?? response.body.framing
        var steps: [ScriptedAnswer.Step] = []
        if let delay = faults.delayBeforeHead { steps.append(.wait(delay)) }
        var pending = head(of: response, framing: framing, length: body.length)
        if let delay = faults.delayBeforeBody {
            steps += [.send(pending), .wait(delay)]
            pending = []
        }
        for piece in body.pieces {
            if piece.pause > .zero {
                steps += [.send(pending), .wait(piece.pause)]
                pending = []
            }
            append(piece.bytes, framing: framing, to: &pending)
            if faults.drip != nil || pending.count >= AnswerPieces.writeSize {
                steps.append(.send(pending))
                pending = []
            }
        }
        if body.isWhole, framing == .chunked { pending += Array("0\r\n\r\n".utf8) }
        steps.append(.send(pending))
        if !body.isWhole {
            steps.append(faults.stall == nil ? parting(.fin) : .stall)
        } else if framing == .close {
            steps.append(.finish)
        }
        return ScriptedAnswer(steps: steps.filter { $0 != .send([]) })
    }

    // MARK: Body

    private func pieces(of body: BackendResponse.Body) -> AnswerPieces {
        switch body {
        case .bytes(let bytes): AnswerPieces(bytes)
        case .events(let events):
            AnswerPieces(AnswerPieces.kept(events, faults: faults), rate: deltasPerSecond) { event, index in
                format.write(event, isFirst: index == 0, isLast: index == events.count - 1)
            }
        }
    }

    private func append(_ bytes: [UInt8], framing: WireFaults.Framing, to output: inout [UInt8]) {
        guard framing == .chunked else { return output.append(contentsOf: bytes) }
        guard !bytes.isEmpty else { return }
        output.append(contentsOf: String(bytes.count, radix: 16).utf8)
        output.append(contentsOf: [0x0D, 0x0A])
        output.append(contentsOf: bytes)
        output.append(contentsOf: [0x0D, 0x0A])
    }

    // MARK: Head and end

    private func head(of response: BackendResponse, framing: WireFaults.Framing, length: Int) -> [UInt8] {
        var headers = response.headers
        switch framing {
        case .chunked: headers.append(("transfer-encoding", "chunked"))
        case .length where bodyless(response): break
        case .length: headers.append(("content-length", String(length)))
        case .close: headers.append(("connection", "close"))
        }
        return ScriptedAnswer.head(status: response.status, headers: headers)
    }

    /// Statuses that never have a body (RFC 9112, 6.3).
    private func bodyless(_ response: BackendResponse) -> Bool { response.status == 204 || response.status == 304 }

    private func parting(_ parting: WireFaults.Parting) -> ScriptedAnswer.Step {
        (faults.cut?.parting ?? parting) == .rst ? .reset : .finish
    }
}

extension BackendResponse.Body {
    fileprivate var framing: WireFaults.Framing { if case .events = self { .chunked } else { .length } }
}
