import Foundation
import Glibc
import Testing

@testable import ChappieLineEditor

/// The reading end of a pipe with these bytes, and its writing end.
private func pipeHolding(_ bytes: [UInt8]) -> (reader: CInt, writer: CInt) {
    var ends: [CInt] = [-1, -1]
    guard pipe(&ends) == 0 else { return (-1, -1) }
    _ = bytes.withUnsafeBytes { write(ends[1], $0.baseAddress, $0.count) }
    return (ends[0], ends[1])
}

@Suite struct KeyInputTests {
    private func keys(_ bytes: [UInt8]) -> String {
        let (reader, writer) = pipeHolding(bytes)
        defer { close(reader) }
        close(writer)
        var input = KeyInput(descriptor: reader, attention: -1)
        var text = String.UnicodeScalarView()
        while case .key(let scalar) = input.event() { text.append(scalar) }
        return String(text)
    }

    @Test(
        arguments: [
            (Array("aä漢🌙".utf8), "aä漢🌙"), ([0x61, 0xFF, 0x62], "a\u{FFFD}b"), ([0xC3, 0x61], "\u{FFFD}a"),
            ([0xE6, 0xBC], ""), ([0xED, 0xA0, 0x80], "\u{FFFD}\u{FFFD}\u{FFFD}"), ([], ""),
        ] as [([UInt8], String)])
    func keysAreCharacters(_ bytes: [UInt8], _ expected: String) { #expect(keys(bytes) == expected) }

    @Test func aCharacterMayComeInPieces() {
        let (reader, writer) = pipeHolding([0xE6])
        defer { close(reader) }
        var input = KeyInput(descriptor: reader, attention: -1)
        input.push("x")
        #expect(input.event() == .key("x"))
        _ = write(writer, [0xBC, 0xA2] as [UInt8], 2)
        #expect(input.event() == .key("漢"))
        close(writer)
        #expect(input.event() == .end)
    }

    @Test func aKeyIsReadyOnceItHasCome() {
        let (reader, writer) = pipeHolding([])
        defer { for descriptor in [reader, writer] { close(descriptor) } }
        var input = KeyInput(descriptor: reader, attention: -1)
        #expect(!input.isReady)
        input.push("x")
        #expect(input.isReady)
        #expect(input.event() == .key("x"))
        #expect(!input.isReady)
        _ = write(writer, "ab", 2)
        #expect(input.isReady)
        #expect(input.event() == .key("a"))
        #expect(input.isReady)
        #expect(input.event() == .key("b") && !input.isReady)
    }

    @Test func attentionComesBetweenKeys() {
        let (reader, writer) = pipeHolding([])
        let (attention, caller) = pipeHolding([1])
        defer { for descriptor in [reader, writer, attention, caller] { close(descriptor) } }
        var input = KeyInput(descriptor: reader, attention: attention)
        #expect(input.event() == .attention)
        _ = write(writer, "k", 1)
        #expect(input.event() == .key("k"))
    }

    @Test(
        arguments: [
            ("one\rtwo\r\n\u{1B}[201~rest", "one\ntwo\n", "r"), ("a\u{1B}[31mb\u{1B}\u{1B}[201~x", "a[31mb", "x"),
            ("tab\there\u{7}\u{9B}1m\u{1B}[201~x", "tab\there1m", "x"), ("without an end", "without an end", nil),
            ("\n\n\u{1B}[201~x", "", "x"),
        ] as [(String, String, Unicode.Scalar?)])
    func aPasteIsOneText(_ typed: String, _ expected: String, _ next: Unicode.Scalar?) {
        let (reader, writer) = pipeHolding(Array(typed.utf8))
        defer { close(reader) }
        close(writer)
        var input = KeyInput(descriptor: reader, attention: -1)
        #expect(input.paste() == expected)
        #expect(input.event() == next.map(KeyInput.Event.key) ?? .end)
    }

    @Test(arguments: [("[A", true), ("\r", true), ("k", false), ("", false)])
    func `Escape is a separate key unless a sequence comes with it`(_ rest: String, _ isSequence: Bool) {
        let (reader, writer) = pipeHolding(Array("\u{1B}\(rest)".utf8))
        defer { for descriptor in [reader, writer] { close(descriptor) } }
        var input = KeyInput(descriptor: reader, attention: -1)
        #expect(input.event() == .key("\u{1B}"))
        #expect(input.continuesEscape == isSequence)
        _ = write(writer, "x", 1)
        #expect(input.event() == .key(rest.unicodeScalars.first ?? "x"))
        // The editor's own keys count as well.
        input.push("\u{1B}[2989~")
        #expect(input.event() == .key("\u{1B}") && input.continuesEscape)
    }

    /// Sequences of common terminals, and the keys that the editor gets.
    static let sequences: [(String, String)] = [
        // PageUp, PageDown, Insert, F1 to F12 in three forms, Shift-Up, focus, mouse reports in two forms.
        ("\u{1B}[5~", ""), ("\u{1B}[6~", ""), ("\u{1B}[2~", ""), ("\u{1B}[24~", ""), ("\u{1B}OP", ""),
        ("\u{1B}[[A", ""), ("\u{1B}[1;2A", ""), ("\u{1B}[I", ""), ("\u{1B}[<0;12;3M", ""), ("\u{1B}[M !!", ""),
        // Answers: device attributes, the position of the cursor, a colour, a setting.
        ("\u{1B}[?62;c", ""), ("\u{1B}[1;80R", ""), ("\u{1B}]11;rgb:1e1e/1e1e/1e1e\u{1B}\\", ""),
        ("\u{1B}]11;rgb:0/0/0\u{7}", ""), ("\u{1B}P1$r0m\u{1B}\\", ""), ("\u{1B}_Gi=31;OK\u{1B}\\", ""),
        // Return with Shift, and other keys with their codes.
        ("\u{1B}[13;2u", "\u{1B}\r"), ("\u{1B}[27;2;13~", "\u{1B}\r"), ("\u{1B}[13u", "\r"), ("\u{1B}[97;5u", "\u{1}"),
        ("\u{1B}[102;3u", "\u{1B}f"), ("\u{1B}[57358u", ""),
        // The keypad, arrows, Home and End in both forms.
        ("\u{1B}OM", "\r"), ("\u{1B}Op", "0"), ("\u{1B}Oy", "9"), ("\u{1B}Ok", "+"), ("\u{1B}OA", "\u{1B}[A"),
        ("\u{1B}[7~", "\u{1B}[H"), ("\u{1B}OF", "\u{1B}[F"), ("\u{1B}[1;3D", "\u{1B}[1;5D"),
        ("\u{1B}[1;5C", "\u{1B}[1;5C"),
        ("\u{1B}\u{1B}[D", "\u{1B}[D"), ("\u{1B}[5\u{1B}[A", "\u{1B}[A"), ("\u{1B}f", "\u{1B}f"),
    ]

    @Test(arguments: sequences)
    func `a sequence is a known key or nothing and never text`(_ typed: String, _ expected: String) {
        #expect(keys(Array("a\(typed)b".utf8)) == "a\(expected)b")
    }

    @Test(arguments: sequences)
    func `a sequence may come in pieces`(_ typed: String, _ expected: String) {
        let (reader, writer) = pipeHolding([])
        defer { close(reader) }
        Thread.detachNewThread {
            var piece: [UInt8] = []
            for byte in "\(typed)b".utf8 {
                piece.append(byte)
                // An Escape that nothing follows for 50 ms is the key.
                guard byte != 0x1B else { continue }
                _ = write(writer, piece, piece.count)
                piece = []
                sched_yield()
            }
            close(writer)
        }
        var input = KeyInput(descriptor: reader, attention: -1)
        var text = String.UnicodeScalarView()
        while case .key(let scalar) = input.event() { text.append(scalar) }
        #expect(String(text) == expected + "b")
    }

    @Test func `a paste without its end is left with Ctrl-C, or after a pause`() {
        let (reader, writer) = pipeHolding(Array("one\rtwo\u{3}".utf8))
        defer { for descriptor in [reader, writer] { close(descriptor) } }
        var input = KeyInput(descriptor: reader, attention: -1)
        #expect(input.paste() == "one\ntwo")
        #expect(input.event() == .key("\u{3}"))
        _ = write(writer, "three", 5)
        #expect(input.paste() == "three")
        _ = write(writer, "\r", 1)
        #expect(input.event() == .key("\r"))
    }

    @Test func aPasteOfTheEditorsOwnEndsNowhereElse() {
        let (reader, writer) = pipeHolding(Array("k".utf8))
        defer { close(reader) }
        close(writer)
        var input = KeyInput(descriptor: reader, attention: -1)
        input.push(paste: "a\u{1B}[201~\ry")
        #expect("\u{1B}[200~".unicodeScalars.allSatisfy { input.event() == .key($0) })
        #expect(input.paste() == "a[201~\ny")
        #expect(input.event() == .key("k"))
    }

    @Test func whatWasTypedBeforeIsDropped() {
        let terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY)
        // TIOCSPTLCK and TIOCGPTN of ioctl_tty(2): they unlock the other end, and return its number.
        var (locked, number): (CInt, CInt) = (0, 0)
        #expect(ioctl(terminal, 0x4004_5431, &locked) == 0 && ioctl(terminal, 0x8004_5430, &number) == 0)
        let reader = open("/dev/pts/\(number)", O_RDWR | O_NOCTTY)
        defer { for descriptor in [reader, terminal] { close(descriptor) } }
        var input = KeyInput(descriptor: reader, attention: -1)
        func type(_ line: String) {
            _ = write(terminal, line, line.utf8.count)
            // A line is readable a moment after it was typed.
            var waited = pollfd(fd: reader, events: Int16(POLLIN), revents: 0)
            #expect(poll(&waited, 1, -1) == 1)
        }
        type("ab\n")
        #expect(input.event() == .key("a"))
        type("y\n")
        input.push("pushed")
        input.discard()
        type("n\n")
        #expect(input.event() == .key("n"))
    }

