@_spi(ChappieInternals) import ChappieCore
import Testing

@Suite struct ChappieJSONValueTests {
    @Test func literalsReadLikeJSON() {
        let value: ChappieJSON = [
            "model": "gpt-6-sol", "stream": true, "input": [1, 2.5, nil, [:], []], "quote": "\"\\\n\u{01}",
        ]
        #expect(
            value.serialized()
                == #"{"model":"gpt-6-sol","stream":true,"input":[1,2.5,null,{},[]],"quote":"\"\\\n\u0001"}"#)
    }

    @Test func casesTakeSwiftsOwnValues() {
        let (count, price, name) = (3, 2.5, "tea")
        let value: ChappieJSON = .object([
            "z": .array([.number(1), .number(2.5), .number(count), .number(price), .number(Double.nan)]),
            "a": "a cup of \(name)", "b": .string(name), "c": .bool(true), "d": .null,
        ])
        #expect(
            value.serialized() == #"{"z":[1,2.5,3,2.5,null],"a":"a cup of tea","b":"tea","c":true,"d":null}"#)
    }

    @Test func keepsTheOrderOfMembers() throws {
        let text = #"{"z":1,"a":{"y":2,"b":3},"m":4}"#
        let value = try ChappieJSON(parsing: text)
        #expect(value.object?.names == ["z", "a", "m"])
        #expect(value.serialized() == text)
    }

    @Test func theLastOfTwoEqualNamesCounts() throws {
        var object = try #require(try ChappieJSON(parsing: #"{"a":1,"b":2,"a":3}"#).object)
        #expect(object["a"] == 3)
        object["a"] = 4
        #expect(ChappieJSON.object(object).serialized() == #"{"a":1,"b":2,"a":4}"#)
        object["a"] = nil
        #expect(ChappieJSON.object(object).serialized() == #"{"b":2}"#)
        object["c"] = nil
        object["c"] = 5
        #expect(ChappieJSON.object(object).serialized() == #"{"b":2,"c":5}"#)
    }

    @Test func readersGiveNilForOtherKinds() throws {
        let value = try ChappieJSON(parsing: #"{"s":"x","n":1,"b":true,"z":null,"a":[1],"o":{}}"#)
        #expect(value["s"]?.string == "x")
        #expect(value["s"]?.int == nil)
        #expect(value["s"]?.array == nil)
        #expect(value["n"]?.int == 1)
        #expect(value["n"]?.bool == nil)
        #expect(value["n"]?.string == nil)
        #expect(value["b"]?.bool == true)
        #expect(value["b"]?.int == nil)
        #expect(value["b"]?.double == nil)
        #expect(value["z"]?.isNull == true && value["z"]?.object == nil)
        #expect(value["a"]?[0] == 1 && value["a"]?[1] == nil && value["a"]?[-1] == nil && value["a"]?["0"] == nil)
        #expect(value["o"]?.object?.isEmpty == true && value["o"]?[0] == nil)
        #expect(value["missing"] == nil && ChappieJSON.null["x"] == nil)
    }

    @Test func everyControlCharacterIsEscaped() throws {
        for scalar in (0..<0x20).compactMap({ Unicode.Scalar(UInt32($0)) }) + ["\u{7F}", "\"", "\\"] {
            let value = ChappieJSON.string("a\(scalar)b")
            let bytes = value.serializedBytes()
            #expect(bytes.allSatisfy { $0 >= 0x20 && $0 < 0x7F })
            #expect(try ChappieJSON(parsing: bytes) == value)
        }
    }

    @Test func objectsAreEqualWhateverTheirOrder() throws {
        let one: ChappieJSONValue = ["a": 1, "b": ["c": 2, "d": 3]]
        let other: ChappieJSONValue = ["b": ["d": 3, "c": 2], "a": 1]
        #expect(one == other && one.hashValue == other.hashValue)
        #expect(one.serialized() != other.serialized() && one.object?.members != other.object?.members)
        #expect(
            one != ["a": 1, "b": ["c": 2, "d": 4]] && one != ["a": 1]
                && one != ["a": 1, "b": ["c": 2, "d": 3], "e": 1])
        // Of doubled names the last one counts.
        #expect(try ChappieJSON(parsing: #"{"a":1,"a":2}"#) == ["a": 2])
        #expect(try ChappieJSON(parsing: #"{"a":1,"a":2}"#) == ChappieJSON(parsing: #"{"a":3,"a":2}"#))
        #expect(try ChappieJSON(parsing: #"{"a":1,"a":2}"#) != ChappieJSON(parsing: #"{"a":1,"a":3}"#))
        let decoded = try JSONDecoder().decode(ChappieJSONValue.self, from: JSONEncoder().encode(other))
        #expect(decoded == other)
    }

    /// Compared twice on each level, these would take longer than the machine lives.
    @Test(arguments: [#"{"a":"#, #"{"a":0,"a":"#, #"{"b":[0],"a":"#])
    func `values that differ at the deepest level are compared once`(level: String) throws {
        func nested(_ value: Int, in level: String) throws -> ChappieJSON {
            try ChappieJSON(
                parsing: String(repeating: level, count: 200) + "\(value)" + String(repeating: "}", count: 200))
        }
        #expect(try nested(1, in: level) != nested(2, in: level))
        #expect(try nested(1, in: level) == nested(1, in: level))
    }
}
