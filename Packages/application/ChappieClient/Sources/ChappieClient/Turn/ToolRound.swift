@_spi(ChappieInternals) import ChappieCore
import ChappieJSONSchema
import Synchronization

/// The tool calls of one answer. Finds their tools, asks the user, runs them, and returns the results in the order of
/// the calls.
struct ToolRound: Sendable {
    let toolSet: ToolSet
    let approvalHandler: ChappieToolApprovalHandler?
    let failureBehavior: ChappieToolFailureBehavior
    let maximumParallelCalls: Int
    let ledger: ToolLedger
    /// The number of the ledger's conversation when the turn began.
    let conversation: Int
    /// The items of the conversation and of the turn so far.
    var history: [ChappieJSON] = []
    /// Whether the turn continues from a ``ChappiePendingTurn``. Calls that already ran for it in this process are not
    /// run again.
    var isResumed = false
    let clock: any ChappieClock
    /// The observer of the calls, and the turn as it follows it.
    let observer: (any ChappieObserver)?
    let observation: (any ChappieObservation)?
    var emit: @Sendable (ChappieStreamEvent) -> Void
    var record: TurnRecorder = { _ in }

    /// The outcome of a round.
    struct Outcome: Sendable {
        /// The calls that have ended, in the order of the calls.
        var results: [ChappieToolExecutionResult] = []
        /// The questions that are not answered yet.
        var open: [ChappieApprovalRequest] = []
    }

    /// The decision about one call.
    private enum Verdict: Sendable {
        case run(ChappieHostTool, ChappieToolCall)
        case over(ChappieToolExecutionResult)
        case open(ChappieApprovalRequest)
    }

    /// Runs the calls of a round. No call runs before every call has a verdict. Each call runs at most once.
    ///
    /// - Parameter decisions: the user's earlier answers, by call id.
    /// - Throws: ``ChappieClientError``: `missingToolHandler`, and `toolApprovalDenied` or `toolExecutionFailed` if the
    ///   configuration lets these end the turn; `CancellationError`.
    func runTools(
        _ calls: [ChappieToolCall], round: Int, decisions: [String: ChappieApprovalDecision]
    ) async throws -> Outcome {
        let known = try calls.map { call in
            let tool = toolSet.tool(for: call)
            guard tool != nil || failureBehavior == .tellModel && !isResumed else {
                throw ChappieClientError.missingToolHandler(call.name)
            }
            return (call: call, tool: tool)
        }
        var verdicts: [Verdict] = []
        for (call, tool) in known {
            if let result = isResumed ? ledger.result(of: call.callID) : nil {
                verdicts.append(.over(result))
                continue
            }
            emit(
                .toolCallRequested(ChappieToolExecutionRequest(call: call, round: round, steps: steps(of: call, tool))))
            if let tool {
                verdicts.append(try await verdict(call, tool, decisions[call.callID]))
            } else {
                verdicts.append(.over(try failed(call, "This program has no tool of this name.")))
            }
            if case .over(let result) = verdicts.last {
                try await record(.ran(result))
                emit(.toolCallCompleted(result))
            }
            try Task.checkCancellation()
        }
        let results = try await runApproved(verdicts)
        return Outcome(
            results: results,
            open: verdicts.compactMap { if case .open(let request) = $0 { request } else { nil } })
    }

    // MARK: Verdicts

