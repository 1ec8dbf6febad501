import FoundationEssentials
import Testing

@testable import ChappieClient

@Suite struct RateLimitBackoffTests {
    @Test func `the policy has the documented defaults and clamps invalid values`() {
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
            (1, 7, nil, 7), (1, 30, nil, 30), (1, 31, nil, 30), (1, 60, nil, 30),
            (1, 61, nil, nil), (1, 1e20, nil, nil), (1, 0, nil, 0),
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
