public import ChappieCore

public enum LanguageModelError: LocalizedError {
    case contextSizeExceeded(ContextSizeExceeded)
    case rateLimited(RateLimited)
    case guardrailViolation(GuardrailViolation)
    case refusal(Refusal)
    case unsupportedCapability(UnsupportedCapability)
    case unsupportedTranscriptContent(UnsupportedTranscriptContent)
    case unsupportedGenerationGuide(UnsupportedGenerationGuide)
    case unsupportedLanguageOrLocale(UnsupportedLanguageOrLocale)
    case timeout(Timeout)

    public struct ContextSizeExceeded: Sendable {
        public var contextSize: Int, tokenCount: Int, debugDescription: String, metadata: [String: any Sendable]
        public init(
            contextSize: Int, tokenCount: Int, debugDescription: String, metadata: [String: any Sendable] = [:]
        ) {
            self.contextSize = contextSize
            self.tokenCount = tokenCount
            self.debugDescription = debugDescription
            self.metadata = metadata
        }
    }
    public struct RateLimited: Sendable {
        public var resetDate: Date?, debugDescription: String, metadata: [String: any Sendable]
        public init(resetDate: Date?, debugDescription: String, metadata: [String: any Sendable] = [:]) {
            self.resetDate = resetDate
            self.debugDescription = debugDescription
            self.metadata = metadata
        }
    }
    public struct GuardrailViolation: Sendable {
        public var debugDescription: String, metadata: [String: any Sendable]
        public init(debugDescription: String, metadata: [String: any Sendable] = [:]) {
            self.debugDescription = debugDescription
            self.metadata = metadata
        }
    }
    /// A refusal. The framework lets nobody read the explanation as a string.
    public struct Refusal: Sendable {
        var givenExplanation: String
        public var debugDescription: String, metadata: [String: any Sendable]
        public init(explanation: String, debugDescription: String, metadata: [String: any Sendable] = [:]) {
            givenExplanation = explanation
            self.debugDescription = debugDescription
            self.metadata = metadata
        }
    }
    public struct UnsupportedCapability: Sendable {
        public var capability: LanguageModelCapabilities.Capability
        public var debugDescription: String, metadata: [String: any Sendable]
        public init(
            capability: LanguageModelCapabilities.Capability, debugDescription: String,
            metadata: [String: any Sendable] = [:]
        ) {
            self.capability = capability
            self.debugDescription = debugDescription
            self.metadata = metadata
        }
    }
    public struct UnsupportedTranscriptContent: Sendable {
        public var unsupportedContent: [Transcript.Entry]
        public var debugDescription: String, metadata: [String: any Sendable]
        public init(
            unsupportedContent: [Transcript.Entry], debugDescription: String, metadata: [String: any Sendable] = [:]
        ) {
            self.unsupportedContent = unsupportedContent
            self.debugDescription = debugDescription
            self.metadata = metadata
        }
    }
    public struct UnsupportedGenerationGuide: Sendable {
        public var schemaName: String?, debugDescription: String, metadata: [String: any Sendable]
        public init(schemaName: String?, debugDescription: String, metadata: [String: any Sendable] = [:]) {
            self.schemaName = schemaName
            self.debugDescription = debugDescription
            self.metadata = metadata
        }
    }
    public struct UnsupportedLanguageOrLocale: Sendable {
        public var languageCode: Locale.LanguageCode
        public var debugDescription: String, metadata: [String: any Sendable]
        public init(
            languageCode: Locale.LanguageCode, debugDescription: String, metadata: [String: any Sendable] = [:]
        ) {
            self.languageCode = languageCode
            self.debugDescription = debugDescription
            self.metadata = metadata
        }
    }
    public struct Timeout: Sendable {
        public var debugDescription: String, metadata: [String: any Sendable]
        public init(debugDescription: String, metadata: [String: any Sendable] = [:]) {
            self.debugDescription = debugDescription
            self.metadata = metadata
        }
    }
    public var errorDescription: String? {
        switch self {
        case .contextSizeExceeded(let it): it.debugDescription
        case .rateLimited(let it): it.debugDescription
        case .guardrailViolation(let it): it.debugDescription
        case .refusal(let it): it.debugDescription
        case .unsupportedCapability(let it): it.debugDescription
        case .unsupportedTranscriptContent(let it): it.debugDescription
        case .unsupportedGenerationGuide(let it): it.debugDescription
        case .unsupportedLanguageOrLocale(let it): it.debugDescription
        case .timeout(let it): it.debugDescription
        }
    }
}
