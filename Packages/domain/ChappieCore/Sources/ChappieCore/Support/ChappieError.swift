/// The common interface of Chappie's errors: a sentence for the user and the next step.
///
/// ```swift
/// do {
///     print(try await runtime.send("Hello", as: Greeting.self))
/// } catch let error as any ChappieError {
///     print(error.explanation)
/// }
/// ```
/// All other errors are `CancellationError`, and the errors of the program's own closures. `localizedDescription` is the
/// first sentence. On Linux it needs `import Foundation`. A `switch` over an error's cases needs a `default`, because
/// later versions may add cases.
public protocol ChappieError: LocalizedError, Sendable {
    /// The failure, as a sentence.
    var errorDescription: String? { get }
    /// The user's next step, as a sentence. `nil` if no advice helps.
    var recoverySuggestion: String? { get }
}

extension ChappieError {
    /// The failure and the next step. The advice is left out if the first sentence already ends with it.
    public var explanation: String {
        let words = errorDescription ?? "Something went wrong: \(self)"
        guard let advice = recoverySuggestion, !words.lowercased().hasSuffix(advice.lowercased()) else { return words }
        return "\(words) \(advice)"
    }
}
