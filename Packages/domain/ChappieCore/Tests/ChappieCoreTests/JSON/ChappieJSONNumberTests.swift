@_spi(ChappieInternals) import ChappieCore
import Testing

@Suite struct ChappieJSONNumberTests {
    @Test(
        "reads integers exactly",
        arguments: [
            ("0", 0), ("-0", 0), ("42", 42), ("-7", -7), ("9223372036854775807", Int.max),
            ("-9223372036854775808", Int.min), ("1.0", 1), ("-3.000", -3), ("1e3", 1000), ("1E+3", 1000),
            ("1.25e2", 125), ("1200e-2", 12), ("0.0", 0), ("0e99999", 0), ("1795218120.0", 1_795_218_120),
            ("9007199254740991.0", 9_007_199_254_740_991),
        ])
    func readsIntegersExactly(_ literal: String, _ value: Int) throws {
        #expect(try ChappieJSON(parsing: literal).int == value)
    }

    @Test(
        "no integer where there is none",
        arguments: [
            "9223372036854775808", "-9223372036854775809", "18446744073709551615", "123456789012345678901234567890",
            "0.5", "1.5e0", "1e-1", "10e-2", "1e19", "9007199254740993.0", "9223372036854775808.0", "1e400",
            "1e9223372036854775807", "1e99999999999999999999",
        ])
    func refusesToRound(_ literal: String) throws {
        let value = try ChappieJSON(parsing: literal)
        #expect(value.int == nil)
        #expect(value.serialized() == literal)
    }

    @Test func readsDoubles() throws {
        #expect(try ChappieJSON(parsing: "0.1").double == 0.1)
        #expect(try ChappieJSON(parsing: "-2.5e-3").double == -0.0025)
        #expect(try ChappieJSON(parsing: "12").double == 12)
        #expect(try ChappieJSON(parsing: "9223372036854775808").double == 9_223_372_036_854_775_808)
        #expect(try ChappieJSON(parsing: "1e400").double == nil)
        #expect(try ChappieJSON(parsing: "-1e400").double == nil)
        #expect(try ChappieJSON(parsing: "1e-400").double == 0)
    }

    @Test(
        "writes doubles so that they read back",
        arguments: [
            0, 0.1, -1.5, 1e20, 1.7976931348623157e308, .leastNonzeroMagnitude, 1e-7, 123456789.125, 1e16,
            4503599627370497.5,
        ])
    func writesDoubles(_ value: Double) throws {
        let json = ChappieJSON.double(value)
        #expect(try ChappieJSON(parsing: json.serialized()) == json)
        #expect(json.double == value)
    }

    @Test func whatJSONCanNotSayIsNull() {
        for value in [Double.nan, .infinity, -.infinity] { #expect(ChappieJSON.double(value) == .null) }
        #expect(ChappieJSON.double(3).serialized() == "3", "whole doubles are written as integers")
        #expect(ChappieJSON.integer(.min).serialized() == "-9223372036854775808")
    }
}
