@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
@_spi(ChappieInternals) import ChappieProcess
import ChappieSDK
import Dispatch
import Glibc
import Synchronization
import SystemPackage
import Testing

@testable import chappie

@Suite struct ConsoleTests {
    private let recorder = Recorder()

    @Test func everythingIsWrittenInTheOrderOfTheCalls() async throws {
        let console = recorder.console()
        for number in 0..<100 {
            console.write("\(number) ")
            console.note("n\(number)")
        }
        try await console.drained()
        #expect(recorder.text(of: .output) == (0..<100).map { "\($0) " }.joined())
        #expect(recorder.text(of: .error) == (0..<100).map { "n\($0)\n" }.joined())
        #expect(recorder.streams == (0..<100).flatMap { _ in [Console.Stream.output, .error] })
    }

    @Test(arguments: [(true, "\u{FFFD}[2Jab\tc\n"), (false, "\u{1B}[2Ja\rb\tc\n")])
    func onlyATerminalLosesControlCharacters(_ isTerminal: Bool, _ expected: String) async throws {
        let console = recorder.console(.init(output: isTerminal))
        console.line("\u{1B}[2Ja\rb\tc")
        console.note("\u{1B}[2J")
        try await console.drained()
        #expect(recorder.text(of: .output) == expected)
        #expect(recorder.text(of: .error) == "\u{FFFD}[2J\n")
    }

    @Test(arguments: [(true, "\r\u{1B}[2Kone\r\u{1B}[2Ktwo\r\u{1B}[2K"), (false, "")])
    func `a status is drawn on a terminal and overwritten by the next output`(_ draws: Bool, _ expected: String)
        async throws
    {
        let console = recorder.console(.init(draws: draws, error: draws))
        console.status("one")
        console.status("two")
        console.line("text")
        console.line("more")
        try await console.drained()
        #expect(recorder.text(of: .error) == expected)
        #expect(recorder.text(of: .output) == "text\nmore\n")
    }

    @Test(
        arguments: [
            (.init(output: true, draws: true, error: true), "\u{1B}[1mbold", "\u{1B}[0m\r\u{1B}[2K\n", ""),
            (.init(error: true), "\u{1B}[1mbold", "\u{1B}[0m\n", ""), (.init(error: true), "plain", "\n", ""),
            (.init(output: true), "\u{1B}[1mbold", "", "\u{1B}[0m\n"), (.init(), "\u{1B}[1mbold", "", ""),
        ] as [(Console.Terminals, String, String, String)])
    func whatIsInterruptedLeavesNoStyle(
        _ terminals: Console.Terminals, _ drawn: String, _ errors: String, _ output: String
    ) async throws {
        let console = recorder.console(terminals)
        console.draw(drawn)
        console.status("status")
        console.leave()
        try await console.drained()
        let status = terminals.draws ? "\r\u{1B}[2Kstatus" : ""
        #expect(recorder.text(of: .error) == status + errors)
        #expect(recorder.text(of: .output) == drawn + output)
    }

    @Test func `lines of a service's message are indented below the program's own`() async throws {
        let console = recorder.console(.init())
        console.note("chappie: boom\nchappie: all good\n> ")
        try await console.drained()
        #expect(recorder.text(of: .error) == "chappie: boom\n         chappie: all good\n         > \n")
    }

    @Test func `sources are counted and show no user's name`() {
        let source = ChappieSource(url: "https://good.example:x@evil.example/a", title: nil)
        let lines = SourceList.lines(
            [source] + (0..<99).map { ChappieSource(url: "https://x.example/\($0)", title: nil) })
        #expect(lines.count == 52 && lines[1] == "1. https://evil.example/a" && lines[51] == "… and 50 more")
    }

    @Test func `a reader that doesn't read blocks neither writers nor a cancelled task`() async throws {
        let reads = DispatchSemaphore(value: 0)
        let console = Console(.init()) { _, _ in reads.wait() }
        console.write("blocked")
        let waiting = Task { try await console.drained() }
        console.write("more")
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
        for _ in 0..<2 { reads.signal() }
        try await console.drained()
    }

