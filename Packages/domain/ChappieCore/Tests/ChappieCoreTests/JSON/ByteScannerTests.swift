import TestFixtures
import Testing

@_spi(ChappieInternals) @testable import ChappieCore

@Suite struct ByteScannerTests {
    /// Compares with a search that looks at one byte at a time, as the standard says it.
    private func check(_ bytes: [UInt8]) {
        bytes.withUnsafeBufferPointer { buffer in
            for start in 0...bytes.count {
                let end = bytes[start...].firstIndex { $0 == 0x22 || $0 == 0x5C || $0 < 0x20 || $0 >= 0x80 }
                let isRight = ByteScanner.endOfPlainText(buffer, from: start) == end ?? bytes.count
                let line = bytes[start...].firstIndex { $0 == 0x0A || $0 == 0x0D }
                let isRightLine = ByteScanner.endOfLine(buffer, from: start) == line ?? bytes.count
                if !isRight || !isRightLine { Issue.record("\(bytes) from \(start)") }
            }
        }
    }

    @Test func findsEveryByteAtEveryPlace() {
        check([])
        for length in 1...17 {
            for place in 0..<length {
                for byte in UInt8.min...UInt8.max {
                    var bytes = [UInt8](repeating: 0x20, count: length)
                    bytes[place] = byte
                    check(bytes)
                }
            }
        }
    }

    @Test func findsTheFirstOfMany() {
        var random = SplitMix64(seed: 3)
        // Neighbours of every bound, at which a borrow from one byte into the next would show.
        let bytes: [UInt8] = [
            0x00, 0x01, 0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x0E, 0x1F, 0x20, 0x21, 0x22, 0x23, 0x5B, 0x5C, 0x5D, 0x7E, 0x7F,
            0x80, 0x81, 0xA2, 0xDC, 0xFF,
        ]
        for _ in 0..<5000 {
            check((0..<Int.random(in: 0...20, using: &random)).map { _ in bytes.randomElement(using: &random) ?? 0 })
        }
    }
}
