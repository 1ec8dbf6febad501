import Testing

/// One stream and the data of the events it holds.
struct ServerSentEventCase: Sendable, CustomTestStringConvertible {
    let name: String
    let input: [UInt8]
    let data: [String]

    var testDescription: String { name }

    init(_ name: String, _ input: String, data: [String]) {
        self.init(name, bytes: Array(input.utf8), data: data)
    }

    /// A stream with bytes that are not UTF-8: each character stands for the byte of its number.
    init(_ name: String, latin1 input: String, data: [String]) {
        self.init(name, bytes: input.unicodeScalars.map { UInt8($0.value) }, data: data)
    }

    init(_ name: String, bytes input: [UInt8], data: [String]) {
        self.name = name
        self.input = input
        self.data = data
    }
}

extension ServerSentEventCase {
    static let table: [ServerSentEventCase] = lineEndings + starts + values + fields + ends + bytes

    private static let bom: [UInt8] = [0xEF, 0xBB, 0xBF]

    private static let lineEndings: [ServerSentEventCase] = [
        .init("LF", "data: a\n\ndata: b\n\n", data: ["a", "b"]),
        .init("CR", "data: a\r\rdata: b\r\r", data: ["a", "b"]),
        .init("CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", data: ["a", "b"]),
        .init("LF then CR ends two lines", "data: a\n\rdata: b\n\r", data: ["a", "b"]),
        .init("CRLF then LF", "data: a\r\n\ndata: b\r\n\n", data: ["a", "b"]),
        .init("CR then CRLF", "data: a\r\r\ndata: b\r\r\n", data: ["a", "b"]),
        .init("LF then CRLF", "data: a\n\r\ndata: b\n\r\n", data: ["a", "b"]),
        .init("CRLF then CR", "data: a\r\n\rdata: b\r\n\r", data: ["a", "b"]),
        .init("three styles inside one event", "data: a\rdata: b\ndata: c\r\ndata: d\n\n", data: ["a\nb\nc\nd"]),
        .init("a CR at the very end", "data: a\n\r", data: ["a"]),
        .init("many blank lines between events", "data: a\n\n\n\r\r\r\n\r\ndata: b\n\n", data: ["a", "b"]),
        .init("only blank lines", "\n\r\n\r\r\n\n\n", data: []),
        .init("only CRs", "\r\r\r\r", data: []),
        .init(
            "other line separators are text", "data: a\u{2028}b\u{85}c\u{0B}d\u{0C}e\n\n",
            data: ["a\u{2028}b\u{85}c\u{0B}d\u{0C}e"]),
    ]

    private static let starts: [ServerSentEventCase] = [
        .init("nothing at all", "", data: []),
        .init("a byte order mark", bytes: bom + Array("data: a\n\n".utf8), data: ["a"]),
        .init("a byte order mark alone", bytes: bom, data: []),
        .init("a byte order mark before a blank line", bytes: bom + Array("\ndata: a\n\n".utf8), data: ["a"]),
        .init("a byte order mark before CRLF", bytes: bom + Array("\r\ndata: a\n\n".utf8), data: ["a"]),
        .init("two byte order marks spoil the first field", bytes: bom + bom + Array("data: a\n\n".utf8), data: []),
        .init("a byte order mark later is text", "data: \u{FEFF}a\n\n", data: ["\u{FEFF}a"]),
        .init("a byte order mark before a later line spoils it", "data: a\n\n\u{FEFF}data: b\n\n", data: ["a"]),
        .init("one byte of a byte order mark", bytes: [0xEF], data: []),
        .init("two bytes of a byte order mark", bytes: [0xEF, 0xBB], data: []),
        .init(
            "a third of a byte order mark spoils its line", bytes: [0xEF] + Array("data: a\ndata: b\n\n".utf8),
            data: ["b"]),
        .init(
            "half a byte order mark spoils its line", bytes: [0xEF, 0xBB] + Array("data: a\ndata: b\n\n".utf8),
            data: ["b"]),
        .init(
            "half a byte order mark, then another", bytes: [0xEF, 0xBB, 0xEF] + Array("\ndata: b\n\n".utf8), data: ["b"]
        ),
        .init("a CR first", "\rdata: a\n\n", data: ["a"]),
        .init("a LF first", "\ndata: a\n\n", data: ["a"]),
    ]

