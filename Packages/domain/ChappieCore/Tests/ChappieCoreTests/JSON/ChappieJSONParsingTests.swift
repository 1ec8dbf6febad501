@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Testing

@Suite struct ChappieJSONParsingTests {
    @Test("accepts and writes again", arguments: JSONTextCase.accepted + JSONTextCase.repaired)
    func accepts(_ example: JSONTextCase) throws {
        let value = try ChappieJSON(parsing: example.input)
        #expect(value.serialized() == example.output)
        let again = try ChappieJSON(parsing: value.serializedBytes())
        #expect(again == value && again.serializedBytes() == value.serializedBytes(), "what it writes, it reads again")
    }

    @Test("refuses", arguments: JSONTextCase.refused)
    func refuses(_ example: JSONTextCase) {
        let error = #expect(throws: ChappieJSONError.self) { try ChappieJSON(parsing: example.input) }
        #expect((0...example.input.count).contains(error?.offset ?? -1))
        #expect(error?.reason.isEmpty == false)
    }

    @Test("accepts nothing that a second parser refuses", arguments: JSONTextCase.accepted)
    func agreesWithFoundationOnWhatIsJSON(_ example: JSONTextCase) throws {
        // Numbers beyond a double are JSON, but no Swift number: Foundation can't take those.
        guard example.output?.contains("e400") != true, example.output?.contains("e-400") != true else { return }
        #expect(throws: Never.self) { try JSONDecoder().decode(ChappieJSON.self, from: Data(example.input)) }
    }

    @Test("256 levels pass, 257 don't", arguments: ["[", "{\"a\":"])
    func boundsTheDepth(_ opening: String) throws {
        let closing = opening == "[" ? "]" : "}"
        for innermost in ["1", "[]", "{}"] {
            let inner = innermost == "1" ? 0 : 1
            let deepest =
                String(repeating: opening, count: 256 - inner) + innermost
                + String(repeating: closing, count: 256 - inner)
            #expect(try ChappieJSON(parsing: deepest).serialized() == deepest)
            #expect(throws: ChappieJSONError.self) {
                try ChappieJSON(parsing: opening + deepest + closing)
            }
        }
        #expect(throws: ChappieJSONError.self) {
            try ChappieJSON(parsing: String(repeating: opening, count: 1_000_000))
        }
    }

    @Test func namesTheOffsetAndNeverTheText() throws {
        let error = #expect(throws: ChappieJSONError.self) { try ChappieJSON(parsing: #"{"secret": hunter2}"#) }
        #expect(error?.offset == 11)
        #expect(error?.errorDescription == "The text is not valid JSON: unexpected character at byte 11.")
    }

    @Test func aTruncatedDocumentIsRefusedAtEveryLength() throws {
        let document = Array(Self.sample.utf8)
        #expect(throws: Never.self) { try ChappieJSON(parsing: document) }
        for length in 0..<document.count {
            #expect(throws: ChappieJSONError.self, "\(length)") { try ChappieJSON(parsing: Array(document[..<length])) }
        }
    }

    @Test func `every changed byte is either refused or read stably`() throws {
        let document = Array(Self.sample.utf8)
        var accepted = 0
        for index in document.indices {
            for byte in UInt8.min...UInt8.max {
                var changed = document
                changed[index] = byte
                guard let value = try? ChappieJSON(parsing: changed) else { continue }
                accepted += 1
                let bytes = value.serializedBytes()
                let isStable = (try? ChappieJSON(parsing: bytes)) == value
                if !isStable { Issue.record("byte \(index) as \(byte)") }
            }
        }
        // Most changes inside strings and numbers are still JSON; every byte unchanged is.
        #expect(accepted > document.count * 10)
    }

    @Test("grows linearly", arguments: ["[", "\\n", "{\"a\":1},", "é", "9"])
    func growsLinearly(_ piece: String) {
        let factor = Growth.factor("JSON of \(piece)", size: 1 << 14) { size in
            let body = String(repeating: piece, count: size / piece.utf8.count)
            let text: String
            switch piece {
            case "\\n", "é": text = "\"\(body)\""
            case "9": text = body
            default: text = "[\(body)0]"
            }
            let value = try? ChappieJSON(parsing: text)
            #expect((value == nil) == (piece == "[" || piece == "\""))
        }
        #expect(factor < Growth.limit)
    }

    static let sample = #"""
        {"type":"response.output_item.done","n":[0,-1.5e3,12345678901234567890,true,false,null],
         "item":{"id":"fc_1","arguments":"{\"cmd\":\"echo \\\"hi\\\"\"}","text":"é😀\u00e9\ud83d\ude00\n"},"e":{},"a":[]}
        """#
}
