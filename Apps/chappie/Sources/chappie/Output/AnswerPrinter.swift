import ChappieSDK
import FoundationEssentials

/// Prints a streamed answer: text to standard output, everything else to standard error; or JSON lines.
struct AnswerPrinter {
    let isJSON: Bool
    let statusLine: StatusLine
    private let program: Program
    private var transport = TransportSummary()
    private var lastCharacterEndedLine = true
    private var limits: ChappieUsageLimitSnapshot?

    init(program: Program) {
        self.program = program
        isJSON = program.options.json
        statusLine = StatusLine(environment: program.environment)
    }

    /// Prints the whole stream and gives its response.
    mutating func print(
        _ events: AsyncThrowingStream<ChappieStreamEvent, any Error>
    ) async throws -> ChappieResponse? {
        var response: ChappieResponse?
        if !isJSON { statusLine.show("Waiting for the answer…") }
        defer {
            finishLine()
            program.keep(transport)
        }
        for try await event in events {
            if case .transport(let event) = event { transport.received(event) }
            if isJSON { Output.json(line(event)) } else { show(event) }
            if case .completed(let whole) = event { response = whole }
        }
        return response
    }

    private func line(_ event: ChappieStreamEvent) -> ChappieJSON {
        guard case .completed = event, var object = event.json.object else { return event.json }
        object["transport"] = transport.json
        return .object(object)
    }

    private mutating func show(_ event: ChappieStreamEvent) {
        switch event {
        case .textDelta(let text):
            statusLine.clear()
            lastCharacterEndedLine = text.utf8.last == UInt8(ascii: "\n")
            Output.write(text)
        case .reasoningSummaryDelta: showStatus("Thinking…")
        case .transport(.reconnecting(let attempt, let maximum, _)):
            showStatus("The connection broke; trying again (\(attempt) of \(maximum))…")
        case .transport(.fellBack): showStatus("Going on without WebSocket…")
        case .transport(.waiting(let attempt, let maximum, let delay)):
            statusLine.clear()
            Output.note(
                "chappie: rate limited; trying again in \(Int(delay.seconds.rounded(.up))) s (\(attempt) of \(maximum))"
            )
        case .usageLimits(let snapshot): limits = snapshot
        case .completed(let response): finish(response)
        default: break
        }
    }

    private mutating func finish(_ response: ChappieResponse) {
        finishLine()
        if program.options.verbose { Output.note("chappie: transport \(transport.words)") }
        if let reason = response.incompleteReason {
            Output.note("chappie: the answer ended early (\(reason))")
        }
        for (name, window) in [("short-term", limits?.primary), ("long-term", limits?.secondary)] {
            guard let window, window.usedPercent >= 80 else { continue }
            let reset = window.resetsAt.map { "; it resets at \($0.localMinute)" } ?? ""
            Output.note("chappie: \(window.wholePercent) % of the \(name) usage limit is used\(reset)")
        }
    }

    /// Between lines only: the status line would wipe out what stands on its own.
    private func showStatus(_ text: String) {
        if lastCharacterEndedLine { statusLine.show(text) }
    }

    private mutating func finishLine() {
        statusLine.clear()
        guard !isJSON, !lastCharacterEndedLine else { return }
        Output.line()
        lastCharacterEndedLine = true
    }
}