    private func verdict(
        _ call: ChappieToolCall, _ tool: ChappieHostTool, _ decided: ChappieApprovalDecision?
    ) async throws -> Verdict {
        if let result = try argumentFailure(call, tool) { return .over(result) }
        switch tool.policy {
        case .automatic: return .run(tool, call)
        case .ask: if decided == nil, ledger.approval(of: tool) == .valid { return .run(tool, call) }
        default:
            let reason = "The program does not allow it."
            guard failureBehavior == .tellModel else { throw ChappieClientError.toolApprovalDenied(call.name, reason) }
            return .over(Self.denied(call, reason))
        }
        let request = ChappieApprovalRequest(
            call: call, toolDescription: tool.description, inputSchema: call.isCustom ? .null : tool.inputSchema,
            hasChanged: ledger.approval(of: tool) == .outdated)
        let decision = if let decided { decided } else { try await askUser(request) }
        switch decision {
        case .approved(let arguments, let scope):
            if scope == .session { ledger.approve(tool, in: conversation) }
            guard let arguments else { return .run(tool, call) }
            var edited = call
            edited.arguments = call.isCustom ? arguments.string ?? arguments.serialized() : arguments.serialized()
            return try argumentFailure(edited, tool).map(Verdict.over) ?? .run(tool, edited)
        case .denied(let reason):
            guard failureBehavior != .throwError else { throw ChappieClientError.toolApprovalDenied(call.name, reason) }
            return .over(Self.denied(call, reason))
        case .answered(let output):
            return .over(ChappieToolExecutionResult(call: call, outcome: .answered, result: .init(output: output)))
        case .deferred: return .open(request)
        }
    }

    /// Asks the user, who may take any time, and returns the answer.
    private func askUser(_ request: ChappieApprovalRequest) async throws -> ChappieApprovalDecision {
        emit(.approvalRequested(request))
        guard let approvalHandler else {
            observer?.happened(.approvalDecided(.unasked))
            return .denied(reason: "The program can't ask for approval.")
        }
        observer?.happened(.approvalsWaiting(change: 1))
        defer { observer?.happened(.approvalsWaiting(change: -1)) }
        let decision = try await withDeadline(nil, clock: clock, late: CancellationError()) {
            await approvalHandler(request)
        }
        observer?.happened(.approvalDecided(ChappieObservedDecision(decision)))
        return decision
    }

    private static func denied(_ call: ChappieToolCall, _ reason: String) -> ChappieToolExecutionResult {
        ChappieToolExecutionResult(
            call: call, outcome: .denied, result: .init(output: "The call was denied: \(reason)", isError: true))
    }

    /// Returns the failure of a call whose arguments can't be passed to the tool, or `nil` if they can.
    private func argumentFailure(_ call: ChappieToolCall, _ tool: ChappieHostTool) throws -> ChappieToolExecutionResult?
    {
        guard call.isCustom == (tool.textFormat != nil) else {
            // Free text for a function was not checked against its schema.
            return try failed(
                call,
                call.isCustom
                    ? "It takes JSON arguments and no free text." : "It takes free text and no JSON arguments.")
        }
        if call.isCustom { return nil }
        guard let arguments = call.argumentsJSON else { return try failed(call, "The arguments are not JSON.") }
        let violations = try ChappieJSONSchema(tool.inputSchema).violations(in: arguments)
        guard !violations.isEmpty else { return nil }
        let list = violations.prefix(5).map { "\($0.path.isEmpty ? "/" : $0.path): \($0.message)" }
        return try failed(call, "The arguments don't fit: \(list.joined(separator: "; "))")
    }

    private func failed(_ call: ChappieToolCall, _ message: String) throws -> ChappieToolExecutionResult {
        guard failureBehavior != .throwError else { throw ChappieClientError.toolExecutionFailed(call.name, message) }
        return ChappieToolExecutionResult(
            call: call, outcome: .failed, result: .init(output: "The tool failed: \(message)", isError: true))
    }

    // MARK: Running

    /// Runs the calls in parallel. A tool with `runsAlone` waits for the earlier calls, and the later calls wait for
    /// it.
    private func runApproved(_ verdicts: [Verdict]) async throws -> [ChappieToolExecutionResult] {
        var results: [Int: ChappieToolExecutionResult] = [:]
        var batch: [(index: Int, tool: ChappieHostTool, call: ChappieToolCall)] = []
        func flush() async throws {
            guard !batch.isEmpty else { return }
            try await record(.running(batch.map(\.call)))
            try await withThrowingTaskGroup(of: (Int, ChappieToolExecutionResult).self) { group in
                for (count, (index, tool, call)) in batch.enumerated() {
                    if count >= maximumParallelCalls, let (index, result) = try await group.next() {
                        results[index] = result
                    }
                    // A tool that no other call runs with also gets the results of the earlier calls.
                    let history = self.history + results.sorted { $0.key < $1.key }.map(\.value.inputItem)
                    group.addTask { (index, try await result(of: call, tool, after: history)) }
                }
                for try await (index, result) in group { results[index] = result }
            }
            batch = []
        }
        for (index, verdict) in verdicts.enumerated() {
            switch verdict {
            case .over(let result): results[index] = result
            case .open: break
            case .run(let tool, let call):
                if tool.runsAlone { try await flush() }
                batch.append((index, tool, call))
                if tool.runsAlone { try await flush() }
            }
        }
        try await flush()
        return verdicts.indices.compactMap { results[$0] }
    }

