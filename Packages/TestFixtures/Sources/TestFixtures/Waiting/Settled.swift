/// Waits until `value` has stayed the same for as long as `window`, a measured time; `nil` when it never does.
///
/// For what can only be seen by its absence, such as a sender that has stopped.
public func settled<Value: Equatable>(
    for window: Duration, within limit: Duration = Patience.limit, _ value: () throws -> Value
) async throws -> Value? {
    let end = ContinuousClock.now + limit
    var last = try value()
    while ContinuousClock.now < end {
        try await Task.sleep(for: window)
        let now = try value()
        if now == last { return now }
        last = now
    }
    return nil
}
