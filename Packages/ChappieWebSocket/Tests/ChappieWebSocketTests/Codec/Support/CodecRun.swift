import ChappieCore

@testable import ChappieWebSocket

/// What a codec did with some bytes, however they were cut.
struct CodecRun: Hashable {
    enum Ending: Hashable {
        case open
        case peerClosed(WebSocketCloseReason)
        case failed(WebSocketCodecError)
    }

    var messages: [WebSocketMessage] = []
    /// What it sent of its own accord.
    var sent: [UInt8] = []
    var ending = Ending.open

    /// The key of RFC 6455, 5.7.
    static let maskingKey: UInt32 = 0x37FA_213D

    init(messages: [WebSocketMessage] = [], sent: [UInt8] = [], ending: Ending = .open) {
        self.messages = messages
        self.sent = sent
        self.ending = ending
    }

    init(
        _ chunks: [[UInt8]], limits: WebSocketLimits = .default, compression: DeflateParameters? = nil
    ) {
        var codec = WebSocketCodec(limits: limits, compression: compression)
        for chunk in chunks { receive(chunk, &codec) }
    }

    mutating func receive(_ bytes: [UInt8], _ codec: inout WebSocketCodec) {
        let actions = bytes.withUnsafeBytes { codec.receivedBytes($0, nextMaskingKey: { Self.maskingKey }) }
        take(actions)
    }

    mutating func take(_ actions: [WebSocketCodec.Action]) {
        for action in actions {
            switch action {
            case .deliver(let messages): self.messages += messages
            case .send(let bytes): sent += bytes
            case .peerClosed(let closure): ending = .peerClosed(closure)
            case .fail(let error): ending = .failed(error)
            }
        }
    }

    /// A masked frame of ours, written independently of the code under test.
    static func clientFrame(_ first: UInt8, _ payload: [UInt8]) -> [UInt8] {
        var length = ServerFrame.length(payload.count)
        length[0] |= 0x80
        let key: [UInt8] = [0x37, 0xFA, 0x21, 0x3D]
        return [first] + length + key + payload.enumerated().map { $0.element ^ key[$0.offset % 4] }
    }

    static func close(_ code: UInt16?) -> [UInt8] {
        clientFrame(0x88, code.map { [UInt8($0 >> 8), UInt8($0 & 0xFF)] } ?? [])
    }
}
