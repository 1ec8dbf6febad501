@_spi(ChappieInternals) import ChappieCore
import ChappieJSONSchema
import TestFixtures
import Testing

private struct Trip: Decodable, ChappieJSONSchemaProviding {
    enum Vehicle: String, Decodable, CaseIterable { case train, bicycle = "bike" }
    struct Town: Decodable, Equatable {
        var name: String
        var inhabitants: UInt?
    }
    var towns: [Town]
    var vehicle: Vehicle
    var spare: Vehicle?
    var days: Int?
    var price: Double
    var isBooked: Bool
    var start: Date
    var page: URL?
    var id: UUID
    var ticket: Data
    var notes: [String: [String?]]
    var extra: ChappieJSONValue?
}

private enum Priority: Int, Decodable, CaseIterable { case low = 1, high = 9 }

private enum Shade: String, Decodable { case dark, light }

/// Says by itself what it looks like, since an enum that is not `CaseIterable` can't be looked through.
private enum Colour: String, Decodable, ChappieJSONSchemaProviding {
    case red, blue
    static var jsonSchema: ChappieJSONSchema { ["type": "string", "enum": ["red", "blue"]] }
}

private struct Named: RawRepresentable, Decodable { var rawValue: String }

private struct Custom: Decodable {
    enum Keys: String, CodingKey { case size, inner, list }
    enum Inner: String, CodingKey { case depth }
    let size: Int

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Keys.self)
        size = try container.decodeIfPresent(Int.self, forKey: .size) ?? 3
        _ = try container.nestedContainer(keyedBy: Inner.self, forKey: .inner).decode(Named.self, forKey: .depth)
        var list = try container.nestedUnkeyedContainer(forKey: .list)
        while !list.isAtEnd { _ = try list.decode(Priority.self) }
    }
}

private final class Node: Decodable, Sendable { let next: Node? }
private struct Ring: Decodable, ChappieJSONSchemaProviding { let others: [Ring] }
private enum Payload: Decodable { case text(String), number(Int) }
private struct Mixed: Decodable {
    init(from decoder: any Decoder) throws {
        var container = try decoder.unkeyedContainer()
        _ = try (container.decode(Int.self), container.decode(String.self))
    }
}
private struct Even: Decodable {
    init(from decoder: any Decoder) throws {
        let text = try decoder.singleValueContainer().decode(String.self)
        guard !text.isEmpty else {
            throw DecodingError.valueNotFound(String.self, .init(codingPath: [], debugDescription: ""))
        }
    }
}
private struct Empty: Decodable {}
private struct Event: Decodable { let due: Date }
private struct Pair<Value: Decodable & Sendable>: Decodable, Sendable { let value: Value }
private struct Referring: Decodable, ChappieJSONSchemaProviding {
    static var jsonSchema: ChappieJSONSchema { ["$ref": "#/$defs/a", "$defs": ["a": [:]]] }
}

typealias SampleType = any (Decodable & Sendable).Type

@Suite struct DerivedSchemaTests {
    @Test func membersOptionalsEnumsAndStrings() throws {
        let expected = """
            {"type":"object","properties":{"towns":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},\
            "inhabitants":{"type":["integer","null"],"minimum":0}},"required":["name","inhabitants"],"additionalProperties":false}},\
            "vehicle":{"type":"string","enum":["train","bike"]},"spare":{"type":["string","null"],"enum":["train","bike",null]},\
            "days":{"type":["integer","null"]},"price":{"type":"number"},"isBooked":{"type":"boolean"},\
            "start":{"type":"string","format":"date-time"},"page":{"type":["string","null"],"description":"A URL."},\
            "id":{"type":"string","format":"uuid"},"ticket":{"type":"string","description":"In base64."},\
            "notes":{"type":"object","additionalProperties":{"type":"array","items":{"type":["string","null"]}}},"extra":{}},\
            "required":["towns","vehicle","spare","days","price","isBooked","start","page","id","ticket","notes","extra"],\
            "additionalProperties":false}
            """
        let schema = try ChappieJSONSchema.derived(from: Trip.self)
        #expect(schema.json.serialized() == expected)
        #expect(Trip.jsonSchema == schema)
        try schema.check()
    }

