@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Testing

@Suite struct HTTPDateTests {
    @Test(
        arguments: [
            ("1970-01-01T00:00:00Z", 0), ("2026-11-20T23:42:00Z", 1_795_218_120),
            ("2026-11-20T23:42:00.000000Z", 1_795_218_120), ("2026-11-20T23:42:00.250Z", 1_795_218_120.25),
            ("2026-11-20T23:42:00.123456789+00:00", 1_795_218_120.123456789),
            ("2026-11-21T00:42:00+01:00", 1_795_218_120), ("2026-11-20T18:12:00-05:30", 1_795_218_120),
            ("2028-02-29T12:00:00Z", 1_835_438_400), ("9999-12-31T23:59:59Z", 253_402_300_799),
        ] as [(String, Double)])
    func readsRFC3339(_ text: String, _ seconds: Double) throws {
        let date = try #require(HTTPDate.rfc3339(text))
        #expect(abs(date.timeIntervalSince1970 - seconds) < 0.000_001)
    }

    @Test(arguments: [
        "", "now", "2026-11-20", "2026-11-20T23:42:00", "2026-13-20T23:42:00Z", "2026-11-32T23:42:00Z",
        "2026-11-20T23:42:00.Z", "2026-11-20T23:42:00+25:00", "-026-11-20T23:42:00Z", "2026/11/20T23:42:00Z",
        "２０２６-11-20T23:42:00Z", "99999999999999999999-11-20T23:42:00Z", "2026-11-20T23:42:00+999999999999999999:00",
        "2026-11-20T23:42:00.0000000000000000000000000000000000000000000000Z",
    ])
    func refusesEverythingElse(_ text: String) { #expect(HTTPDate.rfc3339(text) == nil) }

    @Test func readsTheDateHeader() {
        #expect(HTTPDate.imfFixdate("Fri, 20 Nov 2026 23:42:00 GMT")?.timeIntervalSince1970 == 1_795_218_120)
        #expect(HTTPDate.imfFixdate("Thu, 01 Jan 1970 00:00:00 GMT")?.timeIntervalSince1970 == 0)
        for text in [
            "", "Fri, 20 Nov 2026 23:42:00 CET", "Fri, 20 Foo 2026 23:42:00 GMT", "Friday, 20-Nov-26 23:42:00 GMT",
        ] { #expect(HTTPDate.imfFixdate(text) == nil) }
    }
}
