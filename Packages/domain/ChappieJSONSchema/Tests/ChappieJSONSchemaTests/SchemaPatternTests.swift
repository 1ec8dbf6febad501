import Testing

@testable import ChappieJSONSchema

@Suite struct SchemaPatternTests {
    @Test(
        "matches as ECMA-262 says",
        arguments: [
            ("", ["", "a"], []), ("b", ["abc"], ["ac", ""]), ("^b", ["bc"], ["ab"]), ("b$", ["ab"], ["ba", "b\n"]),
            ("^a|b$", ["ax", "xb"], ["xa", "bx"]), ("^(a|bc)*$", ["", "abca"], ["b"]), ("^a+?b$", ["aab"], ["b"]),
            ("^a{2}$", ["aa"], ["a", "aaa"]), ("^a{2,}$", ["aa", "aaaa"], ["a"]), ("^a{0,2}$", ["", "aa"], ["aaa"]),
            ("^(?:ab){1,2}$", ["ab", "abab"], ["", "aab"]), ("^a{$", ["a{"], ["a"]), ("^}]{,1}$", ["}]{,1}"], []),
            ("^.$", ["a", "🌙", "\t"], ["\n", "\u{2028}", "ab"]), ("^[^]$", ["\n"], [""]), ("[]", [], ["a"]),
            ("^[a-c\\]-]+$", ["ab]-c"], ["d"]), ("^[^a-c]$", ["d", "\n"], ["b"]), ("^[\\w-.]+$", ["a-_.9"], ["é"]),
            ("^[\\D]$", ["a"], ["1"]), ("^\\d\\D\\w\\W\\s\\S$", ["1a_-\u{3000}x"], ["1a_-\u{200B}x"]),
            ("^[\\s\\S]*$", ["any\nthing"], []),
            ("^\\x41\\u0042\\u{1F319}\\ud83c\\udf19\\cJ\\0\\/\\-\\_$", ["AB🌙🌙\n\0/-_"], []),
            ("^[\\b]$", ["\u{8}"], ["b"]), ("\\bcat\\b", ["a cat.", "cat"], ["concat"]),
            ("\\Bcat", ["concat"], ["cat"]),
            ("^\\p{Lu}\\p{Ll}+$", ["Äpfel"], ["äpfel"]), ("^\\P{L}$", ["1"], ["a"]),
            ("^[\\p{N}\\p{Sc}]+$", ["€½٣"], ["a"]),
            ("^\\p{Letter}\\p{gc=Nd}\\p{Alphabetic}$", ["x1y"], ["x1-"]),
            ("^(?=.*\\d)(?!.*x).{3,}$", ["ab1"], ["abc", "ax1", "a1"]),
            ("^(?=(?!b)a?)a", ["ab"], ["b"]), ("(?<year>\\d{4})", ["in 2026"], ["20 26"]),
            ("^(a*)*$", ["", "aaa"], ["b"]),
            ("^(|a){3}$", ["", "aaa"], ["aaaa"]), ("a(?!b)", ["ac", "a"], ["ab"]), ("^a\\.b\\$$", ["a.b$"], ["axb$"]),
        ] as [(String, [String], [String])])
    func matches(_ source: String, _ fitting: [String], _ others: [String]) throws {
        let pattern = try SchemaPattern(source)
        var fuel = 1_000_000
        for text in fitting { #expect(pattern.matches(text, fuel: &fuel) == true, "\(text)") }
        for text in others { #expect(pattern.matches(text, fuel: &fuel) == false, "\(text)") }
    }

    @Test(
        "refuses what is no pattern, or none of ours",
        arguments: [
            "(", ")", "a)", "[a", "*", "a**", "^*", "+a", "a{3,2}", "\\", "\\1", "(a)\\k<a>", "(?<=a)b", "(?<!a)b",
            "(?i)a", "(?P<a>b)",
            "\\a", "\\u12", "\\u{110000}", "\\u{}", "\\xg1", "\\c1", "\\p{Script=Greek}", "\\p", "\\p{", "[b-a]", "{1}",
            "a{10001}",
            "((((a{100}){100}){100}){100})", "(()" + "{9999}){9999}", String(repeating: "(", count: 5000),
            String(repeating: "a", count: 10_001),
        ])
    func refuses(_ source: String) {
        #expect(throws: SchemaPattern.Fault.self) { try SchemaPattern(source) }
    }

    @Test(
        "patterns that hang others end",
        arguments: ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(.*){1,50}b$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(x+x+)+y"])
    func endsQuickly(_ source: String) throws {
        var fuel = 10_000_000
        let text = String(repeating: "a", count: 5000) + "!"
        #expect(try SchemaPattern(source).matches(text, fuel: &fuel) != true)
        #expect(fuel > -1_000_000)
    }

    @Test func stopsWhereTheFuelIsUsedUp() throws {
        var fuel = 1000
        #expect(try SchemaPattern("^a*$").matches(String(repeating: "a", count: 100_000), fuel: &fuel) == nil)
    }
}
