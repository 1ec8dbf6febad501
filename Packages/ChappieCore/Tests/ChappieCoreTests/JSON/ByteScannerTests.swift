import Testing

@_spi(ChappieInternals) @testable import ChappieCore

@Suite struct ByteScannerTests {
    /// One byte at a time, as the standard says it.
    private func plainText(_ bytes: [UInt8], from start: Int) -> Int {
        bytes[start...].firstIndex { $0 == 0x22 || $0 == 0x5C || $0 < 0x20 || $0 >= 0x80 } ?? bytes.count
    }

    private func check(_ bytes: [UInt8]) {
        bytes.withUnsafeBufferPointer { buffer in
            for start in 0...bytes.count
            where ByteScanner.endOfPlainText(buffer, from: start) != plainText(bytes, from: start) {
                Issue.record("\(bytes) from \(start)")
            }
        }
    }

    @Test func findsEveryByteAtEveryPlace() {
        for length in 0...25 {
            for place in 0..<max(length, 1) {
                for byte in UInt8.min...UInt8.max where length > 0 {
                    var bytes = [UInt8](repeating: 0x20, count: length)
                    bytes[place] = byte
                    check(bytes)
                }
            }
        }
        check([])
    }

    @Test func findsTheFirstOfMany() {
        var random = SplitMix64(seed: 3)
        // Neighbours of every bound, where a borrow from one byte into the next would show.
        let bytes: [UInt8] = [
            0x00, 0x01, 0x1F, 0x20, 0x21, 0x22, 0x23, 0x5B, 0x5C, 0x5D, 0x7E, 0x7F, 0x80, 0x81, 0xA2, 0xDC, 0xFF,
        ]
        for _ in 0..<5000 {
            check((0..<Int.random(in: 0...20, using: &random)).map { _ in bytes.randomElement(using: &random) ?? 0 })
        }
    }

    @Test func comparesWholeWords() {
        let word = Array("data".utf8)
        word.withUnsafeBufferPointer { buffer in
            #expect(ByteScanner.equal(buffer, "data"))
            #expect(
                !ByteScanner.equal(buffer, "date") && !ByteScanner.equal(buffer, "dat")
                    && !ByteScanner.equal(buffer, "datas"))
        }
        #expect(!ByteScanner.equal(UnsafeBufferPointer(start: nil, count: 0), "data"))
    }
}
