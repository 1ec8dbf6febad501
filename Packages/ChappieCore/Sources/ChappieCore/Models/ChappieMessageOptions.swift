/// How one message is to be answered. What is `nil` is left to the model's default.
public struct ChappieMessageOptions: Sendable, Hashable, Codable {
    public var reasoningEffort: ChappieReasoningEffort?
    public var verbosity: ChappieVerbosity?

    /// - Parameter fastMode: low effort, unless `reasoningEffort` says otherwise. Default `false`.
    public init(
        fastMode: Bool = false, reasoningEffort: ChappieReasoningEffort? = nil, verbosity: ChappieVerbosity? = nil
    ) {
        self.reasoningEffort = reasoningEffort ?? (fastMode ? .low : nil)
        self.verbosity = verbosity
    }
}
