@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Testing

@Suite struct ChappieJSONCodableTests {
    @Test(
        "survives JSONEncoder and JSONDecoder",
        arguments: [
            "null", "true", "0", "-1", "1.5", #""é😀\u0000\"""#, "[]", "{}", "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808", "18446744073709551615", #"{"a":[1,{"b":null}],"c":{"d":"e"},"f":[[],[true,false]]}"#,
        ])
    func survivesARoundTrip(_ text: String) throws {
        let value = try ChappieJSON(parsing: text)
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        let data = try encoder.encode(value)
        #expect(try JSONDecoder().decode(ChappieJSON.self, from: data) == value)
        // What the encoder wrote is what our own parser reads, too.
        #expect(try ChappieJSON(parsing: Array(data)) == value)
    }

    @Test func decodesInsideOtherTypes() throws {
        struct Envelope: Codable, Equatable {
            var id: Int
            var payload: ChappieJSON
            var missing: ChappieJSON?
        }
        let envelope = Envelope(id: 1, payload: ["a": [1, 2]], missing: nil)
        let data = try JSONEncoder().encode(envelope)
        #expect(try JSONDecoder().decode(Envelope.self, from: data) == envelope)
        let null = try JSONDecoder().decode(Envelope.self, from: Data(#"{"id":1,"payload":null}"#.utf8))
        #expect(null.payload == .null)
    }

    @Test func decodesTheSameWhateverTheOrderOfMembers() throws {
        let orders = try [#"{"b":1,"a":2}"#, #"{"a":2,"b":1}"#].map {
            try JSONDecoder().decode(ChappieJSON.self, from: Data($0.utf8))
        }
        #expect(orders[0] == orders[1])
    }

    @Test func anItemSurvivesAsItCame() throws {
        let item = ChappieOutputItem(["deep": [["a": nil]], "id": "x_1", "n": 18_446_744_073, "type": "something_new"])
        #expect(try JSONDecoder().decode(ChappieOutputItem.self, from: JSONEncoder().encode(item)) == item)
    }
}
