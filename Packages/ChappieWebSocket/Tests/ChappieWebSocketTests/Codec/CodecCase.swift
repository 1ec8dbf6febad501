import ChappieCore
import Testing

@testable import ChappieWebSocket

/// Bytes of a server, and what a codec must make of them in any chunking.
struct CodecCase: CustomTestStringConvertible {
    let name: String
    let input: [UInt8]
    let limits: WebSocketLimits
    let compression: DeflateParameters?
    let expected: CodecRun

    var testDescription: String { name }

    init(
        _ name: String, _ input: [[UInt8]], limits: WebSocketLimits = .default, compression: DeflateParameters? = nil,
        messages: [WebSocketMessage] = [], sent: [UInt8] = [], ending: CodecRun.Ending = .open
    ) {
        self.name = name
        self.input = input.flatMap(\.self)
        self.limits = limits
        self.compression = compression
        expected = CodecRun(messages: messages, sent: sent, ending: ending)
    }

    /// Bytes that end the connection with an error, whose close frame names it.
    init(
        _ name: String, _ input: [[UInt8]], limits: WebSocketLimits = .default, compression: DeflateParameters? = nil,
        messages: [WebSocketMessage] = [], fails error: WebSocketCodecError, _ code: UInt16
    ) {
        self.init(
            name, input, limits: limits, compression: compression, messages: messages, sent: CodecRun.close(code),
            ending: .failed(error))
    }
}
