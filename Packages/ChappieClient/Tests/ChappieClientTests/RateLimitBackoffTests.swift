import FoundationEssentials
import Testing

@testable import ChappieClient

@Suite struct RateLimitBackoffTests {
    private let now = Date(timeIntervalSince1970: 784_111_770)

    @Test func hasTheDocumentedDefaults() {
        let policy = ChappieRateLimitBackoffPolicy()
        #expect(policy.maxRetries == 2)
        #expect(policy.initialDelay == 1)
        #expect(policy.maximumDelay == 30)
        #expect(policy.respectsRetryAfterHeader)
        #expect(policy == .default)
        #expect(ChappieRateLimitBackoffPolicy.disabled.maxRetries == 0)
    }

    @Test func clampsWhatMakesNoSense() {
        let policy = ChappieRateLimitBackoffPolicy(maxRetries: -3, initialDelay: -1, maximumDelay: .nan)
        #expect(policy.maxRetries == 0)
        #expect(policy.initialDelay == 0)
        #expect(policy.maximumDelay == 0)
        #expect(ChappieRateLimitBackoffPolicy(maximumDelay: .infinity).maximumDelay == 86_400)
    }

    @Test(arguments: [(1, 1.0), (2, 2), (3, 4), (4, 8), (5, 16), (6, 30), (7, 30), (1000, 30), (0, 1), (-5, 1)])
    func doublesUpToTheMaximum(retry: Int, expected: Double) {
        #expect(ChappieRateLimitBackoffPolicy.default.delay(beforeRetry: retry, asked: nil) == expected)
    }

    @Test(arguments: [
        ("0", 0.0), ("5", 5), ("1.5", 1.5), (" 7 ", 7), ("31", 31), ("99999999999999999999", 1e20),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 7), ("Sunday, 06-Nov-94 08:49:37 GMT", 7), ("Sun Nov  6 08:49:37 1994", 7),
        ("Sun, 06 Nov 1994 08:49:00 GMT", 0), ("", nil), ("soon", nil), ("-1", nil), ("nan", nil), ("inf", nil),
        ("Sun, 36 Nov 1994 08:49:37 GMT", nil), ("Sun, 06 Nov 1994 08:49 GMT", nil), ("٥", nil),
    ])
    func readsRetryAfter(value: String, expected: Double?) {
        #expect(RetryAfter.seconds(value, now: now) == expected)
    }

    @Test(arguments: [
        ("Please try again in 1.5s.", 1.5), ("try again in 20 seconds", 20), ("TRY AGAIN IN 250ms", 0.25),
        ("Try again in 3 s, or later", 3), ("Try again in a moment", nil), ("Try again in 5 minutes", nil),
        ("Try again in 1e9s", nil), ("Try again in", nil), ("", nil),
    ])
    func readsAPauseInAMessage(message: String, expected: Double?) {
        #expect(RetryAfter.seconds(inMessage: message) == expected)
    }

    @Test func theServersPauseIsBoundedAndMayBeIgnored() {
        #expect(ChappieRateLimitBackoffPolicy.default.delay(beforeRetry: 1, asked: 7) == 7)
        #expect(ChappieRateLimitBackoffPolicy.default.delay(beforeRetry: 1, asked: 1e20) == 30)
        let policy = ChappieRateLimitBackoffPolicy(respectsRetryAfterHeader: false)
        #expect(policy.delay(beforeRetry: 1, asked: 20) == 1)
    }

    @Test(
        arguments: [
            (nil, nil, Duration.seconds(1)), (nil, 20, .seconds(20)), (nil, -5, .seconds(1)), (3, 20, .seconds(3)),
            (nil, 30, .seconds(30)), (nil, 31, nil), (3, 31, nil),
        ] as [(Double?, Double?, Duration?)])
    func aResetIsWaitedForUnlessItIsFarAway(asked: Double?, resetsIn: Double?, expected: Duration?) {
        var retries = RateLimitRetries(.default)
        #expect(retries.next(asked: asked, resetsIn: resetsIn) == expected)
    }

    @Test func anEncodedPolicyIsReadAndClamped() throws {
        let policy = ChappieRateLimitBackoffPolicy(maxRetries: 5, initialDelay: 0.5)
        let decoder = JSONDecoder()
        let encoded = try JSONEncoder().encode(policy)
        #expect(try decoder.decode(ChappieRateLimitBackoffPolicy.self, from: encoded) == policy)
        let wrong = Data(
            #"{"maxRetries":-1,"initialDelay":-1,"maximumDelay":9e9,"respectsRetryAfterHeader":true}"#.utf8)
        #expect(
            try decoder.decode(ChappieRateLimitBackoffPolicy.self, from: wrong)
                == ChappieRateLimitBackoffPolicy(maxRetries: 0, initialDelay: 0, maximumDelay: 86_400))
    }
}
