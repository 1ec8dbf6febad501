import Testing

@_spi(ChappieInternals) @testable import ChappieCore

/// The fast path may pass, but it may never say something that the full parser would not.
@Suite struct TextDeltaScannerTests {
    static let payloads: [String] = [
        #"{"type":"response.output_text.delta","item_id":"msg_b49e","output_index":0,"content_index":0,"delta":"Hello","logprobs":[],"sequence_number":4}"#,
        #"{"type":"response.output_text.delta","delta":"é😀 \n\"\u00e9\ud83d\ude00\ud83d","obfuscation":"a1B2","item_id":"m"}"#,
        #"{ "type" : "response.output_text.delta" , "delta" : "x" , "a" : [ ] , "b" : null , "c" : -1.5e3 } "#,
        #"{"type":"response.output_text.delta","delta":"","item_id":""}"#,
        #"{"type":"response.output_text.delta","delta":"a","item_id":"m","type":"response.output_text.delta","delta":"b","item_id":"ü"}"#,
    ]

    @Test("takes the usual shapes", arguments: payloads)
    func takesTheUsualShapes(_ payload: String) {
        #expect(scan(Array(payload.utf8)) != nil)
    }

    @Test(
        "leaves everything else to the parser",
        arguments: [
            "", "{", "{}", "[]", "null", #"{"type":"response.output_text.delta"}"#, #"{"delta":"x"}"#,
            #"{"delta":"x","type":"response.output_text.delta"}"#, #"{"type":"response.output_text.done","delta":"x"}"#,
            #"{"type":"response.output_text.delta","delta":"x"}{}"#,
            #"{"type":"response.output_text.delta","delta":"x",}"#,
            #"{"type":"response.output_text.delta","delta":"x""#,
            #"{"type":"response.output_text.delta","delta":null}"#,
            #"{"type":"response.output_text.delta","delta":"x","item_id":null}"#,
            #"{"type":"response.output_text.delta","delta":"x","n":01}"#,
            #"{"type":"response.output_text.delta","delta":"x","n":nul}"#,
            #"{"type":"response.output_text.delta","delta":"x","n":[1]}"#,
            #"{"type":"response.output_text.delta","delta":"x","n":{}}"#,
            #"{"type":"response.output_text.delta","delta":"x","n":true}"#,
            #"{"type":"response.output_text.delta","de\u006cta":"x"}"#,
            #"{"type":"response.output_text\u002edelta","delta":"x"}"#,
        ])
    func leavesTheRestToTheParser(_ payload: String) {
        #expect(scan(Array(payload.utf8)) == nil)
    }

    @Test func agreesWithTheParserOnEveryChangedByte() {
        var taken = 0
        for payload in Self.payloads.map({ Array($0.utf8) }) {
            for index in payload.indices {
                for byte in UInt8.min...UInt8.max {
                    var changed = payload
                    changed[index] = byte
                    taken += check(changed)
                }
            }
        }
        #expect(taken > 1000)
    }

    /// - Returns: 1 when the scanner took the payload.
    private func check(_ payload: [UInt8]) -> Int {
        guard let delta = scan(payload) else { return 0 }
        guard let json = try? ChappieJSON(parsing: payload) else {
            Issue.record("not JSON: \(String(decoding: payload, as: UTF8.self))")
            return 1
        }
        // By bytes: two strings are equal in Swift when they look the same.
        let agrees =
            json["type"]?.string == "response.output_text.delta"
            && json["delta"]?.string.map { Array($0.utf8) } == Array(delta.text.utf8)
            && json["item_id"]?.string.map { Array($0.utf8) } == delta.itemID.map { Array($0.utf8) }
        if !agrees { Issue.record("they differ: \(String(decoding: payload, as: UTF8.self))") }
        return 1
    }

    private func scan(_ payload: [UInt8]) -> (text: String, itemID: String?)? {
        payload.withUnsafeBufferPointer(TextDeltaScanner.scan)
    }
}
