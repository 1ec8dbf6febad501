import ChappieCore
import HTTPTypes

@_spi(ChappieInternals) @testable import ChappieCurl
@testable import ChappieWebSocket

/// What a handshake made of an answer, however that was cut.
enum HandshakeRun: Hashable {
    case waiting
    case opened(WebSocketUpgrade)
    case refused(HTTPResponse.Status, HTTPFields, body: [UInt8], isComplete: Bool)
    case failed(WebSocketHandshakeError)

    /// The nonce of RFC 6455, 1.3: "the sample nonce".
    static let nonce: UInt128 = 0x7468_6520_7361_6D70_6C65_206E_6F6E_6365
    static let accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

    static func handshake(
        headerFields: HTTPFields = [:], compression: WebSocketCompression = .permessageDeflate
    ) throws(WebSocketHandshakeError) -> WebSocketHandshake {
        try WebSocketHandshake(
            target: "/chat?a=b", authority: "server.example.com", headerFields: headerFields,
            compression: compression, nonce: nonce)
    }

    init(
        _ chunks: [[UInt8]], headerFields: HTTPFields = [:], compression: WebSocketCompression = .permessageDeflate
    ) {
        do throws(WebSocketHandshakeError) {
            var waiting: WebSocketHandshake? = try Self.handshake(headerFields: headerFields, compression: compression)
            var opened: WebSocketUpgrade?
            var refusal: (head: ResponseHead, body: RefusalBody)?
            var more: [UInt8] = []
            for chunk in chunks {
                // What comes behind the answer belongs to the codec.
                if opened != nil {
                    more += chunk
                    continue
                }
                if refusal != nil {
                    more += try refusal?.body.receivedBytes(chunk) ?? []
                    continue
                }
                guard let handshake = waiting.take() else { break }
                switch try handshake.received(chunk) {
                case .needsMore(let handshake): waiting = consume handshake
                case .opened(let upgrade): opened = upgrade
                case .refused(let head, let rest):
                    refusal = (head, try RefusalBody(head))
                    more += try refusal?.body.receivedBytes(rest) ?? []
                }
            }
            if let opened {
                self = .opened(
                    WebSocketUpgrade(
                        headerFields: opened.headerFields, subprotocol: opened.subprotocol,
                        compression: opened.compression, leftover: opened.leftover + more))
            } else if let refusal {
                self = .refused(
                    refusal.head.status, refusal.head.headerFields, body: more,
                    isComplete: refusal.body.isComplete)
            } else {
                self = .waiting
            }
        } catch {
            self = .failed(error)
        }
    }
}

extension WebSocketHandshake {
    consuming func received(_ bytes: [UInt8]) throws(WebSocketHandshakeError) -> Progress {
        // Neither the handshake nor what it gives can pass through a closure, but for variables outside.
        var whole: WebSocketHandshake? = consume self
        var progress: Progress?
        try bytes.withUnsafeBufferPointer { bytes throws(WebSocketHandshakeError) in
            progress = try whole.take()?.receivedBytes(UnsafeRawBufferPointer(bytes))
        }
        guard let progress = progress.take() else { throw .connectionClosed }
        return progress
    }
}
