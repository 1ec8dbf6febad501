public import ChappieCore

public struct GenerationOptions: Sendable, Equatable {
    public struct SamplingMode: Sendable, Equatable {
        public enum Kind: Sendable, Equatable {  // beta 1 and 2 had `top` and `nucleus`
            case greedy
            case randomTopK(Int, seed: UInt64?)
            case randomProbabilityThreshold(Double, seed: UInt64?)
        }
        public let kind: Kind
        public static var greedy: Self { .init(kind: .greedy) }
        public static func random(top k: Int, seed: UInt64? = nil) -> Self { .init(kind: .randomTopK(k, seed: seed)) }
        public static func random(probabilityThreshold: Double, seed: UInt64? = nil) -> Self {
            .init(kind: .randomProbabilityThreshold(probabilityThreshold, seed: seed))
        }
    }
    public struct ToolCallingMode: Sendable, Equatable {
        public enum Kind: Sendable, Equatable, Hashable { case allowed, required, disallowed }
        public var kind: Kind
        public static let allowed = Self(kind: .allowed)
        public static let required = Self(kind: .required)
        public static let disallowed = Self(kind: .disallowed)
    }
    public var samplingMode: SamplingMode?
    public var temperature: Double?
    public var maximumResponseTokens: Int?
    public var toolCallingMode: ToolCallingMode?
    public init(
        samplingMode: SamplingMode? = nil, temperature: Double? = nil, maximumResponseTokens: Int? = nil,
        toolCallingMode: ToolCallingMode? = nil
    ) {
        self.samplingMode = samplingMode
        self.temperature = temperature
        self.maximumResponseTokens = maximumResponseTokens
        self.toolCallingMode = toolCallingMode
    }
}
public struct ContextOptions: Sendable, Equatable {
    public enum ReasoningLevel: Sendable, Equatable {
        case light, moderate, deep
        case custom(String)
    }
    public var includeSchemaInPrompt: Bool?
    public var reasoningLevel: ReasoningLevel?
    public init(includeSchemaInPrompt: Bool? = nil, reasoningLevel: ReasoningLevel? = nil) {
        self.includeSchemaInPrompt = includeSchemaInPrompt
        self.reasoningLevel = reasoningLevel
    }
}

public struct Transcript: Sendable, Equatable, RandomAccessCollection, MutableCollection, RangeReplaceableCollection {
    private var entries: [Entry]
    public init() { entries = [] }
    public init(entries: some Sequence<Entry>) { self.entries = Array(entries) }
    public var startIndex: Int { 0 }
    public var endIndex: Int { entries.count }
    public subscript(position: Int) -> Entry {
        get { entries[position] }
        set { entries[position] = newValue }
    }
    public mutating func replaceSubrange<C: Collection>(_ subrange: Range<Int>, with newElements: C)
    where C.Element == Entry { entries.replaceSubrange(subrange, with: newElements) }

