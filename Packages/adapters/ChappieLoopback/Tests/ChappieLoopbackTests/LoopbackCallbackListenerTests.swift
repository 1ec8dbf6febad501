import ChappieAuth
import Glibc
import Synchronization
import SystemPackage
import TestFixtures
import Testing

@testable import ChappieLoopback

/// The listener over real sockets: browsers that are slow, open spare connections or send too much.
struct LoopbackCallbackListenerTests {
    private static let request = "GET /auth/callback?state=s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    private static let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nOK"

    private final class Heads: Sendable {
        private let heads = Mutex<[String]>([])
        var all: [String] { heads.withLock { $0 } }
        func add(_ head: [UInt8]) { heads.withLock { $0.append(String(decoding: head, as: UTF8.self)) } }
    }

    private final class Holder: Sendable {
        let listening = Mutex<(any CallbackListening)?>(nil)
    }

    private static func listen(
        _ limits: CallbackServer.Limits = CallbackServer.Limits(), heads: Heads = Heads(), answer: String = answer
    ) throws -> any CallbackListening {
        try LoopbackCallbackListener(limits: limits).listen { head, _ in
            heads.add(head)
            return Array(answer.utf8)
        }
    }

    /// Limits of a listener that waits as long as any test does.
    private static let patient = CallbackServer.Limits(patience: Patience.limit * 2)

    @Test func aRequestIsAnsweredAndTheConnectionClosed() async throws {
        let heads = Heads()
        let listening = try Self.listen(heads: heads)
        let port = listening.port
        #expect((1...65_535).contains(port))
        let answer = try await onOwnThread {
            let browser = try LoopbackConnection(port: port)
            browser.send(Self.request)
            return try browser.rest()
        }
        #expect(answer == Self.answer)
        #expect(heads.all == [Self.request])
        withExtendedLifetime(listening) {}
    }

    @Test func aRequestMayArriveByteByByte() async throws {
        let heads = Heads()
        let listening = try Self.listen(Self.patient, heads: heads)
        let port = listening.port
        let answer = try await onOwnThread {
            let browser = try LoopbackConnection(port: port)
            for character in Self.request.unicodeScalars { browser.send(String(character)) }
            return try browser.rest()
        }
        #expect(answer == Self.answer)
        #expect(heads.all == [Self.request])
        withExtendedLifetime(listening) {}
    }

    @Test func aPageThatPostsReadsItsAnswer() async throws {
        let heads = Heads()
        let listening = try Self.listen(heads: heads)
        let port = listening.port
        let head = "POST /auth/callback HTTP/1.1\r\nContent-Length: 300000\r\n\r\n"
        let answer = try await onOwnThread {
            let browser = try LoopbackConnection(port: port)
            browser.send(head + String(repeating: "x", count: 300_000))
            return try browser.rest()
        }
        #expect(answer == Self.answer)
        #expect(heads.all == [head])
        withExtendedLifetime(listening) {}
    }

    @Test func `spare connections and half a request head keep no request waiting`() async throws {
        let heads = Heads()
        let listening = try Self.listen(Self.patient, heads: heads)
        let port = listening.port
        let answers = try await onOwnThread {
            let spare = try (0..<15).map { _ in try LoopbackConnection(port: port) }
            let slow = try LoopbackConnection(port: port)
            slow.send("GET /auth")
            let browser = try LoopbackConnection(port: port)
            browser.send(Self.request)
            let first = try browser.rest()
            // No connection had to go for it, but the oldest.
            slow.send("/callback HTTP/1.1\r\n\r\n")
            return (first, try slow.rest(), try spare[0].rest())
        }
        #expect(answers.0 == Self.answer)
        #expect(answers.1 == Self.answer)
        #expect(answers.2 == "")
        #expect(heads.all == [Self.request, "GET /auth/callback HTTP/1.1\r\n\r\n"])
        withExtendedLifetime(listening) {}
    }

