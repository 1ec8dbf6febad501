import TestFixtures
import Testing

/// Runs a suite while no other one does that has this trait. Its own tests still run beside each other.
///
/// Suites of bytes alone keep all of the tasks' threads busy for seconds; what another suite measured meanwhile would be
/// how long it waits for a thread.
struct ByItselfTrait: SuiteTrait, TestScoping {
    private static let turns = OneAtATime()

    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        try await Self.turns.perform(function)
    }
}

extension Trait where Self == ByItselfTrait {
    static var byItself: Self { Self() }
}