    /// An entry. Version 27.2 adds another case.
    public enum Entry: Sendable, Identifiable, Equatable {
        case instructions(Instructions)
        case prompt(Prompt)
        case toolCalls(ToolCalls)
        case toolOutput(ToolOutput)
        case response(Response)
        case reasoning(Reasoning)
        public var id: String {
            switch self {
            case .instructions(let entry): entry.id
            case .prompt(let entry): entry.id
            case .toolCalls(let entry): entry.id
            case .toolOutput(let entry): entry.id
            case .response(let entry): entry.id
            case .reasoning(let entry): entry.id
            }
        }
    }
    public enum Segment: Sendable, Identifiable, Equatable {
        case text(TextSegment)
        case structure(StructuredSegment)
        case attachment(AttachmentSegment)
        public var id: String {
            switch self {
            case .text(let segment): segment.id
            case .structure(let segment): segment.id
            case .attachment(let segment): segment.id
            }
        }
    }
    public struct TextSegment: Sendable, Identifiable, Equatable {
        public var id: String
        public var content: String
        public init(id: String = UUID().uuidString, content: String) {
            self.id = id
            self.content = content
        }
    }
    public struct StructuredSegment: Sendable, Identifiable, Equatable {
        public var id: String
        public var schemaName: String
        public var content: GeneratedContent
        public init(id: String = UUID().uuidString, schemaName: String, content: GeneratedContent) {
            self.id = id
            self.schemaName = schemaName
            self.content = content
        }
    }
    public struct AttachmentSegment: Sendable, Identifiable, Equatable {
        public var id: String
        public var content: Attachment
        public var label: String?
        public init(id: String = UUID().uuidString, content: Attachment, label: String? = nil) {
            self.id = id
            self.content = content
            self.label = label
        }
    }
    public enum Attachment: Sendable, Equatable { case image(ImageAttachment) }
    /// An image. On Apple's platforms it has pixels and an orientation too, and its `url` is `nil` if it was made of
    /// pixels.
    public struct ImageAttachment: Sendable, Equatable {
        public var url: URL?
        public init(imageURL: URL) { url = imageURL }
    }
    public struct Instructions: Sendable, Identifiable, Equatable {
        public var id: String
        public var segments: [Segment]
        public var toolDefinitions: [ToolDefinition]
        public init(id: String = UUID().uuidString, segments: [Segment], toolDefinitions: [ToolDefinition]) {
            self.id = id
            self.segments = segments
            self.toolDefinitions = toolDefinitions
        }
    }
    public struct Prompt: Sendable, Identifiable, Equatable {
        public var id: String
        public var metadata: [String: GeneratedContent]
        public var segments: [Segment]
        public var options: GenerationOptions
        public var responseFormat: ResponseFormat?
        public var contextOptions: ContextOptions
        public init(
            id: String = UUID().uuidString, metadata: [String: any ConvertibleToGeneratedContent] = [:],
            segments: [Segment], options: GenerationOptions = GenerationOptions(),
            responseFormat: ResponseFormat? = nil, contextOptions: ContextOptions = ContextOptions()
        ) {
            self.id = id
            self.metadata = metadata.mapValues(\.generatedContent)
            self.segments = segments
            self.options = options
            self.responseFormat = responseFormat
            self.contextOptions = contextOptions
        }
    }
    public struct ResponseFormat: Sendable, Equatable {
        public enum Kind: Sendable { case schema(GenerationSchema) }
        public let kind: Kind
        public var name: String {
            switch kind {
            case .schema(let schema): schema.name
            }
        }
        public init(schema: GenerationSchema) { kind = .schema(schema) }
        public static func == (one: Self, other: Self) -> Bool { one.name == other.name }
    }
    public struct ToolDefinition: Sendable, Equatable {
        public var name: String
        public var description: String
        public var parameters: GenerationSchema
        public init(name: String, description: String, parameters: GenerationSchema) {
            self.name = name
            self.description = description
            self.parameters = parameters
        }
        public init(tool: some Tool) {
            self.init(name: tool.name, description: tool.description, parameters: tool.parameters)
        }
        public static func == (one: Self, other: Self) -> Bool {
            one.name == other.name && one.description == other.description
                && one.parameters.debugDescription == other.parameters.debugDescription
        }
    }
    public struct ToolCalls: Sendable, Identifiable, Equatable, RandomAccessCollection {
        public var id: String
        private var calls: [ToolCall]
        public init<S: Sequence>(id: String = UUID().uuidString, _ calls: S) where S.Element == ToolCall {
            self.id = id
            self.calls = Array(calls)
        }
        public var startIndex: Int { 0 }
        public var endIndex: Int { calls.count }
        public subscript(position: Int) -> ToolCall { calls[position] }
    }
    public struct ToolCall: Sendable, Identifiable, Equatable {
        public var id: String
        public var metadata: [String: GeneratedContent]
        public var toolName: String
        public var arguments: GeneratedContent
        public init(
            id: String, metadata: [String: any ConvertibleToGeneratedContent] = [:], toolName: String,
            arguments: GeneratedContent
        ) {
            self.id = id
            self.metadata = metadata.mapValues(\.generatedContent)
            self.toolName = toolName
            self.arguments = arguments
        }
    }
    /// The output of a call, whose `id` is the call's.
    public struct ToolOutput: Sendable, Identifiable, Equatable {
        public var id: String
        public var toolName: String
        public var segments: [Segment]
        public init(id: String, toolName: String, segments: [Segment]) {
            self.id = id
            self.toolName = toolName
            self.segments = segments
        }
    }
    public struct Response: Sendable, Identifiable, Equatable {
        public var id: String
        public var metadata: [String: GeneratedContent]
        public var segments: [Segment]
        public init(
            id: String = UUID().uuidString, metadata: [String: any ConvertibleToGeneratedContent] = [:],
            segments: [Segment]
        ) {
            self.id = id
            self.metadata = metadata.mapValues(\.generatedContent)
            self.segments = segments
        }
    }
    public struct Reasoning: Sendable, Identifiable, Equatable {
        public var id: String
        public var metadata: [String: GeneratedContent]
        public var segments: [Segment]
        public var signature: Data?
        public init(
            id: String = UUID().uuidString, metadata: [String: any ConvertibleToGeneratedContent] = [:],
            segments: [Segment], signature: Data? = nil
        ) {
            self.id = id
            self.metadata = metadata.mapValues(\.generatedContent)
            self.segments = segments
            self.signature = signature
        }
    }
}