    @Test func ofAHundredConnectionsTheLatestIsServed() async throws {
        let listening = try Self.listen(Self.patient)
        let port = listening.port
        let answer = try await onOwnThread {
            let spare = try (0..<100).map { _ in try LoopbackConnection(port: port) }
            let browser = try LoopbackConnection(port: port)
            browser.send(Self.request)
            // The first of them had to go.
            let ended = try spare[0].rest()
            return ended + (try browser.rest())
        }
        #expect(answer == Self.answer)
        withExtendedLifetime(listening) {}
    }

    @Test func `a browser that reads nothing keeps no other browser waiting`() async throws {
        let long = String(repeating: "x", count: 32 << 20)
        let listening = try LoopbackCallbackListener(limits: Self.patient).listen { head, _ in
            Array((String(decoding: head, as: UTF8.self).contains("/long") ? long : Self.answer).utf8)
        }
        let port = listening.port
        let (answer, count) = try await onOwnThread {
            let slow = try LoopbackConnection(port: port)
            slow.send("GET /long HTTP/1.1\r\n\r\n")
            let browser = try LoopbackConnection(port: port)
            browser.send(Self.request)
            return (try browser.rest(), try slow.rest().utf8.count)
        }
        #expect(answer == Self.answer)
        #expect(count == long.utf8.count)
        withExtendedLifetime(listening) {}
    }

    @Test func `a browser that disconnects during its answer ends nothing else`() async throws {
        let long = String(repeating: "x", count: 32 << 20)
        let listening = try Self.listen(Self.patient, answer: long)
        let port = listening.port
        let count = try await onOwnThread {
            for _ in 0..<4 {
                let browser = try LoopbackConnection(port: port)
                browser.send(Self.request)
                browser.willReset()
            }
            let browser = try LoopbackConnection(port: port)
            browser.send(Self.request)
            return try browser.rest().utf8.count
        }
        #expect(count == long.utf8.count)
        withExtendedLifetime(listening) {}
    }

    @Test func halfAHeadIsClosedAfterItsTime() async throws {
        let heads = Heads()
        let listening = try Self.listen(CallbackServer.Limits(patience: .milliseconds(50)), heads: heads)
        let port = listening.port
        let rest = try await onOwnThread {
            let browser = try LoopbackConnection(port: port)
            browser.send("GET /auth/callback HTTP/1.1\r\n")
            return try browser.rest()
        }
        #expect(rest == "")
        #expect(heads.all == [])
        withExtendedLifetime(listening) {}
    }

    @Test func aHeadOf16KiBIsReadAndALongerOneIsRefused() async throws {
        let heads = Heads()
        let listening = try Self.listen(Self.patient, heads: heads)
        let port = listening.port
        let longest = "GET / HTTP/1.1\r\nCookie: " + String(repeating: "c", count: (16 << 10) - 28) + "\r\n\r\n"
        #expect(longest.utf8.count == 16 << 10)
        let answers = try await onOwnThread {
            try [longest, "G" + longest].map {
                let browser = try LoopbackConnection(port: port)
                browser.send($0)
                return try browser.rest()
            }
        }
        #expect(answers[0] == Self.answer)
        #expect(answers[1].hasPrefix("HTTP/1.1 431 "))
        #expect(heads.all == [longest])
        withExtendedLifetime(listening) {}
    }

    @Test func `closing ends every connection and frees the port`() async throws {
        let heads = Heads()
        let listening = try Self.listen(Self.patient, heads: heads)
        let port = listening.port
        let rests = try await onOwnThread {
            let spare = try LoopbackConnection(port: port)
            let slow = try LoopbackConnection(port: port)
            slow.send("GET /auth/callback HTTP/1.1\r\n")
            listening.close()
            listening.close()
            return [try spare.rest(), try slow.rest()]
        }
        #expect(rests == ["", ""])
        #expect(heads.all == [])
        #expect(try await eventually { (try? LoopbackConnection(port: port)) == nil })
    }

