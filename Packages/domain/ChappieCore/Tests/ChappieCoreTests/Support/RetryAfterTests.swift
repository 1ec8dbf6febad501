@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Testing

@Suite struct RetryAfterTests {
    @Test(arguments: [
        ("0", 0.0), ("5", 5), ("1.5", 1.5), (" 7 ", 7), ("31", 31), ("99999999999999999999", 1e9),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 7), ("Sunday, 06-Nov-94 08:49:37 GMT", 7), ("Sun Nov  6 08:49:37 1994", 7),
        ("Sun, 06 Nov 1994 08:49:00 GMT", 0), ("", nil), ("soon", nil), ("-1", nil), ("nan", nil), ("inf", nil),
        ("Sun, 36 Nov 1994 08:49:37 GMT", nil), ("Sun, 06 Nov 1994 08:49 GMT", nil), ("٥", nil),
    ])
    func readsRetryAfter(value: String, expected: Double?) {
        #expect(RetryAfter.seconds(value, now: Date(timeIntervalSince1970: 784_111_770)) == expected)
    }

    @Test(arguments: [
        ("Please try again in 1.5s.", 1.5), ("try again in 20 seconds", 20), ("TRY AGAIN IN 250ms", 0.25),
        ("Try again in 3 s, or later", 3), ("Try again in a moment", nil), ("Try again in 5 minutes", 300),
        ("Please try again in 40m.", 2400), ("try again in 1h2m3s", 3723), ("Try again in 1 day, 2 hours.", 93_600),
        ("Try again in 6m0s.", 360), ("Try again in 2 weeks", nil), ("Try again in 1e9s", nil), ("Try again in", nil),
        ("", nil),
    ])
    func readsAPauseInAMessage(message: String, expected: Double?) {
        #expect(RetryAfter.seconds(inMessage: message) == expected)
    }
}
