/// An attempt says something else than what an earlier one of the same turn has already shown.
struct ReplayDivergence: Error, Equatable {
    /// The answer's text as it had been shown.
    var deliveredText: String
}
