import ChappieCore

@testable import ChappieWebSocket

extension CodecCase {
    static let closing: [CodecCase] =
        [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999].map {
            (code: UInt16) in
            .init(
                "close \(code)", [ServerFrame.close(code, Array("why é".utf8))], sent: CodecRun.close(code),
                ending: .peerClosed(WebSocketCloseReason(code: code, reason: "why é")))
        }
        + [0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535].map { (code: UInt16) in
            .init("close \(code)", [ServerFrame.close(code)], fails: .invalidClose, 1002)
        }
        + [
            .init(
                "close without a code", [ServerFrame.close(nil)], sent: CodecRun.close(nil),
                ending: .peerClosed(WebSocketCloseReason())),
            .init("close with half a code", [ServerFrame.frame(0x8, [3])], fails: .invalidClose, 1002),
            .init(
                "close with a reason that is not UTF-8", [ServerFrame.close(1000, [0x61, 0xC3])], fails: .invalidUTF8,
                1007),
            .init(
                "close with the longest reason", [ServerFrame.close(1000, .init(repeating: 0x61, count: 123))],
                sent: CodecRun.close(1000),
                ending: .peerClosed(WebSocketCloseReason(code: 1000, reason: String(repeating: "a", count: 123)))),
            .init(
                "close with a reason too long", [ServerFrame.close(1000, .init(repeating: 0x61, count: 124))],
                fails: .controlFrameTooLong, 1002),
            .init(
                "what follows a close",
                [
                    ServerFrame.text("a"), ServerFrame.close(1001), ServerFrame.text("b"), ServerFrame.frame(0x9, []),
                    [0xFF, 0xFF],
                ], messages: [.text("a")], sent: CodecRun.close(1001), ending: .peerClosed(.goingAway)),
            .init(
                "what follows an error", [ServerFrame.frame(0x3, []), ServerFrame.text("b"), ServerFrame.close(1000)],
                fails: .unknownOpcode(3), 1002),
        ]
}
