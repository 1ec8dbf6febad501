/// What all of Chappie's errors have in common: a sentence for people, and their next step.
///
/// ```swift
/// do {
///     print(try await runtime.send("Hello", as: Greeting.self))
/// } catch let error as any ChappieError {
///     print(error.explanation)
/// }
/// ```
/// Besides these, only `CancellationError` is thrown, and what a closure of the program's own throws.
public protocol ChappieError: LocalizedError, Sendable {
    /// What happened, as a sentence.
    var errorDescription: String? { get }
    /// What to do next, as a sentence; `nil` if there is nothing to advise.
    var recoverySuggestion: String? { get }
}

extension ChappieError {
    /// What happened and what to do next. Advice that the first sentence ends with already is not repeated.
    public var explanation: String {
        let words = errorDescription ?? "Something went wrong: \(self)"
        guard let advice = recoverySuggestion, !words.lowercased().hasSuffix(advice.lowercased()) else { return words }
        return "\(words) \(advice)"
    }
}
