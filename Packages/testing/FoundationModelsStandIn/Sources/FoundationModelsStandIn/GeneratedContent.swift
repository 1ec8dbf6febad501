// Declarations of the part of Apple's framework FoundationModels (version 27.0 of the systems) that a provider of models
// uses, with a small session that runs it. They were written from public descriptions of the interface, for builds and
// tests on Linux. On Apple's platforms the framework itself is imported. Nothing here shows how the framework behaves,
// except where a comment says "as there". Macros, dynamic instructions, Apple's own models, images made of pixels, and
// what version 27.2 adds are left out.

public import ChappieCore

/// JSON that a model wrote, with the order of its members.
public struct GeneratedContent: Sendable, Equatable {
    public indirect enum Kind: Sendable, Equatable {
        case null
        case bool(Bool)
        case number(Double)
        case string(String)
        case array([GeneratedContent])
        case structure(properties: [String: GeneratedContent], orderedKeys: [String])
    }

    public struct ParsingError: LocalizedError, Sendable {
        public var rawContent: String
        public var underlyingError: (any Swift.Error)?
        public var debugDescription: String
        public var errorDescription: String? { debugDescription }
    }

    public var kind: Kind
    public init(kind: Kind) { self.kind = kind }
    public init(_ value: some ConvertibleToGeneratedContent) { self = value.generatedContent }
    public init(properties: KeyValuePairs<String, any ConvertibleToGeneratedContent>) {
        kind = .structure(
            properties: Dictionary(properties.map { ($0.key, $0.value.generatedContent) }) { $1 },
            orderedKeys: properties.map(\.key))
    }

    /// Reads JSON. The framework also accepts incomplete JSON, which is an error here.
    public init(json: String) throws {
        do {
            self.init(try ChappieJSON(parsing: json))
        } catch {
            throw ParsingError(rawContent: json, underlyingError: error, debugDescription: "It is not JSON.")
        }
    }

    public var jsonString: String { json.serialized() }
    public var isComplete: Bool { true }

    public func value<Value: ConvertibleFromGeneratedContent>(_ type: Value.Type = Value.self) throws -> Value {
        try Value(self)
    }
    public func value<Value: ConvertibleFromGeneratedContent>(
        _ type: Value.Type = Value.self, forProperty property: String
    ) throws -> Value {
        guard case .structure(let properties, _) = kind, let content = properties[property] else {
            throw ParsingError(rawContent: jsonString, debugDescription: "There is no \(property).")
        }
        return try Value(content)
    }
}

extension GeneratedContent {
    /// Creates content from JSON. Members keep their order.
    init(_ json: ChappieJSON) {
        switch json {
        case .null: kind = .null
        case .bool(let bool): kind = .bool(bool)
        case .number(let number): kind = .number(number.double ?? 0)
        case .string(let text): kind = .string(text)
        case .array(let elements): kind = .array(elements.map { GeneratedContent($0) })
        case .object(let object):
            kind = .structure(
                properties: Dictionary(object.members.map { ($0.name, GeneratedContent($0.value)) }) { $1 },
                orderedKeys: object.names)
        }
    }

    /// The content as JSON, with its members in their order.
    var json: ChappieJSON {
        switch kind {
        case .null: .null
        case .bool(let bool): .bool(bool)
        case .number(let number): .number(number)
        case .string(let text): .string(text)
        case .array(let elements): .array(elements.map(\.json))
        case .structure(let properties, let names):
            .object(ChappieJSONObject(names.compactMap { name in properties[name].map { (name, $0.json) } }))
        }
    }
}

public protocol ConvertibleFromGeneratedContent: SendableMetatype { init(_ content: GeneratedContent) throws }
public protocol ConvertibleToGeneratedContent: PromptRepresentable, InstructionsRepresentable {
    var generatedContent: GeneratedContent { get }
}
public protocol Generable: ConvertibleFromGeneratedContent, ConvertibleToGeneratedContent {
    associatedtype PartiallyGenerated: ConvertibleFromGeneratedContent = Self
    static var generationSchema: GenerationSchema { get }
}

extension ConvertibleToGeneratedContent {
    public var promptRepresentation: Prompt { Prompt(standInText: generatedContent.jsonString) }
    public var instructionsRepresentation: Instructions { Instructions(standInText: generatedContent.jsonString) }
}
extension GeneratedContent: Generable {
    public init(_ content: GeneratedContent) throws { self = content }
    public var generatedContent: GeneratedContent { self }
    public static var generationSchema: GenerationSchema {
        GenerationSchema(standInName: "GeneratedContent", json: "{}")
    }
}
private func standInMismatch(_ content: GeneratedContent, _ wanted: String) -> GeneratedContent.ParsingError {
    .init(rawContent: content.jsonString, debugDescription: "It is no \(wanted).")
}
extension String: Generable {
    public init(_ content: GeneratedContent) throws {
        guard case .string(let text) = content.kind else { throw standInMismatch(content, "string") }
        self = text
    }
    public var generatedContent: GeneratedContent { GeneratedContent(kind: .string(self)) }
    public static var generationSchema: GenerationSchema {
        GenerationSchema(standInName: "String", json: #"{"type":"string"}"#)
    }
    public var promptRepresentation: Prompt { Prompt(standInText: self) }
    public var instructionsRepresentation: Instructions { Instructions(standInText: self) }
}
extension Bool: Generable {
    public init(_ content: GeneratedContent) throws {
        guard case .bool(let bool) = content.kind else { throw standInMismatch(content, "Boolean") }
        self = bool
    }
    public var generatedContent: GeneratedContent { GeneratedContent(kind: .bool(self)) }
    public static var generationSchema: GenerationSchema {
        GenerationSchema(standInName: "Bool", json: #"{"type":"boolean"}"#)
    }
}
extension Int: Generable {
    public init(_ content: GeneratedContent) throws {
        guard case .number(let number) = content.kind, let whole = Int(exactly: number) else {
            throw standInMismatch(content, "integer")
        }
        self = whole
    }
    public var generatedContent: GeneratedContent { GeneratedContent(kind: .number(Double(self))) }
    public static var generationSchema: GenerationSchema {
        GenerationSchema(standInName: "Int", json: #"{"type":"integer"}"#)
    }
}
