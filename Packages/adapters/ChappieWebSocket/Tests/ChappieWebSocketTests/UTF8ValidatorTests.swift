import TestFixtures
import Testing

@testable import ChappieWebSocket

@Suite(.byItself) struct UTF8ValidatorTests {
    /// Whether the whole is UTF-8, taken in pieces of a size.
    private func isUTF8(_ bytes: [UInt8], pieces: Int) -> Bool {
        var validator = UTF8Validator()
        for start in stride(from: 0, to: bytes.count, by: pieces) {
            let piece = bytes[start..<min(start + pieces, bytes.count)]
            guard piece.withUnsafeBytes({ validator.receivedBytes($0) }) else { return false }
        }
        return validator.isComplete
    }

    @Test func agreesWithTheStandardLibraryAtEveryEdge() {
        // Every lead byte, with continuations at and around every bound, as many as it may have.
        let edges: [UInt8] = [0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF]
        for lead in UInt8.min...UInt8.max {
            var inputs = [[lead]]
            for _ in 0..<(lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3) {
                inputs += inputs.flatMap { input in edges.map { input + [$0] } }
            }
            for input in Set(inputs) {
                let expected = String(validating: input, as: UTF8.self) != nil
                if isUTF8(input, pieces: 4) != expected || isUTF8(input, pieces: 1) != expected {
                    Issue.record("\(input) is \(expected ? "" : "not ")UTF-8")
                }
            }
        }
    }

    @Test func agreesWithTheStandardLibraryOnLongTexts() {
        var generator = SplitMix64(seed: 3)
        let characters = ["a", "é", "€", "😀", "plain ASCII text that is long enough for words "]
        for round in 0..<300 {
            var bytes = (0..<Int.random(in: 0...20, using: &generator)).flatMap { _ in
                Array((characters.randomElement(using: &generator) ?? "").utf8)
            }
            if round.isMultiple(of: 2), !bytes.isEmpty {
                bytes[Int.random(in: bytes.indices, using: &generator)] = .random(in: 0x80...0xFF, using: &generator)
            }
            let expected = String(validating: bytes, as: UTF8.self) != nil
            for pieces in [1, 3, 8, 33, 1000] {
                #expect(isUTF8(bytes, pieces: pieces) == expected, "round \(round), pieces of \(pieces)")
            }
        }
    }
}
