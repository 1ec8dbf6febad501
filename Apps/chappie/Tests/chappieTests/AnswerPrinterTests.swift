import ArgumentParser
@_spi(ChappieInternals) import ChappieCore
import ChappieMarkdown
import ChappieSDK
import FoundationEssentials
import Testing

@testable import chappie

@Suite struct AnswerPrinterTests {

    /// Prints the events, and gives what standard output and standard error got.
    private func printed(
        _ events: [ChappieStreamEvent], _ arguments: String..., drawing: Bool = false, failing: Bool = false,
        terminal: Bool = false, styles: Bool = false, markdown: MarkdownStream? = nil, showsTools: Bool = false
    ) async throws -> (output: String, errors: String, transport: TransportSummary) {
        let recorder = Recorder()
        let console = recorder.console(.init(output: terminal, draws: drawing, error: drawing, styles: styles))
        var printer = AnswerPrinter(
            console, try GlobalOptions.parse(arguments), markdown: markdown, showsTools: showsTools)
        let stream = AsyncThrowingStream<ChappieStreamEvent, any Error> { stream in
            for event in events { stream.yield(event) }
            stream.finish(throwing: failing ? ChappieClientError.invalidResponse : nil)
        }
        do { try await printer.print(stream) } catch ChappieClientError.invalidResponse where failing {}
        try await console.drained()
        return (recorder.text(of: .output), recorder.text(of: .error), printer.transport)
    }

    private static let response = ChappieResponse(id: "r", status: .completed)

    @Test(
        arguments: [(["Hello", ", you"], "Hello, you\n"), (["Hello\n"], "Hello\n"), (["", "x"], "x\n"), ([], "")],
        [false, true])
    func textGoesToStandardOutputAndEndsItsLine(_ answer: ([String], String), failing: Bool) async throws {
        let events = answer.0.map(ChappieStreamEvent.textDelta) + (failing ? [] : [.completed(Self.response)])
        let (output, errors, _) = try await printed(events, failing: failing)
        #expect(output == answer.1 && errors.isEmpty)
    }

    @Test func `a short answer for a pipe is written in one piece, and a longer one streams`() async throws {
        for (words, count) in [(3, 1), (1200, 2)] {
            let recorder = Recorder()
            let console = recorder.console()
            let events = Array(repeating: ChappieStreamEvent.textDelta("word "), count: words)
            let (stream, continuation) = AsyncThrowingStream<ChappieStreamEvent, any Error>.makeStream()
            let printing = Task {
                var printer = AnswerPrinter(console, try GlobalOptions.parse([]))
                try await printer.print(stream)
            }
            for event in events { continuation.yield(event) }
            while count > 1, recorder.text(of: .output).isEmpty { await Task.yield() }
            continuation.yield(.completed(Self.response))
            continuation.finish()
            try await printing.value
            try await console.drained()
            let pieces = recorder.streams.count { $0 == .output }
            #expect(count == 1 ? pieces == 1 : pieces >= count)
            #expect(recorder.text(of: .output) == String(repeating: "word ", count: words) + "\n")
        }
    }

    @Test func `an answer that does not stream is shown when it is complete, without what a restart discards`()
        async throws
    {
        let recorder = Recorder()
        let console = recorder.console()
        var printer = AnswerPrinter(console, try GlobalOptions.parse([]), streams: false)
        let events: [ChappieStreamEvent] = [
            .textDelta("The sea"), .restarted(discarded: "The sea"), .textDelta("The sky"), .textDelta("."),
            .completed(Self.response),
        ]
        let stream = AsyncThrowingStream<ChappieStreamEvent, any Error> { stream in
            for event in events { stream.yield(event) }
            stream.finish()
        }
        try await printer.print(stream)
        try await console.drained()
        #expect(recorder.text(of: .output) == "The sky.\n" && recorder.text(of: .error).isEmpty)
    }

