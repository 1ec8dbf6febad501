import TestFixtures
import Testing

@testable import ChappieWebSocket

@Suite(.byItself) struct WebSocketMaskTests {
    @Test func masksEveryLengthAtEveryAlignment() {
        let source = (0..<200).map { UInt8($0) }
        let key: UInt32 = 0x0A1B_2C3D
        let keyBytes: [UInt8] = [0x0A, 0x1B, 0x2C, 0x3D]
        for start in 0..<16 {
            for count in 0...100 {
                var destination = [UInt8](repeating: 0xEE, count: 120)
                source.withUnsafeBytes { source in
                    destination.withUnsafeMutableBytes { destination in
                        guard let base = destination.baseAddress else { return }
                        WebSocketMask.copy(
                            UnsafeRawBufferPointer(rebasing: source[start..<(start + count)]), to: base + start % 7,
                            key: key)
                    }
                }
                let expected = (0..<count).map { source[start + $0] ^ keyBytes[$0 % 4] }
                let before = start % 7
                #expect(Array(destination[before..<(before + count)]) == expected, "\(start), \(count)")
                #expect(destination[..<before].allSatisfy { $0 == 0xEE })
                #expect(destination[(before + count)...].allSatisfy { $0 == 0xEE }, "\(start), \(count)")
            }
        }
    }

    @Test func masksWhereItLiesAndTowardsTheFront() {
        let plain = (0..<150).map { UInt8($0) }
        for distance in 0...14 {
            var bytes = [UInt8](repeating: 0, count: distance) + plain
            bytes.withUnsafeMutableBytes { bytes in
                guard let base = bytes.baseAddress else { return }
                WebSocketMask.copy(
                    UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(bytes)[distance...]), to: base,
                    key: 0x0102_0304)
            }
            #expect(Array(bytes[..<150]) == plain.enumerated().map { $0.element ^ UInt8($0.offset % 4 + 1) })
        }
    }
}
