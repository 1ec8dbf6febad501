import ChappieCore
import HTTPTypes
import TestFixtures
import Testing

@_spi(ChappieInternals) @testable import ChappieCurl
@testable import ChappieWebSocket

@Suite(.byItself) struct WebSocketHandshakeAnswerTests {
    @Test("answers that open the connection", arguments: HandshakeCase.accepted)
    func accepts(_ example: HandshakeCase) { verify(example) }

    @Test("choices of permessage-deflate", arguments: HandshakeCase.negotiated + HandshakeCase.negotiatedWithWishes)
    func negotiates(_ example: HandshakeCase) { verify(example) }

    @Test("101 for something else", arguments: HandshakeCase.wrongUpgrades + [HandshakeCase.oldHTTP])
    func refusesWrongUpgrades(_ example: HandshakeCase) { verify(example) }

    @Test("extensions that were not offered or make no sense", arguments: HandshakeCase.wrongExtensions)
    func refusesWrongExtensions(_ example: HandshakeCase) { verify(example) }

    @Test("status lines that are none", arguments: HandshakeCase.wrongHeads)
    func refusesWrongHeads(_ example: HandshakeCase) { verify(example) }

    @Test("header fields that are none", arguments: HandshakeCase.wrongFields)
    func refusesWrongFields(_ example: HandshakeCase) { verify(example) }

    @Test("other answers come with their bodies", arguments: HandshakeCase.refused)
    func deliversRefusals(_ example: HandshakeCase) { verify(example) }

    private func verify(_ example: HandshakeCase) {
        WireBytes.forEachChunking(example.input) { chunks, label in
            let run = HandshakeRun(chunks, headerFields: example.headerFields, compression: example.compression)
            #expect(run == example.expected, "\(example.name), \(label)")
        }
    }

    @Test("bodies that are framed wrongly", arguments: HandshakeCase.wrongBodies)
    func refusesWrongBodies(_ example: HandshakeCase) {
        #expect(HandshakeRun([example.input]) == example.expected)
        #expect(HandshakeRun(example.input.map { [$0] }) == example.expected)
    }

    @Test func waitsForTheEndOfTheHead() {
        let head = Array(HandshakeCase.head(HandshakeCase.good).utf8)
        for end in 0..<head.count { #expect(HandshakeRun([Array(head[..<end])]) == .waiting, "\(end)") }
    }

    @Test func aHeadHasAtMost64KiB() throws {
        let rest = HandshakeCase.head(HandshakeCase.good).utf8.count + "X: \r\n".utf8.count
        for (more, fits) in [(0, true), (1, false)] {
            let filler = String(repeating: "x", count: WebSocketHandshake.maximumHeadBytes - rest + more)
            let head = Array(HandshakeCase.head(HandshakeCase.good + ["X: \(filler)"]).utf8)
            for run in [HandshakeRun([head]), HandshakeRun(chunks(of: head, size: 1000))] {
                if fits {
                    guard case .opened = run else {
                        Issue.record("\(run)")
                        continue
                    }
                } else {
                    #expect(run == .failed(.invalidHead("its response head is over 65536 bytes")))
                }
            }
        }
    }

    @Test func aHeadHasAtMostAThousandFields() {
        let filler = [String](repeating: "a:", count: ResponseHeadParser.fieldLimit - (HandshakeCase.good.count - 1))
        guard case .opened = HandshakeRun([Array(HandshakeCase.head(HandshakeCase.good + filler).utf8)]) else {
            Issue.record("a thousand are too many")
            return
        }
        #expect(
            HandshakeRun([Array(HandshakeCase.head(HandshakeCase.good + filler + ["a:"]).utf8)])
                == .failed(.invalidHead("its response head has over 1000 fields")))
    }

    @Test func informationalHeadsCountForTheLimit() {
        let heads = String(repeating: "HTTP/1.1 100 Continue\r\n\r\n", count: 3000)
        #expect(
            HandshakeRun([Array(heads.utf8)])
                == .failed(.invalidHead("its response head is over 65536 bytes")))
    }

    @Test func aBodyThatBreaksOffSaysSo() throws {
        var counted = try RefusalBody(ResponseHead(status: .ok, headerFields: [.contentLength: "5"]))
        #expect(try counted.receivedBytes([1, 2]) == [1, 2])
        #expect(throws: WebSocketHandshakeError.connectionClosed) { try counted.connectionClosed() }
        var chunked = try RefusalBody(ResponseHead(status: .ok, headerFields: [.transferEncoding: "chunked"]))
        #expect(try chunked.receivedBytes(Array("2\r\nhi\r\n".utf8)) == Array("hi".utf8))
        #expect(throws: WebSocketHandshakeError.connectionClosed) { try chunked.connectionClosed() }
        var open = try RefusalBody(ResponseHead(status: .ok, headerFields: [:]))
        #expect(try open.receivedBytes([1]) == [1])
        #expect(!open.isComplete)
        try open.connectionClosed()
        #expect(open.isComplete)
        #expect(try open.receivedBytes([2]) == [])
    }

    @Test func aConnectionThatEndsBeforeTheAnswerIsAnError() throws {
        let handshake = try HandshakeRun.handshake()
        #expect(handshake.connectionClosed() == .connectionClosed)
    }

    private func chunks(of bytes: [UInt8], size: Int) -> [[UInt8]] {
        stride(from: 0, to: bytes.count, by: size).map { Array(bytes[$0..<min($0 + size, bytes.count)]) }
    }
}