    @Test func `an answer is sent even if the listener is closed in the meantime`() async throws {
        let own = Holder()
        let listening = try LoopbackCallbackListener().listen { _, _ in
            own.listening.withLock { $0?.close() }
            return Array(Self.answer.utf8)
        }
        own.listening.withLock { $0 = listening }
        let port = listening.port
        let answer = try await onOwnThread {
            let browser = try LoopbackConnection(port: port)
            browser.send(Self.request)
            return try browser.rest()
        }
        #expect(answer == Self.answer)
    }

    @Test func aListenerThatIsReleasedEnds() async throws {
        let port = try Self.listen(Self.patient).port
        #expect(try await eventually { (try? LoopbackConnection(port: port)) == nil })
    }

    @Test func twoListenersHaveTwoPorts() throws {
        let (one, other) = (try Self.listen(), try Self.listen())
        #expect(one.port != other.port)
    }

    @Test func `the first port that is free is taken`() throws {
        let listener = LoopbackCallbackListener(limits: Self.patient)
        let (one, other) = (try Self.listen(Self.patient), try Self.listen(Self.patient))
        let third = try listener.listen(at: [one.port, 0]) { _, _ in [] }
        #expect(![0, one.port, other.port].contains(third.port))
        let error = #expect(throws: DesktopError.self) {
            try listener.listen(at: [one.port, other.port]) { _, _ in [] }
        }
        #expect(error?.sentence.contains("ports \(one.port) and \(other.port)") == true)
        withExtendedLifetime((one, other, third)) {}
    }

    /// The system keeps the port of a connection that has ended for a minute.
    @Test func `a port is free again after a browser has used it`() async throws {
        let listener = LoopbackCallbackListener(limits: Self.patient)
        let first = try listener.listen { _, _ in Array(Self.answer.utf8) }
        let port = first.port
        let answer = try await onOwnThread {
            let browser = try LoopbackConnection(port: port)
            browser.send(Self.request)
            return try browser.rest()
        }
        #expect(answer == Self.answer)
        first.close()
        await first.closed()
        let second = try listener.listen(at: [port]) { _, _ in [] }
        #expect(second.port == port)
    }

    @Test func `a machine without the address causes an error with a readable message`() throws {
        // 192.0.2.1 is of the block for documentation (RFC 5737), so no machine has it.
        let listener = LoopbackCallbackListener(limits: CallbackServer.Limits(), address: 0xC000_0201)
        let error = #expect(throws: DesktopError.self) { _ = try listener.listen { _, _ in [] } }
        #expect(error?.sentence.contains("Cannot assign requested address") == true)
        #expect(error?.sentence.contains("another route") == true)
    }

    @Test(arguments: [
        (EAFNOSUPPORT, "IPv4"), (EADDRNOTAVAIL, "loopback interface"), (EMFILE, "LimitNOFILE"), (EACCES, "Allow"),
    ])
    func theErrorSaysWhatHelps(reason: CInt, words: String) {
        let sentence = LoopbackCallbackListener.refusal(Errno(rawValue: reason)).sentence
        #expect(sentence.contains("127.0.0.1"))
        #expect(sentence.contains(words))
    }

    // MARK: Heads

    @Test(arguments: [request, "GET / HTTP/1.0\n\n", "\r\n", "A\r\nB\n\r\n"])
    func aHeadIsWholeAtEachSplit(text: String) {
        let bytes = Array(text.utf8)
        for split in 0..<bytes.count {
            var head = RequestHead(limit: bytes.count)
            #expect(head.received(bytes[..<split]) == .unfinished)
            #expect(head.received(bytes[split...] + [1, 2, 3]) == .whole)
            #expect(head.bytes == bytes)
            var short = RequestHead(limit: bytes.count - 1)
            #expect(short.received(bytes) == .tooLong)
        }
    }
}
