@_spi(ChappieInternals) public import ChappieCore
import FoundationEssentials
import Glibc
public import Testing

/// The limits for waiting in tests.
public enum Patience {
    /// The limit for anything that will happen. It is so long that only something that hangs takes longer, even on a
    /// busy machine.
    public static let limit = Duration.seconds(60)
    /// The factor by which this machine may be slower than an idle one (`TEST_PATIENCE`). Default 1.
    public static let factor = ProcessInfo.processInfo.environment["TEST_PATIENCE"].flatMap(Int.init) ?? 1
}

extension Tag {
    /// A test that takes seconds on an idle machine.
    @Tag public static var slow: Self
    /// A test that measures times, which other work on the machine changes. `Scripts/test` runs it separately, before
    /// the others.
    @Tag public static var measured: Self
}

/// Waits until `condition` holds, checking it every few milliseconds, and returns whether it held in time.
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

/// Waits until `value` has stayed the same for the measured time `window`, and returns it, or `nil` if it never does.
///
/// It is for conditions that can be seen only by an absence, such as a sender that has stopped.
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

/// Measures until a time is under `limit`, at most three times, and returns the shortest time.
///
/// A busy machine may delay one measurement, but hardly three.
public func fastest(under limit: Duration, _ measure: () async throws -> Duration) async throws -> Duration {
    var shortest = try await measure()
    for _ in 1..<3 where shortest >= limit { shortest = min(shortest, try await measure()) }
    return shortest
}

/// Runs `body`, which must end within ``Patience/limit``, and not before `shortest`.
public func inGoodTime(
    atLeast shortest: Duration = .zero, sourceLocation: SourceLocation = #_sourceLocation,
    _ body: () async throws -> Void
) async rethrows {
    let start = ContinuousClock.now
    try await body()
    let elapsed = ContinuousClock.now - start
    #expect(elapsed >= shortest && elapsed < Patience.limit, sourceLocation: sourceLocation)
}

/// Returns the error that `body` throws, and records an issue unless it is the case `kind` and its description contains
/// `words`.
@discardableResult
public func refusal(
    _ kind: String, saying words: String = "", _ comment: String = "",
    sourceLocation: SourceLocation = #_sourceLocation, _ body: () async throws -> Void
) async -> (any LocalizedError)? {
    do {
        try await body()
        Issue.record("nothing was thrown \(comment)", sourceLocation: sourceLocation)
    } catch let error as any LocalizedError {
        let says = words.isEmpty || error.errorDescription?.contains(words) == true
        #expect("\(error)".hasPrefix(kind) && says, "\(error) \(comment)", sourceLocation: sourceLocation)
        return error
    } catch {
        Issue.record(error, "\(comment)", sourceLocation: sourceLocation)
    }
    return nil
}

/// Runs `work`, which may block, on a separate thread.
///
/// There are only as many threads for tasks as cores. Tests that block them starve the tasks whose answers they wait
/// for.
public func onOwnThread<Output: Sendable>(_ work: @escaping @Sendable () throws -> Output) async throws -> Output {
    try await withCheckedThrowingContinuation { continuation in
        let body = ThreadBody { continuation.resume(with: Result(catching: work)) }
        var thread = pthread_t()
        let failure = pthread_create(
            &thread, nil,
            { context in
                if let context { Unmanaged<ThreadBody>.fromOpaque(context).takeRetainedValue().run() }
                return nil
            }, Unmanaged.passRetained(body).toOpaque())
        precondition(failure == 0, "the system has no thread left")
        pthread_detach(thread)
    }
}

private final class ThreadBody: Sendable {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}

/// A trait that runs a suite while no other suite with this trait runs, in any of the network's packages. The suite's
/// own tests still run in parallel.
///
/// Suites that only process bytes keep all threads for tasks busy for seconds. A time that is measured in the meantime
/// would be the wait for a thread. In addition, each network has a thread, which some tests count.
public struct ByItselfTrait: SuiteTrait, TestScoping {
    private static let line = AsyncLock()

    /// Runs `function` when it is the suite's turn.
    public func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        try await Self.line.alone(function)
    }
}

extension Trait where Self == ByItselfTrait {
    /// See ``ByItselfTrait``.
    public static var byItself: Self { Self() }
}

/// Returns a JSON value written as text. A text that is not JSON fails the test that uses it.
public func json(_ text: String) -> ChappieJSON {
    do {
        return try ChappieJSON(parsing: text)
    } catch {
        Issue.record(error, "\(text)")
        return .null
    }
}

/// A small generator with a fixed seed, so that a generated corpus is the same everywhere (Steele, Lea, Flood 2014).
public struct SplitMix64: RandomNumberGenerator {
    private var state: UInt64

    /// Creates a generator. The same seed gives the same numbers.
    public init(seed: UInt64) { state = seed }

    public mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