    @Test(arguments: ["2026-11-22T08:00:00Z", "2026-11-22T08:00:00.25Z"])
    func whatFitsIsDecoded(_ date: String) throws {
        let text = """
            {"towns":[{"name":"Ulm","inhabitants":null}],"vehicle":"bike","spare":null,"days":2,"price":1.5,"isBooked":true,\
            "start":"\(date)","page":"https://example.com/a","id":"2F0C2D5E-9B8B-4C0E-8A65-0F6E0F5E1B11","ticket":"YWI=",\
            "notes":{"a":["b",null]},"extra":{"x":[1]}}
            """
        #expect(try Trip.jsonSchema.violations(in: json(text)).isEmpty)
        let trip = try ChappieJSONSchema.decoder.decode(Trip.self, from: Data(text.utf8))
        #expect(
            trip.towns == [Trip.Town(name: "Ulm", inhabitants: nil)] && trip.vehicle == .bicycle && trip.spare == nil)
        #expect(trip.start.timeIntervalSince1970.rounded(.down) == 1_795_334_400 && trip.ticket == Data("ab".utf8))
        #expect(trip.notes == ["a": ["b", nil]] && trip.extra == json(#"{"x":[1]}"#))
    }

    private func due(_ text: String) throws -> Double {
        let json = Data("{\"due\":\"\(text)\"}".utf8)
        return try ChappieJSONSchema.decoder.decode(Event.self, from: json).due.timeIntervalSince1970
    }

    @Test func datesAreReadWithATimeAndWithout() throws {
        let midnight = 1_795_478_400.0
        #expect(try due("2026-11-24") == midnight)
        #expect(try due("2026-11-24T00:00:00Z") == midnight)
        #expect(try due("2026-11-24T02:00:00+02:00") == midnight)
        #expect(try abs(due("2026-11-24T00:00:00.5Z") - midnight - 0.5) < 0.01)
        for text in ["tomorrow", "2026-11-24 soon", "2026-02-31", "2026-11-24T08:00:00", "2026-11-24T99", ""] {
            do {
                _ = try due(text)
                Issue.record("\(text) was read")
            } catch DecodingError.dataCorrupted(let context) {
                #expect(context.codingPath.map(\.stringValue) == ["due"])
            }
        }
    }

    @Test(
        "other shapes",
        arguments: [
            (Int.self, #"{"type":"integer"}"#), ([Int]?.self, #"{"type":["array","null"],"items":{"type":"integer"}}"#),
            (Priority.self, #"{"type":"integer","enum":[1,9]}"#), (Named.self, #"{"type":"string"}"#),
            (Set<UInt8>.self, #"{"type":"array","items":{"type":"integer","minimum":0}}"#),
            ([Int: Bool].self, #"{"type":"object","additionalProperties":{"type":"boolean"}}"#),
            (Colour?.self, #"{"type":["string","null"],"enum":["red","blue",null]}"#),
            (
                Pair<Colour>.self,
                ##"{"type":"object","properties":{"value":{"type":"string","enum":["red","blue"]}},"required":["value"],"additionalProperties":false}"##
            ),
            (Empty.self, #"{"type":"object","properties":{},"required":[],"additionalProperties":false}"#),
            (
                Custom.self,
                ##"{"type":"object","properties":{"size":{"type":["integer","null"]},"inner":{"type":"object","properties":{"depth":{"type":"string"}},"required":["depth"],"additionalProperties":false},"list":{"type":"array","items":{"type":"integer","enum":[1,9]}}},"required":["size","inner","list"],"additionalProperties":false}"##
            ),
        ] as [(SampleType, String)])
    func otherShapes(_ type: SampleType, _ expected: String) throws {
        let schema = try ChappieJSONSchema.derived(from: type)
        #expect(schema.json.serialized() == expected)
        try schema.check()
    }

    @Test(
        "says why there is none",
        arguments: [
            (Node.self, "/properties/next", "Node contains itself"),
            (Ring.self, "/properties/others/items", "Ring contains itself"),
            (Payload.self, "", "Payload can't be decoded from a sample"), (Shade.self, "", "CaseIterable"),
            (Pair<Shade?>.self, "/properties/value", "Shade"), (Mixed.self, "", "different types"),
            (Pair<Even>.self, "/properties/value", "Even can't be decoded"),
            (Pair<Referring>.self, "/properties/value", "references"),
        ] as [(SampleType, String, String)])
    func refuses(_ type: SampleType, _ path: String, _ reason: String) throws {
        let error = try #require(throws: ChappieJSONSchemaError.self) { try ChappieJSONSchema.derived(from: type) }
        #expect(error.path == path && error.reason.contains(reason), "\(error)")
    }

    @Test func `a type without a schema is refused where its schema is checked`() throws {
        let error = try #require(throws: ChappieJSONSchemaError.self) { try Ring.jsonSchema.check() }
        #expect(error.reason.contains("contains itself") && error.reason.contains("/properties/others/items"))
        #expect(throws: ChappieJSONSchemaError.self) { try ChappieJSONSchema(Ring.jsonSchema.json).violations(in: [:]) }
    }
}
