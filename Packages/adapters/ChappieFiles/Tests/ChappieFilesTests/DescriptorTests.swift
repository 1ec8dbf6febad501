@_spi(ChappieInternals) import ChappieFiles
import Dispatch
import Glibc
import Testing

@Suite struct DescriptorTests {
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
