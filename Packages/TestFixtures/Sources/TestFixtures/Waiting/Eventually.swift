/// Waits until `condition` holds, looking every few milliseconds; whether it came to hold in time.
public func eventually(
    within limit: Duration = Patience.limit, _ condition: () async throws -> Bool
) async throws -> Bool {
    let end = ContinuousClock.now + limit
    while try await !condition() {
        guard ContinuousClock.now < end else { return false }
        try await Task.sleep(for: .milliseconds(2))
    }
    return true
}