    private func result(
        of call: ChappieToolCall, _ tool: ChappieHostTool, after history: [ChappieJSON]
    ) async throws -> ChappieToolExecutionResult {
        let result: ChappieToolExecutionResult
        let observed = observer?.began(.tool(ChappieObservedTool(call, of: tool)), in: observation)
        do {
            var output = try await output(of: call, tool, after: history, observed)
            observed?.ended(output.isError ? ChappieClientError.toolExecutionFailed(tool.name, "") : nil)
            if tool.serviceHandler == nil {
                output = Self.bounded(output, tool.outputLimit)
            } else {
                // The service's own pictures are kept in any size.
                output.output = Self.bounded(output.output, tool.outputLimit)
            }
            result = ChappieToolExecutionResult(
                call: call, outcome: output.isError ? .failed : .succeeded, result: output,
                steps: steps(of: call, tool))
        } catch {
            observed?.ended((error as? ToolTimedOut).map { ChappieClientError.timeLimitExceeded($0.limit) } ?? error)
            try Task.checkCancellation()
            result = try failed(call, Self.message(of: error))
        }
        if isResumed { ledger.record(result) }
        try await record(.ran(result))
        emit(.toolCallCompleted(result))
        return result
    }

    private func output(
        of call: ChappieToolCall, _ tool: ChappieHostTool, after history: [ChappieJSON],
        _ observed: (any ChappieObservation)?
    ) async throws -> ChappieToolResult {
        let late = ToolTimedOut(limit: tool.timeout)
        return try await withDeadline(tool.timeout, clock: clock, late: late) {
            guard let serviceHandler = tool.serviceHandler else {
                guard let observed else { return try await tool.handler(call) }
                return try await observed.within { try await tool.handler(call) }
            }
            return try await serviceHandler(call, history)
        }
    }

    /// Returns the steps of a call of one of the service's tools. Other tools have none.
    private func steps(of call: ChappieToolCall, _ tool: ChappieHostTool?) -> [ChappieServiceStep] {
        guard tool?.serviceHandler != nil, let arguments = call.argumentsJSON else { return [] }
        guard call.name == ServiceOutputs.image else { return SearchParameters.steps(of: arguments, in: history) }
        return arguments["prompt"]?.string.map { [.image(prompt: $0)] } ?? []
    }

    /// The maximum number of parts of a result, and the maximum number of bytes of all parts together.
    private static let parts = (count: 20, bytes: 20 << 20)

    /// Returns the result within its limits, because a single result must not fill the model's context window.
    static func bounded(_ result: ChappieToolResult, _ limit: Int) -> ChappieToolResult {
        var result = result
        var refusals: [String] = []
        result.parts.removeAll { part in
            guard part["type"] == "input_image", let url = part["image_url"]?.string,
                let refusal = ChappieImage.refusal(ofDataURL: url, name: "the image")
            else { return false }
            refusals.append("\n[An image was left out: \(refusal.errorDescription ?? "")]")
            return true
        }
        var room = parts.bytes
        let kept = result.parts.prefix(parts.count).prefix { part in
            room -= part.serializedBytes().count
            return room >= 0
        }
        let left = result.parts.count - kept.count
        if left > 0 {
            result.parts = Array(kept)
            result.output += "\n[… \(left) images or other parts left out …]"
        }
        result.output += refusals.joined()
        result.output = bounded(result.output, limit)
        for (index, part) in result.parts.enumerated() where part["type"] == "input_text" {
            let text = bounded(part["text"]?.string ?? "", limit)
            result.parts[index] = ["type": "input_text", "text": .string(text)]
        }
        return result
    }

