import ChappieCore
import Testing

@testable import ChappieWebSocket

/// Bytes of a server, and what a codec must make of them in any chunking.
struct CodecCase: CustomTestStringConvertible {
    let name: String
    let input: [UInt8]
    let limits: WebSocketLimits
    let compression: DeflateParameters?
    let expected: WebSocketCodec.Output

    var testDescription: String { name }

    /// - Parameters:
    ///   - sends: our pongs; our close frame, which every end needs, comes behind them by itself.
    ///   - closes: the peer's close frame.
    ///   - fails: an error, whose close code ours has.
    init(
        _ name: String, _ input: [UInt8], limits: WebSocketLimits = WebSocketLimits(),
        compression: DeflateParameters? = nil, messages: [WebSocketMessage] = [], sends: [UInt8] = [],
        closes: WebSocketCloseReason? = nil, fails error: WebSocketError? = nil
    ) {
        self.name = name
        self.input = input
        self.limits = limits
        self.compression = compression
        var expected = WebSocketCodec.Output(messages: messages, bytes: sends)
        if let closes {
            expected.end = .success(closes)
            expected.bytes += ClientFrame.close(closes.code)
        } else if let error {
            expected.end = .failure(error)
            expected.bytes += ClientFrame.close(error.closeCode)
        }
        self.expected = expected
    }

    func verify() {
        forEachChunking(input) { chunks, label in
            var codec = WebSocketCodec.test(limits: limits, compression: compression)
            #expect(codec.receive(chunks) == expected, "\(name), \(label)")
        }
    }
}
