import ChappieCore
import Testing

@Suite struct ChappieTerminalTextTests {
    @Test(arguments: [
        ("", ""), ("Grüße 🔑\n\tindented\n", "Grüße 🔑\n\tindented\n"),
        ("\u{1B}[2J", "\u{FFFD}[2J"), ("\u{1B}]52;c;YQ==\u{7}", "\u{FFFD}]52;c;YQ==\u{FFFD}"),
        ("\u{9B}2J", "\u{FFFD}2J"), ("a\u{8}\u{7F}\u{0}b", "a\u{FFFD}\u{FFFD}\u{FFFD}b"),
        ("good\rbad", "goodbad"), ("two\r\nlines", "two\nlines"), ("\u{A0}\u{80}\u{9F}", "\u{A0}\u{FFFD}\u{FFFD}"),
    ])
    func aTerminalIsGivenNoOrders(_ text: String, _ expected: String) {
        #expect(ChappieTerminalText.safe(text) == expected)
    }

    @Test func anErrorsMessageIsFitToBeShown() throws {
        let long = String(repeating: "a", count: 5000)
        for body in [
            #"{"error":{"message":"\u001b[2J\#(long)"}}"#, #"{"error":"\u001b[2J\#(long)"}"#,
            #"{"detail":"\u001b[2J\#(long)"}"#, #"{"error":"code","error_description":"\u001b[2J\#(long)"}"#,
        ] {
            let message = try #require(ChappieResponseError(body: ChappieJSON(parsing: body)).message)
            #expect(message.hasPrefix("\u{FFFD}[2Ja"))
            #expect(message.unicodeScalars.count == ChappieResponseError.messageLimit)
        }
    }
}
