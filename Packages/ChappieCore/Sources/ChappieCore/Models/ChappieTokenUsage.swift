/// Tokens that one response took; zero where the backend says nothing.
public struct ChappieTokenUsage: Sendable, Hashable, Codable {
    public var inputTokens: Int
    /// Of the input: read from the prompt cache.
    public var cachedInputTokens: Int
    public var outputTokens: Int
    /// Of the output: reasoning.
    public var reasoningTokens: Int
    public var totalTokens: Int

    public init(
        inputTokens: Int = 0, cachedInputTokens: Int = 0, outputTokens: Int = 0, reasoningTokens: Int = 0,
        totalTokens: Int = 0
    ) {
        self.inputTokens = inputTokens
        self.cachedInputTokens = cachedInputTokens
        self.outputTokens = outputTokens
        self.reasoningTokens = reasoningTokens
        self.totalTokens = totalTokens
    }

    init(_ json: ChappieJSON) {
        let input = json["input_tokens"]?.int ?? 0
        let output = json["output_tokens"]?.int ?? 0
        self.init(
            inputTokens: input,
            cachedInputTokens: json["input_tokens_details"]?["cached_tokens"]?.int ?? 0,
            outputTokens: output,
            reasoningTokens: json["output_tokens_details"]?["reasoning_tokens"]?.int ?? 0,
            totalTokens: json["total_tokens"]?.int ?? input.addingReportingOverflow(output).partialValue)
    }
}
