import FoundationEssentials
import Testing

@testable import ChappieClient

@Suite struct RateLimitBackoffTests {
    @Test func hasTheDocumentedDefaultsAndClampsWhatMakesNoSense() {
        #expect(
            ChappieRateLimitBackoffPolicy.default
                == ChappieRateLimitBackoffPolicy(
                    maxRetries: 2, initialDelay: 1, maximumDelay: 30, respectsRetryAfterHeader: true))
        #expect(ChappieRateLimitBackoffPolicy.disabled.maxRetries == 0)
        #expect(
            ChappieRateLimitBackoffPolicy(maxRetries: -3, initialDelay: -1, maximumDelay: .nan)
                == ChappieRateLimitBackoffPolicy(maxRetries: 0, initialDelay: 0, maximumDelay: 0))
        #expect(ChappieRateLimitBackoffPolicy(maximumDelay: .infinity).maximumDelay == 86_400)
    }

    @Test(
        arguments: [
            (1, nil, nil, 1), (2, nil, nil, 2), (5, nil, nil, 16), (6, nil, nil, 30), (1000, nil, nil, 30),
            (1001, nil, nil, nil),
            // The server's pause.
            (1, 7, nil, 7), (1, 1e20, nil, 30), (1, 0, nil, 0),
            // A reset is waited for unless it is far away.
            (1, nil, 20, 20), (1, nil, -5, 1), (1, 3, 20, 3), (1, nil, 30, 30), (1, nil, 31, nil), (1, 3, 31, nil),
        ] as [(Int, Double?, Double?, Double?)])
    func thePauseDoublesUnlessTheServerNamesOne(retry: Int, asked: Double?, resetsIn: Double?, expected: Double?) {
        let policy = ChappieRateLimitBackoffPolicy(maxRetries: 1000)
        #expect(
            policy.pause(beforeRetry: retry, asked: asked, resetsIn: resetsIn)
                == expected.map { Duration.seconds($0) })
    }

    @Test func theServersPauseMayBeIgnored() {
        let policy = ChappieRateLimitBackoffPolicy(respectsRetryAfterHeader: false)
        #expect(policy.pause(beforeRetry: 1, asked: 20, resetsIn: nil) == .seconds(1))
    }

    @Test(arguments: [
        ("0", 0.0), ("5", 5), ("1.5", 1.5), (" 7 ", 7), ("31", 31), ("99999999999999999999", 1e20),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 7), ("Sunday, 06-Nov-94 08:49:37 GMT", 7), ("Sun Nov  6 08:49:37 1994", 7),
        ("Sun, 06 Nov 1994 08:49:00 GMT", 0), ("", nil), ("soon", nil), ("-1", nil), ("nan", nil), ("inf", nil),
        ("Sun, 36 Nov 1994 08:49:37 GMT", nil), ("Sun, 06 Nov 1994 08:49 GMT", nil), ("٥", nil),
    ])
    func readsRetryAfter(value: String, expected: Double?) {
        #expect(RetryAfter.seconds(value, now: Date(timeIntervalSince1970: 784_111_770)) == expected)
    }

    @Test(arguments: [
        ("Please try again in 1.5s.", 1.5), ("try again in 20 seconds", 20), ("TRY AGAIN IN 250ms", 0.25),
        ("Try again in 3 s, or later", 3), ("Try again in a moment", nil), ("Try again in 5 minutes", nil),
        ("Try again in 1e9s", nil), ("Try again in", nil), ("", nil),
    ])
    func readsAPauseInAMessage(message: String, expected: Double?) {
        #expect(RetryAfter.seconds(inMessage: message) == expected)
    }

    @Test func anEncodedPolicyIsReadAndClamped() throws {
        let policy = ChappieRateLimitBackoffPolicy(maxRetries: 5, initialDelay: 0.5)
        let encoded = try JSONEncoder().encode(policy)
        #expect(try JSONDecoder().decode(ChappieRateLimitBackoffPolicy.self, from: encoded) == policy)
        let wrong = #"{"maxRetries":-1,"initialDelay":-1,"maximumDelay":9e9,"respectsRetryAfterHeader":true}"#
        #expect(
            try JSONDecoder().decode(ChappieRateLimitBackoffPolicy.self, from: Data(wrong.utf8))
                == ChappieRateLimitBackoffPolicy(maxRetries: 0, initialDelay: 0, maximumDelay: 86_400))
    }
}