    @Test func aPasteIsBounded() {
        let (reader, writer) = pipeHolding(Array((String(repeating: "x", count: 5000) + "\u{1B}[201~y").utf8))
        defer { close(reader) }
        close(writer)
        var input = KeyInput(descriptor: reader, attention: -1)
        #expect(input.paste(limit: 1000).count == 1000)
        #expect(input.event() == .key("y"))
    }
}

@Suite struct CompletionTests {
    @Test(
        arguments: [
            ("/mo", ["/model ", "/help"], .insert("del ")), ("/", ["/model ", "/help"], .list(["/model ", "/help"])),
            ("/model gpt", ["/model gpt-6-sol", "/model gpt-6"], .insert("-6")), ("/x", ["/help"], .nothing),
            ("/help", ["/help"], .nothing), ("", [], .nothing),
        ] as [(String, [String], Completion)])
    func tabInsertsWhatIsCertain(_ text: String, _ candidates: [String], _ expected: Completion) {
        #expect(Completion(of: text, among: candidates) == expected)
    }

    @Test func candidatesStandSideBySide() {
        #expect(Completion.table(["/model a", "/model bb", "/model c"], columns: 9) == "a   bb  \nc   \n")
        #expect(Completion.table(["/a"], columns: 1) == "/a  \n")
    }
}
