public import ChappieCore

public struct LanguageModelExecutorGenerationChannel: AsyncSequence, Sendable {
    public typealias Element = Event
    private let events: AsyncStream<Event>
    private let continuation: AsyncStream<Event>.Continuation
    public init() { (events, continuation) = AsyncStream.makeStream() }
    nonisolated(nonsending) public func send(_ event: Event) async { continuation.yield(event) }
    func finish() { continuation.finish() }
    public struct AsyncIterator: AsyncIteratorProtocol {
        var iterator: AsyncStream<Event>.AsyncIterator
        public mutating func next() async throws -> Event? { await iterator.next(isolation: #isolation) }
        public mutating func next(isolation actor: isolated (any Actor)?) async throws -> Event? {
            await iterator.next(isolation: actor)
        }
    }
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(iterator: events.makeAsyncIterator()) }

    public struct Event: Sendable {
        let kind: Kind
        let entryID: String?
        let edit: Edit
        public static func response(entryID: String? = nil, action: Response.Action) -> Event {
            .init(kind: .response, entryID: entryID, edit: action.edit)
        }
        public static func reasoning(entryID: String? = nil, action: Reasoning.Action) -> Event {
            .init(kind: .reasoning, entryID: entryID, edit: action.edit)
        }
        public static func toolCalls(entryID: String? = nil, action: ToolCalls.Action) -> Event {
            .init(kind: .toolCalls, entryID: entryID, edit: action.edit)
        }
    }
    enum Kind: Sendable { case response, reasoning, toolCalls }
    indirect enum Edit: Sendable {
        case append(String, segmentID: String?, tokenCount: Int)
        case replace(String, segmentID: String?, tokenCount: Int)
        case signature(Data)
        case attach(Transcript.AttachmentSegment)
        case detach(String)
        case metadata([String: GeneratedContent])
        case usage(Usage)
        case call(id: String, name: String, Edit)
        case removeCall(String)
    }
    public struct Usage: Sendable {
        public struct Input: Sendable {
            public var totalTokenCount: Int
            public var cachedTokenCount: Int
            public init(totalTokenCount: Int, cachedTokenCount: Int) {
                self.totalTokenCount = totalTokenCount
                self.cachedTokenCount = cachedTokenCount
            }
        }
        public struct Output: Sendable {
            public var totalTokenCount: Int
            public var reasoningTokenCount: Int
            public init(totalTokenCount: Int, reasoningTokenCount: Int) {
                self.totalTokenCount = totalTokenCount
                self.reasoningTokenCount = reasoningTokenCount
            }
        }
        public var input: Input
        public var output: Output
    }
    public enum Response {
        public struct Action: Sendable {
            let edit: Edit
            public static func appendText(_ text: String, segmentID: String? = nil, tokenCount: Int) -> Self {
                .init(edit: .append(text, segmentID: segmentID, tokenCount: tokenCount))
            }
            public static func replaceTextSegment(_ text: String, segmentID: String? = nil, tokenCount: Int) -> Self {
                .init(edit: .replace(text, segmentID: segmentID, tokenCount: tokenCount))
            }
            public static func addAttachmentSegment(_ segment: Transcript.AttachmentSegment) -> Self {
                .init(edit: .attach(segment))
            }
            public static func removeAttachmentSegment(id: String) -> Self { .init(edit: .detach(id)) }
            public static func updateMetadata(_ values: [String: any ConvertibleToGeneratedContent]) -> Self {
                .init(edit: .metadata(values.mapValues(\.generatedContent)))
            }
            public static func updateUsage(
                input: Usage.Input, output: Usage.Output, metadata: [String: any ConvertibleToGeneratedContent] = [:]
            ) -> Self { .init(edit: .usage(.init(input: input, output: output))) }
        }
    }
    public enum Reasoning {
        public struct Action: Sendable {
            let edit: Edit
            public static func appendText(_ text: String, segmentID: String? = nil, tokenCount: Int) -> Self {
                .init(edit: .append(text, segmentID: segmentID, tokenCount: tokenCount))
            }
            public static func replaceTextSegment(_ text: String, segmentID: String? = nil, tokenCount: Int) -> Self {
                .init(edit: .replace(text, segmentID: segmentID, tokenCount: tokenCount))
            }
            public static func updateSignature(_ signature: Data, tokenCount: Int) -> Self {
                .init(edit: .signature(signature))
            }
            public static func updateMetadata(_ values: [String: any ConvertibleToGeneratedContent]) -> Self {
                .init(edit: .metadata(values.mapValues(\.generatedContent)))
            }
            public static func updateUsage(
                input: Usage.Input, output: Usage.Output, metadata: [String: any ConvertibleToGeneratedContent] = [:]
            ) -> Self { .init(edit: .usage(.init(input: input, output: output))) }
        }
    }
    public enum ToolCalls {
        public struct Action: Sendable {
            let edit: Edit
            public static func toolCall(id: String, name: String, action: ToolCall.Action) -> Self {
                .init(edit: .call(id: id, name: name, action.edit))
            }
            public static func removeToolCall(id: String) -> Self { .init(edit: .removeCall(id)) }
            public static func updateMetadata(_ values: [String: any ConvertibleToGeneratedContent]) -> Self {
                .init(edit: .metadata(values.mapValues(\.generatedContent)))
            }
            public static func updateUsage(
                input: Usage.Input, output: Usage.Output, metadata: [String: any ConvertibleToGeneratedContent] = [:]
            ) -> Self { .init(edit: .usage(.init(input: input, output: output))) }
        }
        public enum ToolCall {
            public struct Action: Sendable {
                let edit: Edit
                public static func appendArguments(_ content: String, tokenCount: Int) -> Self {
                    .init(edit: .append(content, segmentID: nil, tokenCount: tokenCount))
                }
                public static func updateMetadata(_ values: [String: any ConvertibleToGeneratedContent]) -> Self {
                    .init(edit: .metadata(values.mapValues(\.generatedContent)))
                }
            }
        }
    }
}
