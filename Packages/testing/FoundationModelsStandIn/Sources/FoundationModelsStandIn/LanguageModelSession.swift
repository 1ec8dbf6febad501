public import ChappieCore
import Synchronization

extension LanguageModelSession {
    public struct Usage: Sendable {
        public var input = LanguageModelExecutorGenerationChannel.Usage.Input(totalTokenCount: 0, cachedTokenCount: 0)
        public var output = LanguageModelExecutorGenerationChannel.Usage.Output(
            totalTokenCount: 0, reasoningTokenCount: 0)
        public var totalTokenCount: Int { input.totalTokenCount + output.totalTokenCount }
        mutating func add(_ other: LanguageModelExecutorGenerationChannel.Usage) {
            input.totalTokenCount += other.input.totalTokenCount
            input.cachedTokenCount += other.input.cachedTokenCount
            output.totalTokenCount += other.output.totalTokenCount
            output.reasoningTokenCount += other.output.reasoningTokenCount
        }
    }
    public struct Response<Content: Generable> {
        public let content: Content
        public let rawContent: GeneratedContent
        public let transcriptEntries: ArraySlice<Transcript.Entry>
        public let usage: Usage
    }
    public struct ResponseStream<Content: Generable>: AsyncSequence {
        public struct Snapshot {
            public var content: Content.PartiallyGenerated
            public var rawContent: GeneratedContent
        }
        public typealias Element = Snapshot
        let texts: AsyncThrowingStream<String, any Swift.Error>
        public struct AsyncIterator: AsyncIteratorProtocol {
            var texts: AsyncThrowingStream<String, any Swift.Error>.AsyncIterator
            public mutating func next() async throws -> Snapshot? { try await next(isolation: #isolation) }
            public mutating func next(isolation actor: isolated (any Actor)?) async throws -> Snapshot? {
                while let text = try await texts.next(isolation: actor) {
                    let raw = Content.self == String.self ? GeneratedContent(text) : try? GeneratedContent(json: text)
                    // The framework completes partial JSON. Here only complete JSON is a snapshot.
                    if let raw, let content = try? Content.PartiallyGenerated(raw) {
                        return Snapshot(content: content, rawContent: raw)
                    }
                }
                return nil
            }
        }
        public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(texts: texts.makeAsyncIterator()) }
    }
    public enum Error: LocalizedError, Hashable { case concurrentRequests, transcriptMutationWhileResponding }
    public struct ToolCallError: LocalizedError {
        public var tool: any Tool
        public var underlyingError: any Swift.Error
    }
}

/// A session, which runs one request at a time.
public final class LanguageModelSession: Sendable {
    private struct State {
        var transcript: Transcript
        var usage = Usage()
        var isResponding = false
    }
    typealias Run =
        @Sendable (LanguageModelExecutorGenerationRequest, LanguageModelExecutorGenerationChannel) async throws -> Void
    private let state: Mutex<State>
    private let tools: [any Tool]
    private let capabilities: LanguageModelCapabilities
    private let run: Run
    private let warm: @Sendable (Transcript) throws -> Void
    /// The maximum number of rounds of one response. The framework has no known limit.
    private static let rounds = 50

    public convenience init(model: some LanguageModel, tools: [any Tool] = [], instructions: String? = nil) {
        self.init(model: model, tools: tools, instructions: instructions.map { Instructions($0) })
    }
    public convenience init(model: some LanguageModel, tools: [any Tool] = [], instructions: Instructions?) {
        let isEmpty = instructions == nil && tools.isEmpty
        let entry = Transcript.Instructions(
            segments: instructions?.standInSegments ?? [], toolDefinitions: tools.map { Self.definition(of: $0) })
        self.init(model: model, tools: tools, transcript: Transcript(entries: isEmpty ? [] : [.instructions(entry)]))
    }
    public init<Model: LanguageModel>(model: Model, tools: [any Tool] = [], transcript: Transcript) {
        self.tools = tools
        capabilities = model.capabilities
        state = Mutex(State(transcript: transcript))
        // An executor that can't be made is an error of the first request.
        run = { request, channel in
            let executor = try Executors.executor(of: model)
            try await executor.respond(to: request, model: model, streamingInto: channel)
        }
        warm = { try Executors.executor(of: model).prewarm(model: model, transcript: $0) }
    }

    public var transcript: Transcript { state.withLock(\.transcript) }
    public var usage: Usage { state.withLock(\.usage) }
    public var isResponding: Bool { state.withLock(\.isResponding) }
    public func prewarm(promptPrefix: Prompt? = nil) { try? warm(transcript) }

