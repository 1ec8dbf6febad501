@_spi(ChappieInternals) import ChappieCore
import Testing

/// One text, and its form after it is parsed and written again; `nil` if it must be refused.
struct JSONTextCase: Sendable, CustomTestStringConvertible {
    let name: String
    let input: [UInt8]
    let output: String?

    var testDescription: String { name }

    static func accepts(_ input: String, as output: String? = nil, _ name: String? = nil) -> JSONTextCase {
        JSONTextCase(name: name ?? input.debugDescription, input: Array(input.utf8), output: output ?? input)
    }

    static func refuses(_ input: String, _ name: String? = nil) -> JSONTextCase {
        JSONTextCase(name: name ?? input.debugDescription, input: Array(input.utf8), output: nil)
    }

    static func refuses(_ name: String, bytes: [UInt8]) -> JSONTextCase {
        JSONTextCase(name: name, input: bytes, output: nil)
    }

    static func acceptsString(_ name: String, bytes: [UInt8]) -> JSONTextCase {
        let quoted = [UInt8(ascii: "\"")] + bytes + [UInt8(ascii: "\"")]
        return JSONTextCase(name: name, input: quoted, output: String(decoding: quoted, as: UTF8.self))
    }

    static func refusesString(_ name: String, bytes: [UInt8]) -> JSONTextCase {
        refuses(name, bytes: [UInt8(ascii: "\"")] + bytes + [UInt8(ascii: "\"")])
    }
}

