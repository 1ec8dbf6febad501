import ChappieSDK

/// Puts the question together: arguments first, then standard input where it is asked for.
///
/// Standard input is read for `-`, when there is nothing else to ask, and when it is redirected. A pipe that nobody asked
/// for and that stays silent is not waited for.
struct PromptReader {
    /// How long a pipe beside arguments may take to show its first byte or its end.
    static let graceMilliseconds: Int32 = 500

    let words: [String]

    func prompt() throws -> String {
        let argument = words.filter { $0 != "-" }.joined(separator: " ")
        let parts = [argument, try input(beside: argument)].filter { !$0.isEmpty }
        guard !parts.isEmpty else {
            throw CommandLineError.usage(
                "There is nothing to ask.",
                suggestion: "Give the question as arguments, or pipe it in: chappie ask \"What is RFC 6455?\"")
        }
        return parts.joined(separator: "\n\n")
    }

    private func input(beside argument: String) throws -> String {
        let isAsked = words.contains("-")
        switch StandardInput.kind {
        case .closed: return ""
        case .terminal where !isAsked: return ""
        case .pipe where !isAsked && !argument.isEmpty:
            guard try StandardInput.isReady(withinMilliseconds: Self.graceMilliseconds) else {
                Output.note("chappie: standard input stays silent and is left out (add - to wait for it)")
                return ""
            }
        default: break
        }
        var input = StandardInput()
        return try input.readToEnd()
    }
}
