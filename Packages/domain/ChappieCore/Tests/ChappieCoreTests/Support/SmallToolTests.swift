@_spi(ChappieInternals) import ChappieCore
import Dispatch
import FoundationEssentials
import Testing

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

@Suite struct SmallToolTests {
    @Test func base64URLAgreesWithFoundationAtEveryLength() {
        for length in 0...66 {
            let bytes = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 89 &+ 251) }
            let padded = Data(bytes).base64EncodedString()
                .replacing("+", with: "-").replacing("/", with: "_")
            let bare = padded.replacing("=", with: "")
            #expect(Base64URL.encode(bytes) == bare)
            #expect(Base64URL.decode(padded) == bytes)
            #expect(Base64URL.decode(bare) == bytes)
        }
    }

    @Test(arguments: [
        "A", "AAAAA", "AA=", "=", "A=A=", "AA+A", "AA/A", "AA A", "AA\n", "Ä",
    ])
    func base64URLRefuses(_ text: String) { #expect(Base64URL.decode(text) == nil) }

    @Test(arguments: [
        (Duration.zero, "0 s"), (.milliseconds(250), "250 ms"), (.seconds(2), "2 s"), (.milliseconds(1500), "1.5 s"),
        (.milliseconds(1025), "1.025 s"), (.seconds(60), "60 s"), (.seconds(90), "90 s"), (.seconds(180), "3 min"),
        (.microseconds(3), "0 s"), (.milliseconds(600_500), "600.5 s"),
    ])
    func aDurationHasWords(duration: Duration, words: String) { #expect(duration.words == words) }

    @Test func everythingIsWrittenOrTheReasonIsReturned() throws {
        var ends: [Int32] = [0, 0]
        try #require(pipe(&ends) == 0)
        defer { for end in ends { close(end) } }
        let bytes = Array("one line\n".utf8)
        #expect(bytes.withUnsafeBytes { writeAll($0, to: ends[1]) } == 0)
        var buffer = [UInt8](repeating: 0, count: 32)
        #expect(read(ends[0], &buffer, buffer.count) == bytes.count)
        #expect(buffer.starts(with: bytes))
        #expect([].withUnsafeBytes { writeAll($0, to: -1) } == 0, "there was nothing to write")
        #expect(bytes.withUnsafeBytes { writeAll($0, to: -1) } == EBADF)
        #expect(fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0)
        // More than a pipe takes at once: the writer waits for its reader.
        let much = [UInt8](repeating: 0, count: 1 << 20)
        let isRead = DispatchSemaphore(value: 0)
        DispatchQueue(label: "reader").async { [reader = ends[0]] in
            var buffer = [UInt8](repeating: 0, count: 64 << 10)
            var left = much.count
            while left > 0 {
                let count = read(reader, &buffer, buffer.count)
                guard count > 0 else { return }
                left -= count
            }
            isRead.signal()
        }
        #expect(much.withUnsafeBytes { writeAll($0, to: ends[1]) } == 0)
        #expect(isRead.wait(timeout: .now() + 60) == .success)
    }
}