    @Test(arguments: [Errno.noSpace, .brokenPipe])
    func outputEndsAtItsFirstFailureAndNotesGoOn(reason: Errno) async throws {
        let written = Mutex<[Console.Stream]>([])
        let console = Console(.init()) { stream, _ throws(Errno) in
            written.withLock { $0.append(stream) }
            if stream == .output { throw reason }
        }
        for _ in 0..<2 {
            console.line("text")
            console.note("note")
            try await console.drained()
        }
        #expect(console.outputFailure == reason)
        #expect(written.withLock { $0 } == [.output, .error, .error])
        #expect(console.readerHasLeft.isFulfilled == (reason == .brokenPipe))
    }
}

@Suite struct StandardInputTests {
    @Test(
        arguments: [
            ("", []), ("one", ["one"]), ("one\n", ["one"]), ("one\r\ntwo\n\nfour", ["one", "two", "", "four"]),
            ("ä\n", ["ä"]),
        ] as [(String, [String])])
    func linesEndAtLineFeeds(_ text: String, _ expected: [String]) async throws {
        let pipe = try pipeHolding(Array(text.utf8))
        var input = StandardInput(pipe)
        var lines: [String] = []
        while let line = try await input.readLine() { lines.append(line) }
        #expect(lines == expected)
        #expect(try await input.readLine() == nil)
    }

    @Test(arguments: [([0xFF, 0x0A], "UTF-8"), ([], "nothing to ask")])
    func whatIsNoTextIsWrongUsage(_ piped: [UInt8], _ says: String) async throws {
        let pipe = try pipeHolding(piped)
        let error = try await #require(throws: CommandLineError.self) {
            try await Ask.question([], StandardInput(pipe), Recorder().console())
        }
        #expect(error.message.contains(says))
    }

    @Test func aCancelledReaderDoesNotWaitForInput() async throws {
        let (reader, writer) = try Descriptor.pipe()
        let reading = Task {
            var input = StandardInput(reader)
            return try await input.readLine()
        }
        reading.cancel()
        await #expect(throws: CancellationError.self) { try await reading.value }
        withExtendedLifetime(writer) {}
    }

    @Test(
        arguments: [
            (["what", "is", "it"], "", "what is it"), (["what"], "a file\n", "what\n\na file"), ([], "piped", "piped"),
            (["-"], "piped\n", "piped"), (["-", "sum"], "piped", "sum\n\npiped"),
        ] as [([String], String, String)])
    func aQuestionIsArgumentsAndThenInput(_ words: [String], _ piped: String, _ expected: String) async throws {
        let pipe = try pipeHolding(Array(piped.utf8))
        let input = StandardInput(pipe)
        #expect(try await Ask.question(words, input, Recorder().console()) == expected)
    }

    @Test func `a silent pipe next to arguments is waited for, and a message says how to leave it out`() async throws {
        var writer: Descriptor?
        let reader: Descriptor
        (reader, writer) = try Descriptor.pipe()
        let recorder = Recorder()
        let console = recorder.console()
        async let question = Ask.question(["hello"], StandardInput(reader), console)
        while !recorder.text(of: .error).contains("--no-stdin") { await Task.yield() }
        try writer?.write(Array("late".utf8))
        writer = nil
        #expect(try await question == "hello\n\nlate")
    }

    @Test func `a silent socket next to arguments is left out, and a message reports it`() async throws {
        var ends: [CInt] = [0, 0]
        #expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
        let reader = try Descriptor(ends[0])
        let writer = try Descriptor(ends[1])
        defer { withExtendedLifetime(writer) {} }
        let recorder = Recorder()
        let console = recorder.console()
        #expect(try await Ask.question(["hello"], StandardInput(reader), console) == "hello")
        try await console.drained()
        #expect(recorder.text(of: .error).contains("left out"))
    }
}
