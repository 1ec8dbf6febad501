import ChappieCore

@testable import ChappieWebSocket

/// Frames of a server to messages, in reads of 64 KiB.
struct Decoding: Measure {
    let name: String
    private let wire: [UInt8]
    private let texts: [String]
    private let compression: DeflateParameters?

    init(size: Int, isCompressed: Bool) {
        texts = Sample.texts(size: size, total: 1 << 20)
        name = "decode text of \(texts[0].utf8.count) bytes\(isCompressed ? ", deflate" : "")"
        compression = isCompressed ? DeflateParameters() : nil
        wire = Self.serverFrames(texts, compression: compression)
    }

    func run() -> Int {
        var codec = WebSocketCodec(compression: compression, nextMaskingKey: { 0 })
        var bytes = 0
        wire.withUnsafeBytes { wire in
            var rest = wire[...]
            while !rest.isEmpty {
                let read = UnsafeRawBufferPointer(rebasing: rest.prefix(64 << 10))
                rest = rest.dropFirst(read.count)
                for message in codec.receivedBytes(read).messages { bytes += message.byteCount }
            }
        }
        return bytes
    }

    /// What a client writes, without its masks.
    private static func serverFrames(_ texts: [String], compression: DeflateParameters?) -> [UInt8] {
        // A mask of zeros changes nothing; its four bytes go.
        var codec = WebSocketCodec(compression: compression, nextMaskingKey: { 0 })
        var wire: [UInt8] = []
        for text in texts {
            guard let frame = try? codec.send(.text(text)) else { preconditionFailure("too large") }
            let length = frame[1] & 0x7F
            let header = length == 127 ? 10 : length == 126 ? 4 : 2
            wire.append(frame[0])
            wire.append(length)
            wire += frame[2..<header]
            wire += frame[(header + 4)...]
        }
        return wire
    }
}
