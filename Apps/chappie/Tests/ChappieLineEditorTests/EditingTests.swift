import Glibc
import Synchronization
import Testing

@testable import ChappieLineEditor

/// How the terminal treats keys.
private func flags() -> tcflag_t {
    var settings = termios()
    tcgetattr(STDIN_FILENO, &settings)
    return settings.c_lflag & tcflag_t(ICANON | ECHO | ISIG)
}

/// The editor at a terminal. Each test is in a process of its own, whose standard streams the terminal is.
@Suite struct EditingTests {
    @Test func keysEditTheLine() async {
        await #expect(processExitsWith: .success) {
            let terminal = try EditedTerminal()
            let (left, home, end, delete) = ("\u{1B}[D", "\u{1B}[H", "\u{1B}[F", "\u{1B}[3~")
            for (keys, text) in [
                ("hello\r", "hello"), ("hell\(left)l\u{1B}[Co\r", "helllo"), ("ello\(home)h\(end)!\r", "hello!"),
                ("hello!\u{7F}\r", "hello"), ("xhello\u{1}\(delete)\r", "hello"), ("xhello\u{1}\u{4}\r", "hello"),
                ("hello you\u{1B}[1;5D\u{B}\r", "hello "), ("two one\u{1B}b\u{1B}b1\r", "1two one"),
                ("漢x字\(left)\u{7F}\r", "漢字"), ("🌙🌙\(left)a\r", "🌙a🌙"), ("e\u{301}\u{7F}\r", "e"),
                ("ab\(left)\r", "ab"),
            ] {
                #expect(terminal.read(typing: keys) == .text(text), "\(keys.debugDescription)")
            }
        }
    }

    @Test func `a key that the user has bound acts`() async {
        await #expect(processExitsWith: .success) {
            let terminal = try EditedTerminal(bindings: "bind ^[[5~ ed-move-to-beg\n")
            #expect(terminal.read(typing: "ab\u{1B}[5~x\u{1B}[6~y\r") == .text("xyab"))
        }
    }

    @Test func anEntryMayHaveSeveralLines() async {
        await #expect(processExitsWith: .success) {
            let terminal = try EditedTerminal()
            #expect(terminal.read(typing: "one\\\rtwo\r") == .text("one\ntwo"))
            #expect(terminal.read(typing: "one\u{1B}\rtwo\u{1B}\nthree\r") == .text("one\ntwo\nthree"))
            #expect(terminal.read(typing: "one\\ two\r") == .text("one\\ two"))
            #expect(terminal.read(typing: "one\u{1B}[13;2utwo\r") == .text("one\ntwo"))
            #expect(terminal.read(typing: "one\u{1B}[27;2;13~two\u{1B}OM") == .text("one\ntwo"))
            #expect(terminal.read(typing: "\u{1B}[5~x\u{1B}[?62;c\u{1B}Oq\r") == .text("x1"))
        }
    }

    @Test func bytesThatAreNoTextDoNoHarm() async {
        await #expect(processExitsWith: .success) {
            let terminal = try EditedTerminal()
            #expect(terminal.read(typing: [0x61, 0xFF, 0xC3, 0x62, 0x0D]) == .text("a\u{FFFD}\u{FFFD}b"))
            #expect(terminal.read(typing: [0x61, 0xED, 0xA0, 0x80, 0x0D]) == .text("a\u{FFFD}\u{FFFD}\u{FFFD}"))
            // Ctrl-V makes the next key text: an escape is, and a NUL, which would end a string of C, is left out.
            #expect(terminal.read(typing: "a\u{16}\u{1B}b\r") == .text("a\u{1B}b"))
            #expect(terminal.read(typing: "a\u{16}\u{0}b\r") == .text("ab"))
            let asked = Mutex("")
            let completing = LineEditor.Prompt(
                "> ",
                completions: { text in
                    asked.withLock { $0 = text }
                    return []
                })
            let long = String(repeating: "x", count: 3000)
            #expect(terminal.read(completing, typing: "\u{16}\u{0}\(long)\t\r") == .text(long))
            #expect(asked.withLock(\.self) == long)
        }
    }

    @Test func aPasteIsTextWhateverItHolds() async {
        await #expect(processExitsWith: .success) {
            let terminal = try EditedTerminal(columns: 20, rows: 5)
            let pasted = "\u{1B}[200~one\r\ntwo\u{1B}[A\u{3}\u{4}\tthree\r\u{1B}[201~"
            #expect(terminal.read(typing: "\(pasted)!\r") == .text("one\ntwo[A\tthree\n!"))
            #expect(terminal.read(typing: "\u{1B}[200~/help\r\u{1B}[201~\r") == .text("/help"))
            // Longer than the screen, and than any buffer on the way.
            let lines = (0..<20_000).map { "line \($0) 漢" }.joined(separator: "\n")
            #expect(terminal.read(typing: "\u{1B}[200~\(lines)\u{1B}[201~\r") == .text(lines))
        }
    }

    @Test func aLongLineComesWhole() async {
        await #expect(processExitsWith: .success) {
            let terminal = try EditedTerminal(columns: 40, rows: 6)
            let long = String(repeating: "0123456789漢", count: 500)
            #expect(terminal.read(typing: long + "\r") == .text(long))
            #expect(terminal.read(typing: "b\u{1}\(long)\r") == .text(long + "b"))
        }
    }

    @Test func theArrowKeysLeadThroughTheHistory() async {
        await #expect(processExitsWith: .success) {
            let terminal = try EditedTerminal(historyLimit: 4)
            let (up, down) = ("\u{1B}[A", "\u{1B}[B")
            for entry in ["one", "two\nlines", "drei €"] { terminal.editor.remember(entry) }
            #expect(terminal.read(typing: "\(up)\r") == .text("drei €"))
            #expect(terminal.read(typing: "\(up)\(up)\(up)\(down)\r") == .text("two\nlines"))
            #expect(terminal.read(typing: "new\(up)\(down)\r") == .text("new"))
            #expect(terminal.read(typing: "\u{12}on\u{1B}\r") == .text("one"))
            for entry in ["four", "five", "six"] { terminal.editor.remember(entry) }
            // The oldest entry within the limit is the last that a key reaches.
            #expect(terminal.read(typing: String(repeating: up, count: 9) + "\r") == .text("drei €"))
        }
    }

    @Test func `earlier entries are loaded once and only if a key can reach them`() async {
        await #expect(processExitsWith: .success) {
            let terminal = try EditedTerminal()
            let calls = Mutex(0)
            let answer = Mutex<[String]?>(nil)
            let prompt = LineEditor.Prompt(
                "> ",
                earlierEntries: {
                    calls.withLock { $0 += 1 }
                    return answer.withLock(\.self)
                })
            terminal.editor.remember("own")
            #expect(terminal.read(prompt, typing: "typed\r") == .text("typed") && calls.withLock(\.self) == 0)
            // There are none yet: the next prompt asks again.
            #expect(terminal.read(prompt, typing: "\u{1B}[A\u{1B}[A\r") == .text("own") && calls.withLock(\.self) == 1)
            answer.withLock { $0 = ["old", "older than own"] }
            #expect(terminal.read(prompt, typing: "\u{1B}[A\u{1B}[A\r") == .text("older than own"))
            #expect(terminal.read(prompt, typing: "\u{1B}[A\u{1B}[A\u{1B}[A\r") == .text("old"))
            #expect(calls.withLock(\.self) == 2)
        }
    }

    @Test func tabCompletes() async {
        await #expect(processExitsWith: .success) {
            let terminal = try EditedTerminal(columns: 30)
            let prompt = LineEditor.Prompt(
                "> ",
                completions: { text in
                    ["/model gpt", "/model gpt-6", "/file 漢字", "/file a", "/file ab\u{1B}]52;c;eA==\u{7}"].filter {
                        $0.hasPrefix(text)
                    }
                })
            #expect(terminal.read(prompt, typing: "/m\t-7\r") == .text("/model gpt-7"))
            #expect(terminal.read(prompt, typing: "tail\u{1}/m\t \r") == .text("/model gpt tail"))
            let entry = terminal.read(prompt) { keyboard in
                keyboard.types("/f\t\t")
                // The columns are right for wide characters, and the name that a terminal would obey is left out.
                let shown = keyboard.sees("漢字  a     \r\n")
                #expect(!shown.contains("\u{1B}]"))
                keyboard.types("b\r")
            }
            #expect(entry == .text("/file b"))
            #expect(terminal.read(.init("> "), typing: "a\tb\r") == .text("ab"))
        }
    }

    @Test func interruptingClearsTheLineFirst() async {
        await #expect(processExitsWith: .success) {
            let terminal = try EditedTerminal()
            #expect(terminal.read(typing: "text\u{3}more\r") == .text("more"))
            #expect(terminal.read(typing: "text\u{3}\u{3}") == .interrupted)
            #expect(terminal.read(.init("> ", endsWhenInterrupted: true), typing: "text\u{3}") == .interrupted)
            // Ctrl-D ends the input on an empty line alone.
            #expect(terminal.read(typing: "text\u{4}\r") == .text("text"))
            #expect(terminal.read(typing: "t\u{7F}\u{4}") == .end)
        }
    }

    @Test func theInputEndsWithTheTerminal() async {
        await #expect(processExitsWith: .success) {
            let terminal = try EditedTerminal()
            let entry = terminal.read { keyboard in
                keyboard.types("half a li")
                keyboard.sees("half a li")
                keyboard.hangsUp()
            }
            #expect(entry == .end)
            #expect(terminal.editor.read(.init("> ")) == .end)
        }
    }

    @Test func theBellEndsAnEntryAndTheNextBeginsEmpty() async {
        await #expect(processExitsWith: .success) {
            let terminal = try EditedTerminal()
            let (bell, ringer) = EditedTerminal.pipe()
            let entry = terminal.read(until: bell) { keyboard in
                keyboard.types("half")
                keyboard.sees("half")
                _ = write(ringer, "!", 1)
            }
            #expect(entry == .end)
            #expect(terminal.read(typing: "whole\r") == .text("whole"))
        }
    }

    @Test func keysBeforeAQuestionDoNotAnswerIt() async {
        await #expect(processExitsWith: .success) {
            let terminal = try EditedTerminal()
            // The rest of this burst is read with the first line, and not answered to the question.
            #expect(terminal.read(typing: "first\ry\ry\r") == .text("first"))
            #expect(terminal.read(.init("Run it? ", dropsTypeAhead: true), typing: "n\r") == .text("n"))
            #expect(terminal.read(typing: "one\rtwo\r") == .text("one"))
            #expect(terminal.read { _ in } == .text("two"))
        }
    }

    @Test func `a prompt can't write to the terminal directly`() async {
        await #expect(processExitsWith: .success) {
            let terminal = try EditedTerminal()
            let entry = terminal.read(.init("Attach \u{1}\u{1B}]0;title\u{7}\u{1}? "), showing: "Attach") { keyboard in
                #expect(!keyboard.sees("?").contains("\u{1B}]"))
                keyboard.types("y\r")
            }
            #expect(entry == .text("y"))
        }
    }

    @Test func theInitialTextCanBeChanged() async {
        await #expect(processExitsWith: .success) {
            let terminal = try EditedTerminal()
            let initial = #"{"path": "a\#u{1B}[201~\#tb\#r\#nc"}"#
            #expect(
                terminal.read(.init("Arguments: ", initial: initial), typing: "\u{7F}\r")
                    == .text(#"{"path": "a[201~\#tb\#nc""#))
        }
    }

    @Test func `a resize keeps the line and redraws it from the prompt's first row`() async {
        await #expect(processExitsWith: .success) {
            let terminal = try EditedTerminal(columns: 60)
            let entry = terminal.read(.init("漢字 is a question of some length? ")) { keyboard in
                keyboard.types("abc")
                keyboard.sees("abc")
                keyboard.resizes(10, 24)
                // 35 columns of the prompt and three of the text need four rows.
                keyboard.sees("\r\u{1B}[3A\u{1B}[J")
                keyboard.sees("abc")
                keyboard.types("d")
                keyboard.sees("d")
                keyboard.resizes(200, 50)
                keyboard.sees("\r\u{1B}[J")
                keyboard.sees("abcd")
                keyboard.resizes(1, 1)
                keyboard.sees("\u{1B}[J")
                keyboard.resizes(7, 1)
                keyboard.types("\r")
            }
            #expect(entry == .text("abcd"))
        }
    }

    @Test func `suspending restores the terminal, and the line continues afterwards`() async {
        await #expect(processExitsWith: .success) {
            let terminal = try EditedTerminal()
            let entry = terminal.read { keyboard in
                keyboard.types("abc")
                keyboard.sees("abc")
                // Without a shell, no signal stops the process: it goes on with the line by itself.
                keyboard.types("\u{1A}")
                keyboard.sees("\u{1B}[?2004l")
                keyboard.sees("\u{1B}[?2004h")
                keyboard.sees("abc")
                keyboard.types("d\r")
            }
            #expect(entry == .text("abcd"))
        }
    }

    @Test func `the terminal's settings are restored after each line and at the end`() async {
        await #expect(processExitsWith: .success) {
            let terminal = try EditedTerminal()
            let before = flags()
            #expect(before == tcflag_t(ICANON | ECHO | ISIG))
            let during = Mutex<tcflag_t>(before)
            let entry = terminal.read { keyboard in
                keyboard.types("abc")
                keyboard.sees("abc")
                during.withLock { $0 = flags() }
                keyboard.types("\r")
                keyboard.sees("\u{1B}[?2004l")
            }
            #expect(entry == .text("abc"))
            #expect(flags() == before)
            #expect(TerminalState.isBetweenLines)
            #expect(during.withLock(\.self) == 0)
            TerminalState.echo(false)
            #expect(flags() == before & ~tcflag_t(ECHO))
            TerminalState.showing { #expect(flags() == before) }
            TerminalState.restore()
            #expect(flags() == before)
        }
    }

    @Test func aUserOfViHasBothOfItsModes() async {
        await #expect(processExitsWith: .success) {
            let terminal = try EditedTerminal(bindings: "bind -v\n")
            terminal.editor.remember("earlier")
            let entry = terminal.read { keyboard in
                keyboard.types("bc\u{1B}")
                // In the command mode the cursor is on the last character.
                keyboard.sees("\u{8}")
                keyboard.types("0iA\u{1B}")
                keyboard.sees("\u{8}")
                keyboard.types("k\r")
            }
            #expect(entry == .text("earlier"))
            let changed = terminal.read { keyboard in
                keyboard.types("bc\u{1B}")
                keyboard.sees("\u{8}")
                keyboard.types("0iA\r")
            }
            #expect(changed == .text("Abc"))
            #expect(terminal.read(typing: "\u{1B}[200~one\rtwo\u{1B}[201~\u{1B}\rthree\r") == .text("one\ntwo\nthree"))
            #expect(terminal.read(typing: "bc\u{1B}[D\u{1B}OD\u{1B}[Ha\u{1B}[F!\r") == .text("abc!"))
            #expect(terminal.read(typing: "\u{1B}[A\r") == .text("earlier"))
            #expect(terminal.read(typing: "text\u{3}\u{3}") == .interrupted)
        }
    }
}
