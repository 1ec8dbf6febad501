import ChappieCore

@testable import ChappieWebSocket

/// Messages to masked frames.
struct Encoding: Measure {
    let name: String
    private let messages: [WebSocketMessage]
    private let compression: DeflateParameters?

    init(size: Int, isCompressed: Bool) {
        let texts = Sample.texts(size: size, total: 1 << 20)
        messages = texts.map(WebSocketMessage.text)
        name = "encode text of \(texts[0].utf8.count) bytes\(isCompressed ? ", deflate" : "")"
        compression = isCompressed ? DeflateParameters() : nil
    }

    func run() -> Int {
        var codec = WebSocketCodec(compression: compression, nextMaskingKey: { 0x1234_5678 })
        var bytes = 0
        for message in messages {
            guard let frame = try? codec.send(message) else { preconditionFailure("too large") }
            precondition(!frame.isEmpty)
            bytes += message.byteCount
        }
        return bytes
    }
}
