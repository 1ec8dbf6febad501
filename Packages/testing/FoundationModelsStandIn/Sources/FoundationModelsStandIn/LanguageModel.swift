public import ChappieCore

public struct LanguageModelCapabilities: Sendable {
    public struct Capability: Sendable, Hashable {
        let name: String
        public static var vision: Self { .init(name: "vision") }
        public static var guidedGeneration: Self { .init(name: "guidedGeneration") }
        public static var reasoning: Self { .init(name: "reasoning") }
        public static var toolCalling: Self { .init(name: "toolCalling") }
    }
    private let all: Set<Capability>
    public init(_ capabilities: [Capability]) { all = Set(capabilities) }
    public func contains(_ capability: Capability) -> Bool { all.contains(capability) }
}
public protocol LanguageModel: Sendable {
    associatedtype Executor: LanguageModelExecutor where Executor.Model == Self
    var capabilities: LanguageModelCapabilities { get }
    var executorConfiguration: Executor.Configuration { get }
}
public protocol LanguageModelExecutor: Sendable {
    associatedtype Configuration: Hashable, Sendable
    associatedtype Model: LanguageModel
    init(configuration: Configuration) throws
    nonisolated(nonsending) func respond(
        to request: LanguageModelExecutorGenerationRequest, model: Model,
        streamingInto channel: LanguageModelExecutorGenerationChannel
    ) async throws
    func prewarm(model: Model, transcript: Transcript)
}
extension LanguageModelExecutor { public func prewarm(model: Model, transcript: Transcript) {} }

public struct LanguageModelExecutorGenerationRequest: Sendable {
    public var id: UUID
    public var transcript: Transcript
    public var enabledToolDefinitions: [Transcript.ToolDefinition]
    public var schema: GenerationSchema?
    public var generationOptions: GenerationOptions
    public var contextOptions: ContextOptions
    public var metadata: [String: GeneratedContent]
    /// Creates a request. The framework too calls the third parameter `enabledTools`.
    public init(
        id: UUID, transcript: Transcript, enabledTools: [Transcript.ToolDefinition], schema: GenerationSchema? = nil,
        generationOptions: GenerationOptions, contextOptions: ContextOptions,
        metadata: [String: any ConvertibleToGeneratedContent]
    ) {
        self.id = id
        self.transcript = transcript
        enabledToolDefinitions = enabledTools
        self.schema = schema
        self.generationOptions = generationOptions
        self.contextOptions = contextOptions
        self.metadata = metadata.mapValues(\.generatedContent)
    }
}