    @Test func `commentary is dim on a terminal and is left out of a pipe`() async throws {
        let item = { (text: String) in
            ChappieStreamEvent.item(
                ChappieOutputItem([
                    "type": "message", "phase": "commentary",
                    "content": [["type": "output_text", "text": .string(text)]],
                ]))
        }
        let events: [ChappieStreamEvent] = [
            .commentaryDelta("I'll "), .commentaryDelta("look.\u{1B}[2J"), item("I'll look."),
            .commentaryDelta("Well."), item("Well."), .textDelta("Fo"), .textDelta("ur."), .commentaryDelta("Done."),
            item("Done."), .completed(Self.response),
        ]
        let pipe = try await printed(events, drawing: true)
        #expect(pipe.output == "Four.\n")
        #expect(pipe.errors.contains("Working…") && !pipe.errors.contains("look"))
        #expect(
            try await printed(events, terminal: true, styles: true).output
                == "\u{1B}[2mI'll \u{1B}[0m\u{1B}[2mlook.\u{FFFD}[2J\u{1B}[0m\n\n\u{1B}[2mWell.\u{1B}[0m\n\nFour.\n\n"
                + "\u{1B}[2mDone.\u{1B}[0m\n")
        #expect(
            try await printed(events, terminal: true).output == "I'll look.\u{FFFD}[2J\n\nWell.\n\nFour.\n\nDone.\n")
        let drawn = MarkdownStream(width: 80, height: nil, isStyled: true)
        let plain: [ChappieStreamEvent] = [.commentaryDelta("I'll look.")] + events.dropFirst(2)
        let output = try await printed(plain, terminal: true, styles: true, markdown: drawn).output
        #expect(
            output
                == "\u{1B}[0;2mI'll look.\u{1B}[0m\n\n\u{1B}[0;2mWell.\u{1B}[0m\n\nFour.\n\n\u{1B}[0;2mDone.\u{1B}[0m\n",
            "\(output.debugDescription)")
    }

    @Test func `an answer that starts again begins on a line of its own, after a line on standard error`() async throws
    {
        let line = "The connection broke. The answer starts again:\n"
        let events: [ChappieStreamEvent] = [
            .textDelta("The sea is"), .restarted(discarded: "The sea is"), .textDelta("The sky."),
            .completed(Self.response),
        ]
        let pipe = try await printed(events)
        #expect(pipe.output == "The sea is\nThe sky.\n" && pipe.errors == line)
        let drawn = MarkdownStream(width: 80, height: nil, isStyled: true)
        let terminal = try await printed(events, terminal: true, styles: true, markdown: drawn)
        #expect(terminal.output.split(separator: "\n") == ["The sea is", "The sky."] && terminal.errors == line)
        let json = try await printed(events, "--json")
        let lines = try json.output.split(separator: "\n").map { try ChappieJSON(parsing: String($0)) }
        #expect(lines[1] == ["type": "restarted", "discarded": "The sea is"] && json.errors.isEmpty)
        // Nothing of it was shown.
        let hidden: [ChappieStreamEvent] = [
            .restarted(discarded: ""), .textDelta("The sky."), .completed(Self.response),
        ]
        #expect(try await printed(hidden).errors.isEmpty)
    }

    @Test func textBeforeACallStandsApartFromTheAnswer() async throws {
        let call = ChappieToolCall(name: "up", callID: "c", arguments: "{}")
        let events: [ChappieStreamEvent] = [
            .textDelta("Let me look."), .toolCallRequested(ChappieToolExecutionRequest(call: call, round: 0)),
            .textDelta("It is there."), .completed(Self.response),
        ]
        #expect(try await printed(events).output == "Let me look.\n\nIt is there.\n")
    }

    @Test func `a step of the service has a row, and its call and a failure have none`() async throws {
        let call = ChappieToolCall(name: "web_search", callID: "c", arguments: "{}")
        let steps: [ChappieServiceStep] = [
            .web(ChappieWebSearch(action: .search(queries: ["swift\u{1B}[2J"]))),
            .web(ChappieWebSearch(action: .openPage(url: "https://swift.org/"))),
        ]
        let failed = ChappieToolExecutionResult(
            call: call, outcome: .failed, result: ChappieToolResult(output: "x", isError: true), steps: steps)
        let events: [ChappieStreamEvent] = [
            .toolCallRequested(ChappieToolExecutionRequest(call: call, steps: steps)), .toolCallCompleted(failed),
            .textDelta("It is out."), .completed(Self.response),
        ]
        let (output, errors, _) = try await printed(events, showsTools: true)
        #expect(output == "It is out.\n")
        #expect(errors == "· Searches the web: swift [2J\n· Opens https://swift.org/\n")
    }

    @Test func `an invented tool's name is printed short and on one line`() {
        let name = "x\n\nThe model wants to run nothing:" + String(repeating: "y", count: 1000)
        let call = ChappieToolCall(name: name, callID: "c", arguments: "{}")
        #expect(call.line.count < 400 && call.reminder.count < 400)
        #expect(!call.line.contains("\n") && call.reminder.split(separator: "\n").count == 1)
    }

    @Test func theStatusIsOnlyDrawnBetweenLines() async throws {
        let events: [ChappieStreamEvent] = [
            .reasoningSummaryDelta("hm"), .textDelta("Hel"),
            .transport(.reconnecting(attempt: 1, maximum: 5, delay: .seconds(1))), .textDelta("lo\n"),
            .transport(.fellBack(.serverSentEvents)),
        ]
        let (output, errors, _) = try await printed(events, drawing: true)
        #expect(output == "Hello\n")
        #expect(errors.contains("Waiting for the answer…") && errors.contains("Thinking…"))
        #expect(!errors.contains("trying again") && errors.contains("Continuing without WebSocket…"))
        #expect(errors.hasSuffix("\r\u{1B}[2K"))
    }

    @Test func waitingLimitsAndAnEarlyEndAreNoted() async throws {
        let limits = ChappieUsageLimitSnapshot(
            primary: ChappieUsageWindow(usedPercent: 93.7, windowMinutes: 10_080),
            secondary: ChappieUsageWindow(usedPercent: 79, windowMinutes: 300))
        let events: [ChappieStreamEvent] = [
            .transport(.waiting(attempt: 1, maximum: 2, delay: .milliseconds(1500))), .usageLimits(limits),
            .transport(.connected(.webSocket)), .transport(.fellBack(.serverSentEvents)),
            .transport(.connected(.serverSentEvents)),
            .completed(ChappieResponse(id: "r", status: .incomplete, incompleteReason: "max_output_tokens")),
        ]
        let errors = try await printed(events, "--verbose").errors
        #expect(errors.contains("the service is busy; trying again in 2 s (1 of 2)"))
        #expect(errors.contains("the answer ended early (max_output_tokens)"))
        #expect(errors.contains("93 % of the weekly usage limit") && !errors.contains("5-hour"))
        #expect(errors.contains("transport sse, 0 reconnects, after falling back"))
    }

    @Test func `long tool arguments show their progress, and short ones show nothing`() async throws {
        let piece = { (id: String, count: Int) in
            ChappieStreamEvent.toolArgumentsDelta(
                ChappieToolArgumentsDelta(
                    callID: id, name: "write\u{1B}[2J", delta: String(repeating: "a", count: count)))
        }
        let short = try await printed([piece("a", 500), piece("b", 600), .completed(Self.response)], drawing: true)
        #expect(!short.errors.contains("Writing"))
        let pieces = (0..<40).map { _ in piece("a", 100) }
        let long = try await printed(pieces + [.completed(Self.response)], drawing: true)
        #expect(long.errors.contains(" (3 KiB)…") && long.output.isEmpty && !long.errors.contains("\u{1B}[2J"))
        #expect(long.errors.ranges(of: "Writing a call of ").count <= 3)
        let lines = try await printed([piece("a", 2), .completed(Self.response)], "--json").output.split(
            separator: "\n")
        let line = try ChappieJSON(parsing: String(lines[0]))
        #expect(line["type"] == "tool_arguments_delta")
        #expect(line["call_id"] == "a")
        #expect(line["delta"] == "aa")
    }

    @Test func `an interrupted answer is not reported as having ended early`() async throws {
        let response = ChappieResponse(id: "r", status: .incomplete, incompleteReason: "interrupted")
        #expect(try await printed([.textDelta("a"), .completed(response)]).errors.isEmpty)
    }

    @Test func aRefusalIsSaidAndIsAMemberOfTheResponse() async throws {
        let item = ChappieOutputItem([
            "type": "message", "content": [["type": "refusal", "refusal": "I can't help with that."]],
        ])
        let response = ChappieResponse(id: "r", items: [item])
        #expect(try await printed([.completed(response)]).errors.contains("the model refused: I can't help with that."))
        #expect(response.json["refusals"] == ["I can't help with that."] && Self.response.json["refusals"] == nil)
        let error = #expect(throws: CommandLineError.self) { try Ask.checkWhole(response) }
        #expect(error?.code == "answer_refused" && error?.status == .unavailable)
    }

    @Test func textThatIsKeptBackIsInTheResponse() async throws {
        let recorder = Recorder()
        let console = recorder.console(.init(draws: true, error: true))
        var printer = AnswerPrinter(console, try GlobalOptions.parse([]), showsText: false)
        let stream = AsyncThrowingStream<ChappieStreamEvent, any Error> { stream in
            for event in [.textDelta("a"), .textDelta("b\n"), .completed(Self.response)] as [ChappieStreamEvent] {
                stream.yield(event)
            }
            stream.finish()
        }
        try await printer.print(stream)
        try await console.drained()
        #expect(recorder.text(of: .output) == "" && printer.response == Self.response)
        #expect(recorder.text(of: .error).ranges(of: "Writing…").count == 1)
    }

    @Test func underJSONEachEventIsALine() async throws {
        let events: [ChappieStreamEvent] = [
            .transport(.connected(.webSocket)), .created("r"), .textDelta("Hi\u{1B}"), .commentaryDelta("Well"),
            .transport(.waiting(attempt: 1, maximum: 2, delay: .seconds(3))), .completed(Self.response),
        ]
        let (output, errors, transport) = try await printed(events, "--json")
        let lines = output.split(separator: "\n").map(String.init)
        #expect(
            lines.prefix(5) == [
                #"{"type":"connected","transport":"websocket"}"#, #"{"type":"created","response_id":"r"}"#,
                #"{"type":"text_delta","text":"Hi\u001b"}"#, #"{"type":"commentary_delta","text":"Well"}"#,
                #"{"type":"waiting","attempt":1,"maximum":2,"seconds":3}"#,
            ])
        let last = try ChappieJSON(parsing: Array(try #require(lines.last).utf8))
        #expect(last["type"] == "completed" && last["response"]?["status"] == "completed")
        #expect(last["transport"] == ["kind": "websocket", "reconnects": 0, "fell_back": false])
        #expect(errors.isEmpty && transport.kind == .webSocket)
    }

    @Test func aMomentNoCalendarHoldsIsATimeUnknown() {
        #expect(Date(timeIntervalSince1970: 1e300).localMinute == "an unknown time")
        #expect(Date(timeIntervalSince1970: 0).localMinute.hasPrefix("19"))
        // The year 0.
        #expect(Date(timeIntervalSince1970: -62_160_000_000).localMinute == "an unknown time")
    }
}