    private static let values: [ServerSentEventCase] = [
        .init("several lines", "data: a\ndata: b\ndata: c\n\n", data: ["a\nb\nc"]),
        .init("no space after the colon", "data:a\n\n", data: ["a"]),
        .init("only the first space goes", "data:  a \n\n", data: [" a "]),
        .init("a tab stays", "data:\ta\n\n", data: ["\ta"]),
        .init("colons inside", "data: a: b:c\n\n", data: ["a: b:c"]),
        .init("a value that looks like a field", "data: data: a\n\n", data: ["data: a"]),
        .init("no colon", "data\n\n", data: [""]),
        .init("a colon and nothing", "data:\n\n", data: [""]),
        .init("a colon and a space", "data: \n\n", data: [""]),
        .init("two empty lines of data", "data\ndata\n\n", data: ["\n"]),
        .init("empty lines around text", "data:\ndata: a\ndata:\n\n", data: ["\na\n"]),
        .init("the end marker of a Responses stream", "data: [DONE]\n\n", data: ["[DONE]"]),
        .init(
            "JSON with escapes is not touched", #"data: {"a":"\n\r\u0000"}"# + "\n\n", data: [#"{"a":"\n\r\u0000"}"#]),
        .init("NUL is data", "data: a\0b\n\n", data: ["a\0b"]),
        .init("two, three and four byte characters", "data: é€😀👩‍👩‍👧\n\n", data: ["é€😀👩‍👩‍👧"]),
    ]

    private static let fields: [ServerSentEventCase] = [
        .init("a comment", ": keep-alive\n\ndata: a\n\n", data: ["a"]),
        .init("an empty comment", ":\n:\n\ndata: a\n\n", data: ["a"]),
        .init("a comment inside an event", "data: a\n: wait\ndata: b\n\n", data: ["a\nb"]),
        .init("comments only", ": a\n\n: b\n\n:c", data: []),
        .init("a type and an id", "event: tick\nid: 1\ndata: a\nevent: b\nid: 2\0\n\n", data: ["a"]),
        .init("a type without data is no event", "event: tick\n\ndata: a\n\n", data: ["a"]),
        .init("an id without data is no event", "id\n\ndata: a\n\n", data: ["a"]),
        .init("retry is no event", "retry: 3000\n\ndata: a\n\n", data: ["a"]),
        .init("retry inside an event", "data: a\nretry: x\ndata: b\n\n", data: ["a\nb"]),
        .init("unknown fields", "foo: bar\ndat: x\ndatas: y\ndata: a\nid2: 3\n\n", data: ["a"]),
        .init("names are case-sensitive", "Data: x\nDATA: y\nEvent: z\ndata: a\n\n", data: ["a"]),
        .init("a space before the name spoils it", " data: x\ndata: a\n\n", data: ["a"]),
        .init("a space before the colon spoils it", "data : x\ndata: a\n\n", data: ["a"]),
        .init("unknown field without colon", "whatever\ndata: a\n\n", data: ["a"]),
        .init(
            "everything together", ": hi\nid: 7\nevent: e\nretry: 1\ndata: a\ndata\n: there\ndata:b\nfoo\n\n",
            data: ["a\n\nb"]),
    ]

    private static let ends: [ServerSentEventCase] = [
        .init("the last event without its blank line", "data: a\n\ndata: b\n", data: ["a", "b"]),
        .init("the last line without its end", "data: a\n\ndata: b", data: ["a", "b"]),
        .init("the last line ends in CR", "data: a\r\rdata: b\r", data: ["a", "b"]),
        .init("the last line is a comment", "data: a\n: b", data: ["a"]),
        .init("the last line is half a name", "data: a\ndat", data: ["a"]),
        .init("the last line has no value", "data: a\ndata:", data: ["a\n"]),
        .init("only a name", "data", data: [""]),
        .init("a type and nothing else", "event: tick", data: []),
        .init("the end within a blank CRLF", "data: a\r\n\r", data: ["a"]),
    ]

    private static let bytes: [ServerSentEventCase] = [
        .init("a lone continuation byte", latin1: "data: a\u{80}b\n\n", data: ["a\u{FFFD}b"]),
        .init("0xFF", latin1: "data: \u{FF}\u{FE}\n\n", data: ["\u{FFFD}\u{FFFD}"]),
        .init("a character cut off by the line end", latin1: "data: \u{F0}\u{9F}\u{98}\n\n", data: ["\u{FFFD}"]),
        .init("a character cut off by the end", latin1: "data: a\u{E2}\u{82}", data: ["a\u{FFFD}"]),
        .init("two halves don't join", latin1: "data: \u{C3}\ndata: \u{A9}\n\n", data: ["\u{FFFD}\n\u{FFFD}"]),
        .init("an overlong slash", latin1: "data: \u{C0}\u{AF}\n\n", data: ["\u{FFFD}\u{FFFD}"]),
        .init("a name that is not UTF-8", latin1: "\u{FF}data: a\ndata: b\n\n", data: ["b"]),
        .init("control characters are data", "data: \u{01}\u{1B}[31m\u{7F}\n\n", data: ["\u{01}\u{1B}[31m\u{7F}"]),
    ]
}
