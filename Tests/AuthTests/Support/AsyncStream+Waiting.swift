extension AsyncStream where Element: Sendable {
    /// The first element that `isWanted`; waits for it.
    func next(where isWanted: @Sendable (Element) -> Bool) async -> Element? {
        for await element in self where isWanted(element) { return element }
        return nil
    }
}