extension JSONTextCase {
    static let accepted: [JSONTextCase] = [
        // Structure
        .accepts("null"), .accepts("true"), .accepts("false"), .accepts("[]"), .accepts("{}"), .accepts("\"\""),
        .accepts(" \t\r\n[ 1 ,\n2\t]\r ", as: "[1,2]"),
        .accepts("{ \"a\" : { } , \"b\":[ ] }", as: #"{"a":{},"b":[]}"#),
        .accepts("[[],[[]],[[],[]]]"), .accepts(#"{"":0}"#), .accepts(#"{"a":{"b":{"c":[null,true,false]}}}"#),
        .accepts(#"{"b":1,"a":2,"c":3}"#), .accepts(#"{"a":1,"a":2}"#),
        .accepts(#"{"a":1,"\u0061":2}"#, as: #"{"a":1,"a":2}"#),
        // Numbers keep their spelling
        .accepts("0"), .accepts("-0"), .accepts("7"), .accepts("-12"), .accepts("0.0"), .accepts("1.50"),
        .accepts("-0.25"),
        .accepts("1e5"), .accepts("1E5"), .accepts("1e+05"), .accepts("1e-5"), .accepts("0e0"), .accepts("1.5e300"),
        .accepts("1e400"), .accepts("-1e-400"), .accepts("9223372036854775807"), .accepts("-9223372036854775808"),
        .accepts("9223372036854775808"), .accepts("18446744073709551615"), .accepts("123456789012345678901234567890"),
        .accepts("0.1000000000000000055511151231257827021181583404541015625"),
        // Strings
        .accepts(#""\"\\\/\b\f\n\r\t""#, as: #""\"\\/\u0008\u000c\n\r\t""#), .accepts(#""\u0000""#),
        .accepts(#""\u00e9\u00E9""#, as: "\"éé\""), .accepts(#""\ud83d\ude00""#, as: "\"😀\""),
        .accepts(#""\uD834\uDD1E\u0041""#, as: "\"\u{1D11E}A\""),
        .accepts(#""\uFFFF\ufffe""#, as: "\"\u{FFFF}\u{FFFE}\""),
        .accepts(#""\udbff\udfff""#, as: "\"\u{10FFFF}\""), .accepts(#""\u2028\u2029""#, as: "\"\u{2028}\u{2029}\""),
        .accepts("\"\u{2028}\u{2029}\""), .accepts("\"a\u{7F}b\"", as: #""a\u007fb""#), .accepts("\"é€😀👩‍👩‍👧\""),
        .accepts("\"\u{FEFF}\"", "a byte order mark inside a string"), .accepts(#""\\u0041""#), .accepts(#""\\\\""#),
        .acceptsString("the smallest two byte character", bytes: [0xC2, 0x80]),
        .acceptsString("the largest three byte character before the surrogates", bytes: [0xED, 0x9F, 0xBF]),
        .acceptsString("the largest character", bytes: [0xF4, 0x8F, 0xBF, 0xBF]),
    ]

    /// Half a surrogate pair stands for no character. Foundation refuses such text.
    static let repaired: [JSONTextCase] = [
        .accepts(#""\ud800""#, as: "\"\u{FFFD}\""), .accepts(#""\udc00""#, as: "\"\u{FFFD}\""),
        .accepts(#""\ud83d\ud83d""#, as: "\"\u{FFFD}\u{FFFD}\""), .accepts(#""\ud83d\n""#, as: "\"\u{FFFD}\\n\""),
        .accepts(#""a\ud83dx""#, as: "\"a\u{FFFD}x\""), .accepts(#""\ud83d\u0041""#, as: "\"\u{FFFD}A\""),
        .accepts(#""\ude00\ud83d""#, as: "\"\u{FFFD}\u{FFFD}\""),
        .accepts(#""\ud83d\ud83d\ude00\ude00""#, as: "\"\u{FFFD}😀\u{FFFD}\""),
        .accepts(#"{"\udc00":1}"#, as: "{\"\u{FFFD}\":1}"),
    ]

    static let refused: [JSONTextCase] = [
        // Structure
        .refuses(""), .refuses(" "), .refuses("["), .refuses("]"), .refuses("{"), .refuses("}"), .refuses("[}"),
        .refuses("[1"), .refuses("[1,"), .refuses("[1,]"), .refuses("[,1]"), .refuses("[1 2]"), .refuses("[1,,2]"),
        .refuses("{,}"), .refuses(#"{"a"}"#), .refuses(#"{"a":}"#), .refuses(#"{"a":1,}"#), .refuses(#"{"a" 1}"#),
        .refuses(#"{"a":1 "b":2}"#), .refuses("{a:1}"), .refuses("{1:1}"), .refuses("{'a':1}"), .refuses(#"{"a"::1}"#),
        .refuses(#"{"a":1"#), .refuses(#"{"a""#), .refuses("nul"), .refuses("nulL"), .refuses("True"),
        .refuses("truefalse"),
        .refuses("NaN"), .refuses("Infinity"), .refuses("undefined"), .refuses("1 2"), .refuses("{}{}"),
        .refuses("[]]"),
        .refuses("null,"), .refuses("// a\n1"), .refuses("/**/1"), .refuses("1\u{0B}"), .refuses("1\u{A0}"),
        .refuses("1\0"),
        .refuses("\u{FEFF}1", "a byte order mark first"),
        // Numbers
        .refuses("-"), .refuses("+1"), .refuses("01"), .refuses("-01"), .refuses("00"), .refuses("1."), .refuses(".5"),
        .refuses("-.5"), .refuses("1.e5"), .refuses("1e"), .refuses("1e+"), .refuses("1e5.5"), .refuses("0x1F"),
        .refuses("1_000"),
        .refuses("--1"), .refuses("1-"), .refuses("1e--5"), .refuses("١"), .refuses("-NaN"), .refuses("1d"),
        // Strings
        .refuses("\""), .refuses("\"a"), .refuses("'a'"), .refuses(#""\"#), .refuses(#""\""#), .refuses(#""\a""#),
        .refuses(#""\'""#),
        .refuses(#""\x41""#), .refuses(#""\U0041""#), .refuses(#""\u""#), .refuses(#""\u004""#), .refuses(#""\u004g""#),
        .refuses(#""\u+041""#), .refuses(#""\u 041""#), .refuses("\"a\nb\""), .refuses("\"a\tb\""),
        .refuses("\"a\0b\""), .refuses("\"a\u{1F}b\""),
        .refuses("\"\\\n\""), .refuses("\"é\\"), .refuses(#""\n"#), .refuses("\"\\n\u{01}\""),
        .refuses(#""\ud83d\ude0""#), .refuses(#""\ud83d\"#), .refuses(#""\ud83d\x""#), .refuses(#""\ud83d"#),
        // UTF-8 (RFC 3629, 3)
        .refusesString("a lone continuation byte", bytes: [0x80]),
        .refusesString("a first byte alone", bytes: [0xC3]),
        .refusesString("half of three bytes", bytes: [0xE2, 0x82]),
        .refusesString("three of four bytes", bytes: [0xF0, 0x9F, 0x98]),
        .refusesString("an overlong NUL", bytes: [0xC0, 0x80]),
        .refusesString("an overlong slash, two bytes", bytes: [0xC0, 0xAF]),
        .refusesString("an overlong slash, three bytes", bytes: [0xE0, 0x80, 0xAF]),
        .refusesString("an overlong slash, four bytes", bytes: [0xF0, 0x80, 0x80, 0xAF]),
        .refusesString("a surrogate in UTF-8", bytes: [0xED, 0xA0, 0x80]),
        .refusesString("beyond U+10FFFF", bytes: [0xF4, 0x90, 0x80, 0x80]),
        .refusesString("five bytes", bytes: [0xF8, 0x88, 0x80, 0x80, 0x80]),
        .refusesString("0xFF", bytes: [0xFF]),
        .refusesString("Latin-1 after an escape", bytes: Array(#"\n"#.utf8) + [0xE9]),
        .refuses("UTF-16", bytes: [0xFE, 0xFF, 0x00, 0x31]),
        .refuses("bytes outside a string", bytes: [0x5B, 0xC3, 0xA9, 0x5D]),
        .refuses("a name that is not UTF-8", bytes: Array(#"{""#.utf8) + [0xFF] + Array(#"":1}"#.utf8)),
    ]
}
