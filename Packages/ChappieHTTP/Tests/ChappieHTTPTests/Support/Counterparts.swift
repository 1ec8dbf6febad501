import TestFixtures
import Testing

extension Counterparts {
    @TaskLocal private static var running: Counterparts?

    /// Only within a suite that has the trait ``CounterpartsTrait``.
    static var current: Counterparts {
        get throws { try #require(running, "the suite lacks the counterparts trait") }
    }

    fileprivate func whileCurrent(_ function: @concurrent @Sendable () async throws -> Void) async throws {
        try await Self.$running.withValue(self, operation: function)
    }
}

/// Runs a suite with nginx and tinyproxy beside it.
struct CounterpartsTrait: SuiteTrait, TestScoping {
    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        let counterparts = try await Counterparts()
        defer { counterparts.end() }
        try await counterparts.start(
            locations: """
                location / { return 200 "hello over $server_protocol\\n"; }
                location /files/ { alias \(counterparts.directory.path)/; }
                location /away { return 307 https://127.0.0.1:\(counterparts.selfSigned)/; }
                location /moved { return 308 /; }
                """)
        try await counterparts.whileCurrent(function)
    }
}

extension Trait where Self == CounterpartsTrait {
    static var counterparts: Self { Self() }
}
