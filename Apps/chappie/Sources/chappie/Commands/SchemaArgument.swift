@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieSDK

/// A schema in its short form: `name str, age int: in years, tags str[]`. Each field has a name, a type (str, int, float
/// or bool, default str, with [] for a list), and after a colon its meaning. Commas or line ends separate the fields.
struct ShortSchema {
    private static let types = ["str": "string", "int": "integer", "float": "number", "bool": "boolean"]

    let json: ChappieJSON

    /// Returns `nil` for one word, which is a file's name, and for the name of an existing file.
    ///
    /// - Throws: ``CommandLineError`` that names the field.
    init?(_ text: String) throws {
        guard text.contains(where: { $0 == "," || $0.isWhitespace }), !WholeFile.exists(text) else { return nil }
        var properties = ChappieJSONObject()
        // In a text with several lines, the meaning of a field may contain commas.
        let fields = text.contains("\n") ? text.split(separator: "\n") : text.split(separator: ",")
        for field in fields.map({ $0.trimmed }) where !field.isEmpty {
            let parts = field.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            let words = (parts.first ?? "").split(whereSeparator: \.isWhitespace).map(String.init)
            guard let name = words.first, words.count <= 2, properties[name] == nil,
                name.allSatisfy({ $0.isLetter || $0.isNumber || $0 == "_" || $0 == "-" }),
                let schema = Self.schema(ofType: words.count == 2 ? words[1] : "str")
            else {
                throw CommandLineError.usage(
                    "The schema's field \"\(field.prefix(100))\" can't be used.",
                    suggestion:
                        "Write fields as: name str, age int: in years. Types: str, int, float, bool, and str[] for a list."
                )
            }
            var property = schema
            if parts.count == 2 { property["description"] = .string(parts[1].trimmed) }
            properties[name] = .object(property)
        }
        let names = properties.members.map { ChappieJSON.string($0.name) }
        json = [
            "type": "object", "properties": .object(properties), "required": .array(names),
            "additionalProperties": false,
        ]
    }

    private static func schema(ofType word: String) -> ChappieJSONObject? {
        let isList = word.hasSuffix("[]")
        guard let type = types[isList ? String(word.dropLast(2)) : word] else { return nil }
        return isList ? ["type": "array", "items": ["type": .string(type)]] : ["type": .string(type)]
    }
}

/// Documents that contain a JSON Schema.
enum SchemaDocument {
    /// Returns the schema in a document, which may be in the wrapping of a request to a service.
    static func schema(in document: ChappieJSON) -> ChappieJSON {
        if document["type"] == "json_schema", let inner = document["json_schema"] { return schema(in: inner) }
        let isWrapping = document["type"] == "json_schema" || document["name"]?.string != nil
        guard isWrapping, let schema = document["schema"], schema.object != nil, document["properties"] == nil else {
            return document
        }
        return schema
    }

    /// Returns the schema of an object whose member `items` is a list of values with this schema. Its definitions
    /// become those of the object.
    static func list(of schema: ChappieJSON) -> ChappieJSON {
        var element = pointing(schema, rootAt: "#/properties/items/items").object ?? [:]
        var list: ChappieJSONObject = [
            "type": "object", "properties": [:], "required": ["items"], "additionalProperties": false,
        ]
        for name in ["$schema", "$defs", "definitions"] {
            list[name] = element[name]
            element[name] = nil
        }
        list["properties"] = ["items": ["type": "array", "items": .object(element)]]
        return .object(list)
    }

    /// Returns the schema with other references to its root.
    private static func pointing(_ json: ChappieJSON, rootAt place: String) -> ChappieJSON {
        switch json {
        case .array(let elements): .array(elements.map { pointing($0, rootAt: place) })
        case .object(let object):
            .object(
                ChappieJSONObject(
                    object.members.map { member in
                        let isRoot = member.name == "$ref" && member.value == "#"
                        return (member.name, isRoot ? .string(place) : pointing(member.value, rootAt: place))
                    }))
        default: json
        }
    }
}
