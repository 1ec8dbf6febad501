import TestFixtures
import Testing

/// Runs a suite while no other one does that has this trait, in any of the network's packages. Its own tests still run
/// beside each other.
///
/// Suites of bytes alone keep all of the tasks' threads busy for seconds; what another suite measured meanwhile would be
/// how long it waits for a thread. And each network has a thread, which some tests count.
struct ByItselfTrait: SuiteTrait, TestScoping {
    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        try await OneAtATime.network.perform(function)
    }
}

extension Trait where Self == ByItselfTrait {
    static var byItself: Self { Self() }
}
