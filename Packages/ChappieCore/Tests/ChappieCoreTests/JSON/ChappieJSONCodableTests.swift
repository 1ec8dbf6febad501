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
        let first = try JSONDecoder().decode(ChappieJSON.self, from: Data(#"{"b":1,"a":2}"#.utf8))
        let second = try JSONDecoder().decode(ChappieJSON.self, from: Data(#"{"a":2,"b":1}"#.utf8))
        #expect(first == second)
    }

    @Test func anItemSurvivesAsItCame() throws {
        let item = ChappieOutputItem(["id": "x_1", "type": "something_new", "n": 18_446_744_073, "deep": [["a": nil]]])
        let data = try JSONEncoder().encode(item)
        let again = try JSONDecoder().decode(ChappieOutputItem.self, from: data)
        #expect(again.type == "something_new" && again.id == "x_1")
        #expect(again.json["deep"] == item.json["deep"] && again.json["n"] == item.json["n"])
    }
}
