/// The bytes of an answer in the pieces they are written in, and the faults that both carriers have in common.
struct AnswerPieces {
    /// Bytes that are written together, after a pause.
    struct Piece {
        var pause: Duration
        var bytes: [UInt8]
    }

    /// Bytes gathered into one write when nothing holds them apart.
    static let writeSize = 64 * 1024
    /// Above this many pieces of text a second several share a write: timers are not finer than that.
    private static let ticksPerSecond = 100.0

    private(set) var pieces: [Piece]
    /// The length all of it has, also when it is not all here.
    private(set) var length: Int
    /// Whether all of it is here.
    private(set) var isWhole = true

    init(_ bytes: [UInt8]) {
        pieces = [Piece(pause: .zero, bytes: bytes)]
        length = bytes.count
    }

    /// - Parameters:
    ///   - rate: pieces of text for each second; `nil` for as fast as it goes.
    ///   - write: the bytes of the event with this index.
    init(_ events: some Collection<StreamedEvent>, rate: Double?, write: (StreamedEvent, Int) -> [UInt8]) {
        let perTick = max(1, Int(((rate ?? 0) / Self.ticksPerSecond).rounded(.up)))
        let pause = rate.map { Duration.seconds(Double(perTick) / $0) } ?? .zero
        pieces = []
        length = 0
        var paced = 0
        for (index, event) in events.enumerated() {
            let bytes = write(event, index)
            let waits = event.isPaced && rate != nil && paced % perTick == 0
            if event.isPaced { paced += 1 }
            length += bytes.count
            if !waits, let last = pieces.indices.last, pieces[last].bytes.count < Self.writeSize {
                pieces[last].bytes.append(contentsOf: bytes)
            } else {
                pieces.append(Piece(pause: waits ? pause : .zero, bytes: bytes))
            }
        }
    }

    /// The events that a cut or a stall leaves.
    static func kept(_ events: [StreamedEvent], faults: WireFaults) -> ArraySlice<StreamedEvent> {
        switch faults.stall ?? faults.cut?.place {
        case .events(let count): return events.prefix(count)
        case .deltas(let count):
            var seen = 0
            for (index, event) in events.enumerated() where event.name == "response.output_text.delta" {
                seen += 1
                if seen > count { return events[..<index] }
            }
            return events[...]
        default: return events[...]
        }
    }

    /// After cutting and dripping.
    func spoiled(by faults: WireFaults) -> AnswerPieces {
        var spoiled = self
        switch faults.stall ?? faults.cut?.place {
        case .events, .deltas: spoiled.isWhole = false
        case .bytes(let limit):
            spoiled.isWhole = false
            spoiled.cut(to: limit)
        case .beforeHead, .none: break
        }
        if let drip = faults.drip { spoiled.drip(drip) }
        return spoiled
    }

    private mutating func cut(to limit: Int) {
        var left = limit
        pieces = pieces.compactMap { piece in
            guard left > 0 else { return nil }
            let bytes = Array(piece.bytes.prefix(left))
            left -= bytes.count
            return Piece(pause: piece.pause, bytes: bytes)
        }
    }

    private mutating func drip(_ drip: WireFaults.Drip) {
        pieces = pieces.flatMap { piece in
            stride(from: 0, to: piece.bytes.count, by: drip.bytes).map { start in
                Piece(
                    pause: (start == 0 ? piece.pause : .zero) + drip.pause,
                    bytes: Array(piece.bytes[start..<min(start + drip.bytes, piece.bytes.count)]))
            }
        }
    }
}