    public func respond(
        to prompt: String, options: GenerationOptions = GenerationOptions(),
        contextOptions: ContextOptions = ContextOptions(), metadata: [String: any ConvertibleToGeneratedContent] = [:]
    ) async throws -> Response<String> {
        try await respond(to: Prompt(prompt), options: options, contextOptions: contextOptions, metadata: metadata)
    }
    public func respond(
        to prompt: Prompt, options: GenerationOptions = GenerationOptions(),
        contextOptions: ContextOptions = ContextOptions(), metadata: [String: any ConvertibleToGeneratedContent] = [:]
    ) async throws -> Response<String> {
        let (text, entries, usage) = try await answer(prompt, nil, options, contextOptions, metadata) { _ in }
        return Response(content: text, rawContent: GeneratedContent(text), transcriptEntries: entries, usage: usage)
    }
    public func respond<Content: Generable>(
        to prompt: String, generating type: Content.Type = Content.self,
        options: GenerationOptions = GenerationOptions(),
        contextOptions: ContextOptions = ContextOptions(includeSchemaInPrompt: true),
        metadata: [String: any ConvertibleToGeneratedContent] = [:]
    ) async throws -> Response<Content> {
        let (text, entries, usage) = try await answer(
            Prompt(prompt), Content.generationSchema, options, contextOptions, metadata
        ) { _ in }
        let raw = try GeneratedContent(json: text)
        return Response(content: try Content(raw), rawContent: raw, transcriptEntries: entries, usage: usage)
    }
    public func streamResponse(
        to prompt: String, options: GenerationOptions = GenerationOptions(),
        contextOptions: ContextOptions = ContextOptions(), metadata: [String: any ConvertibleToGeneratedContent] = [:]
    ) -> ResponseStream<String> {
        let (texts, continuation) = AsyncThrowingStream<String, any Swift.Error>.makeStream()
        let values = metadata.mapValues(\.generatedContent)
        let task = Task {
            do {
                _ = try await answer(Prompt(prompt), nil, options, contextOptions, values) { continuation.yield($0) }
                continuation.finish()
            } catch { continuation.finish(throwing: error) }
        }
        continuation.onTermination = { _ in task.cancel() }
        return ResponseStream(texts: texts)
    }

    // MARK: A request

    private static func definition(of tool: some Tool) -> Transcript.ToolDefinition { .init(tool: tool) }

    private func answer(
        _ prompt: Prompt, _ schema: GenerationSchema?, _ options: GenerationOptions, _ context: ContextOptions,
        _ metadata: [String: any ConvertibleToGeneratedContent], _ onText: @escaping @Sendable (String) -> Void
    ) async throws -> (String, ArraySlice<Transcript.Entry>, Usage) {
        let before = try state.withLock { state in
            guard !state.isResponding else { throw Error.concurrentRequests }
            state.isResponding = true
            return state.transcript
        }
        defer { state.withLock { $0.isResponding = false } }
        try check(prompt, schema, options, context)
        var transcript = before
        var usage = Usage()
        transcript.append(
            .prompt(
                .init(
                    metadata: metadata, segments: prompt.standInSegments, options: options,
                    responseFormat: schema.map(Transcript.ResponseFormat.init), contextOptions: context)))
        let definitions = tools.map { Self.definition(of: $0) }
        for _ in 0..<Self.rounds {
            let request = LanguageModelExecutorGenerationRequest(
                id: UUID(), transcript: transcript, enabledTools: definitions, schema: schema,
                generationOptions: options, contextOptions: context, metadata: metadata)
            let channel = LanguageModelExecutorGenerationChannel()
            let run = run
            var round = Round(schemaName: schema?.name)
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    defer { channel.finish() }
                    try await run(request, channel)
                }
                for try await event in channel {
                    round.take(event)
                    // A count of 0 brings no snapshot, as there.
                    if case .append(_, _, 1...) = event.edit, event.kind == .response { onText(round.text) }
                }
                try await group.waitForAll()
            }
            try Task.checkCancellation()
            let entries = try round.entries()
            transcript.append(contentsOf: entries)
            for reported in round.usages { usage.add(reported) }
            state.withLock { state in for reported in round.usages { state.usage.add(reported) } }
            guard let calls = round.calls else {
                onText(round.text)
                state.withLock { [transcript] in $0.transcript = transcript }
                return (round.text, Array(transcript)[before.count...], usage)
            }
            for call in calls { transcript.append(.toolOutput(try await output(of: call))) }
        }
        throw Error.transcriptMutationWhileResponding
    }

    private func check(
        _ prompt: Prompt, _ schema: GenerationSchema?, _ options: GenerationOptions, _ context: ContextOptions
    ) throws {
        func need(_ capability: LanguageModelCapabilities.Capability, if isNeeded: Bool) throws {
            guard isNeeded, !capabilities.contains(capability) else { return }
            throw LanguageModelError.unsupportedCapability(
                .init(capability: capability, debugDescription: "The model has no \(capability.name)."))
        }
        let hasImage = prompt.standInSegments.contains { if case .attachment = $0 { true } else { false } }
        try need(.vision, if: hasImage)
        try need(.guidedGeneration, if: schema != nil)
        try need(.toolCalling, if: !tools.isEmpty)
        try need(.reasoning, if: context.reasoningLevel != nil)
    }

    private func output(of call: Transcript.ToolCall) async throws -> Transcript.ToolOutput {
        func run<T: Tool>(_ tool: T) async throws -> Prompt {
            do {
                return Prompt(try await tool.call(arguments: T.Arguments(call.arguments)))
            } catch {
                throw ToolCallError(tool: tool, underlyingError: error)
            }
        }
        guard let tool = tools.first(where: { $0.name == call.toolName }) else {
            return .init(
                id: call.id, toolName: call.toolName, segments: [.text(.init(content: "There is no such tool."))])
        }
        return .init(id: call.id, toolName: call.toolName, segments: try await run(tool).standInSegments)
    }
}
