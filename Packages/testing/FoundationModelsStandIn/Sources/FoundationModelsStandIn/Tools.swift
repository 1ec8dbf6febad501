import ChappieCore

/// The schema of generated content, which is encoded as JSON Schema. The framework requires `title`,
/// `additionalProperties`, `required` and `x-order` of an object that it decodes.
public struct GenerationSchema: Sendable, Codable, CustomDebugStringConvertible {
    public var name: String { standInName }
    private let standInName: String
    private let json: ChappieJSON

    /// Creates a schema of JSON. The framework's schemas are made by a macro, or decoded.
    init(standInName: String, json: String) {
        self.standInName = standInName
        self.json = (try? ChappieJSON(parsing: json)) ?? .null
    }
    public init(from decoder: any Decoder) throws {
        json = try ChappieJSON(from: decoder)
        standInName = json["title"]?.string ?? ""
    }
    public func encode(to encoder: any Encoder) throws { try json.encode(to: encoder) }
    public var debugDescription: String { json.serialized() }
}

public protocol PromptRepresentable { var promptRepresentation: Prompt { get } }
public protocol InstructionsRepresentable { var instructionsRepresentation: Instructions { get } }
public struct Prompt: Sendable, PromptRepresentable {
    var standInSegments: [Transcript.Segment]
    public init(_ content: some PromptRepresentable) { self = content.promptRepresentation }
    init(standInText text: String) { standInSegments = [.text(.init(content: text))] }
    public var promptRepresentation: Prompt { self }
}
public struct Instructions: Sendable, InstructionsRepresentable {
    var standInSegments: [Transcript.Segment]
    public init(_ content: some InstructionsRepresentable) { self = content.instructionsRepresentation }
    init(standInText text: String) { standInSegments = [.text(.init(content: text))] }
    public var instructionsRepresentation: Instructions { self }
}
public protocol Tool<Arguments, Output>: Sendable {
    associatedtype Output: PromptRepresentable
    associatedtype Arguments: ConvertibleFromGeneratedContent
    var name: String { get }
    var description: String { get }
    var parameters: GenerationSchema { get }
    var includesSchemaInInstructions: Bool { get }
    @concurrent func call(arguments: Arguments) async throws -> Output
}
extension Tool {
    public var name: String { String(describing: Self.self) }
    public var includesSchemaInInstructions: Bool { true }
}
extension Tool where Arguments: Generable { public var parameters: GenerationSchema { Arguments.generationSchema } }
