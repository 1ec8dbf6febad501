public import ChappieCore
@_spi(ChappieInternals) import ChappieCurl
import HTTPTypes

/// A door for fuzzers to what is otherwise internal.
@_spi(Fuzzing)
public enum WebSocketFuzzing {
    /// The outcome of some bytes; the same for every chunking.
    public struct Outcome: Sendable, Hashable {
        /// The messages that were decoded.
        public var messages: [WebSocketMessage] = []
        public var bytes: [UInt8] = []
        /// How the input ended.
        public var ending = ""
    }

    /// Small enough for a fuzzer to reach, and large enough for more than one buffer of decompressed bytes.
    public static let limits = WebSocketLimits(maximumFrameBytes: 2048, maximumMessageBytes: 40_000)

    /// Reads the chunks as what a server sends over an open connection.
    ///
    /// - Parameter settings: which compression was negotiated, from its bits.
    public static func readFrames(_ chunks: [[UInt8]], settings: UInt8) -> Outcome {
        var outcome = Outcome()
        var codec = WebSocketCodec(limits: limits, compression: compression(settings))
        if settings & 0x80 != 0 { outcome.bytes += codec.close(.normal, nextMaskingKey: { 0 }) }
        for chunk in chunks {
            let actions = chunk.withUnsafeBytes { codec.receivedBytes($0, nextMaskingKey: { 0x0102_0304 }) }
            take(actions, into: &outcome)
        }
        take(codec.connectionClosed(), into: &outcome)
        return outcome
    }

    private static func take(_ actions: [WebSocketCodec.Action], into outcome: inout Outcome) {
        for action in actions {
            precondition(outcome.ending.isEmpty, "something happens after the end")
            switch action {
            case .send(let bytes): outcome.bytes += bytes
            case .deliver(let messages):
                precondition(!messages.isEmpty, "nothing was delivered")
                precondition(messages.allSatisfy { $0.byteCount <= limits.maximumMessageBytes }, "beyond the limit")
                outcome.messages += messages
            case .peerClosed(let closure): outcome.ending = "closed \(closure)"
            case .fail(let error): outcome.ending = "failed \(error)"
            }
        }
    }

    /// Reads the chunks as what a server answers to the opening handshake, whose nonce is zero.
    public static func readAnswer(_ chunks: [[UInt8]]) -> Outcome {
        var outcome = Outcome()
        do throws(WebSocketHandshakeError) {
            var waiting: WebSocketHandshake? = try WebSocketHandshake(
                target: "/", authority: "localhost", headerFields: [.secWebSocketProtocol: "a, b"], nonce: 0)
            var body: RefusalBody?
            for chunk in chunks {
                try chunk.withUnsafeBufferPointer { bytes throws(WebSocketHandshakeError) in
                    let bytes = UnsafeRawBufferPointer(bytes)
                    if let handshake = waiting.take() {
                        switch try handshake.receivedBytes(bytes) {
                        case .needsMore(let more): waiting = consume more
                        case .opened(let upgrade):
                            outcome.bytes += upgrade.leftover
                            outcome.ending = "opened \(upgrade.headerFields) \(upgrade.subprotocol ?? "")"
                            outcome.ending += " \(upgrade.compression.map { "\($0)" } ?? "")"
                        case .refused(let head, let rest):
                            outcome.ending = "refused \(head.status) \(head.headerFields)"
                            body = try RefusalBody(head)
                            outcome.bytes += try body?.receivedBytes(rest) ?? []
                        }
                    } else if body != nil {
                        outcome.bytes += try body?.receivedBytes(bytes) ?? []
                    } else {
                        outcome.bytes += bytes
                    }
                }
            }
            try body?.connectionClosed()
        } catch {
            outcome = Outcome(ending: "failed \(error)")
        }
        return outcome
    }

    /// Whether messages that one side compresses come out the same on the other.
    public static func roundTrips(_ messages: [[UInt8]], settings: UInt8) -> Bool {
        guard let parameters = compression(settings | 1), parameters.clientMaxWindowBits > 8 else { return true }
        var deflater = Deflater.make(windowBits: parameters.clientMaxWindowBits)
        do throws(WebSocketCodecError) {
            var inflater = try Inflater(windowBits: parameters.clientMaxWindowBits)
            for message in messages where !message.isEmpty {
                var compressed = [UInt8](repeating: 0, count: deflater?.bound(message.count) ?? 0)
                let count = message.withUnsafeBytes { message in
                    compressed.withUnsafeMutableBytes { deflater?.compress(message, into: $0) ?? 0 }
                }
                var output: [UInt8] = []
                try compressed[..<count].withUnsafeBufferPointer { bytes throws(WebSocketCodecError) in
                    try inflater.receivedBytes(UnsafeRawBufferPointer(bytes), endsMessage: true) { output += $0 }
                }
                try inflater.drain { output += $0 }
                guard output == message else { return false }
            }
            return true
        } catch {
            return false
        }
    }

    private static func compression(_ settings: UInt8) -> DeflateParameters? {
        guard settings & 1 != 0 else { return nil }
        return DeflateParameters(
            serverNoContextTakeover: settings & 2 != 0, clientNoContextTakeover: settings & 4 != 0,
            serverMaxWindowBits: 8 + Int(settings >> 4 & 7), clientMaxWindowBits: 8 + Int(settings >> 4 & 7))
    }
}
