import FoundationEssentials
import Testing

@testable import ChappieClient

@Suite struct BackoffPolicyTests {
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
        #expect(ChappieRateLimitBackoffPolicy.default.delay(beforeRetry: retry, retryAfter: nil, now: now) == expected)
    }

    @Test(arguments: [
        ("0", 0.0), ("5", 5), ("1.5", 1.5), (" 7 ", 7), ("30", 30), ("31", 30), ("99999999999999999999", 30),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 7), ("Sunday, 06-Nov-94 08:49:37 GMT", 7), ("Sun Nov  6 08:49:37 1994", 7),
        ("Sun, 06 Nov 1994 08:49:00 GMT", 0), ("Fri, 31 Dec 2037 23:59:59 GMT", 30),
    ])
    func followsRetryAfterUpToTheMaximum(value: String, expected: Double) {
        #expect(
            ChappieRateLimitBackoffPolicy.default.delay(beforeRetry: 1, retryAfter: value, now: now) == expected)
    }

    @Test(arguments: [
        "", "soon", "-1", "nan", "inf", "Sun, 36 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49 GMT", "٥",
    ])
    func ignoresARetryAfterThatIsNone(value: String) {
        #expect(ChappieRateLimitBackoffPolicy.default.delay(beforeRetry: 2, retryAfter: value, now: now) == 2)
    }

    @Test func canIgnoreTheHeader() {
        let policy = ChappieRateLimitBackoffPolicy(respectsRetryAfterHeader: false)
        #expect(policy.delay(beforeRetry: 1, retryAfter: "20", now: now) == 1)
    }

    @Test(arguments: [("Thu, 01 Jan 1970 00:00:00 GMT", 0.0), ("Tue, 29 Feb 2028 12:00:00 GMT", 1_835_438_400)])
    func readsDatesOfTheGregorianCalendar(text: String, seconds: Double) {
        #expect(RetryAfter.date(text)?.timeIntervalSince1970 == seconds)
    }
}