    /// Returns the text without its middle if it is longer than `limit` bytes. The beginning and the end matter most.
    static func bounded(_ text: String, _ limit: Int) -> String {
        guard text.utf8.count > limit else { return text }
        let note = "\n[… \(text.utf8.count - limit) bytes left out …]\n"
        let half = (limit - note.utf8.count) / 2
        let bytes = Array(text.utf8)
        // A character is left out with all of its bytes. All of them except the first are 10xxxxxx.
        let head = bytes[..<half].lastIndex { $0 & 0xC0 != 0x80 } ?? 0
        let tail = bytes[(bytes.count - half)...].firstIndex { $0 & 0xC0 != 0x80 } ?? bytes.count
        return String(decoding: bytes[..<head], as: UTF8.self) + note + String(decoding: bytes[tail...], as: UTF8.self)
    }

    private struct ToolTimedOut: LocalizedError {
        let limit: Duration
        var errorDescription: String? { "It took longer than \(limit.words)." }
    }

    /// Returns the message to the model for a handler's error.
    private static func message(of error: any Error) -> String {
        let text =
            switch error {
            case let error as any LocalizedError: error.errorDescription ?? String(describing: error)
            case is CancellationError: "It was cancelled."
            default: String(describing: error)
            }
        return String(text.prefix(2000))
    }
}

/// A record of a client's approvals and tool results that lasts from round to round.
final class ToolLedger: Sendable {
    private struct State {
        var approved: [ToolSet.Key: ApprovedTool] = [:]
        var results: [String: ChappieToolExecutionResult] = [:]
        /// The number of conversations so far.
        var conversation = 0
    }

    private let state = Mutex(State())

    var conversation: Int { state.withLock(\.conversation) }

    /// Returns whether the user has approved the tool for the entire session.
    func approval(of tool: ChappieHostTool) -> ToolApprovalState {
        guard let approved = state.withLock({ $0.approved[ToolSet.Key(tool)] }) else { return .missing }
        return approved == ApprovedTool(tool) ? .valid : .outdated
    }

    /// Approves the tool. An answer that arrives after its conversation has ended does not apply to the next one.
    func approve(_ tool: ChappieHostTool, in conversation: Int) {
        state.withLock { if $0.conversation == conversation { $0.approved[ToolSet.Key(tool)] = ApprovedTool(tool) } }
    }

    /// Returns the result of a call that ran for a pending turn. It is used again if that turn fails and is resumed
    /// again.
    func result(of callID: String) -> ChappieToolExecutionResult? { state.withLock { $0.results[callID] } }

    func record(_ result: ChappieToolExecutionResult) {
        state.withLock { $0.results[result.call.callID] = result }
    }

    /// Removes the results when the resumed turn has succeeded, or waits with its results in a separate pending turn.
    func forgetResults() { state.withLock { $0.results = [:] } }

    /// Removes everything when another conversation begins.
    func reset() { state.withLock { $0 = State(conversation: $0.conversation + 1) } }

    /// Removes the approvals when another conversation begins. The results stay, because the caller may resume a turn
    /// that failed here.
    func resetApprovals() {
        state.withLock {
            $0.approved = [:]
            $0.conversation += 1
        }
    }
}

/// Whether the user has approved every call of a tool. `.outdated` means that the tool was another one at that time.
enum ToolApprovalState { case missing, valid, outdated }

/// The parts of a tool that the user saw when approving it. A server may change all of them later.
private struct ApprovedTool: Hashable {
    let origin: String
    let description: String
    let inputSchema: ChappieJSON
    let textFormat: ChappieToolTextFormat?

    init(_ tool: ChappieHostTool) {
        origin = tool.origin
        description = tool.description
        inputSchema = tool.inputSchema
        textFormat = tool.textFormat
    }
}
