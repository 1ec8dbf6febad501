@_spi(ChappieInternals) public import ChappieCore
public import HTTPTypes
import Synchronization

/// An ``HTTPTransport`` in memory that plays scripted answers and records the requests.
///
/// ```swift
/// let transport = ScriptedHTTPTransport(answers: [
///     .response(status: .tooManyRequests, headerFields: [.retryAfter: "1"]),
///     ScriptedHTTPAnswer(body: [.chunk(firstHalf), .cut]),
///     .response(body: "data: [DONE]\n\n"),
/// ])
/// let client = makeClient(transport)
/// …
/// #expect(transport.receivedRequests.count == 3)
/// ```
///
/// It fulfils ``HTTPTransportContract``, as the real adapters do. Plain `http` goes only to loopback, redirects stay
/// within the origin, and deadlines apply if the request specifies them.
public final class ScriptedHTTPTransport: HTTPTransport {
    /// Returns the answer to a request.
    public typealias Script = @Sendable (HTTPExchangeRequest) async throws -> ScriptedHTTPAnswer

    private let script: Script
    private let clock: any ChappieClock
    private let requests = Mutex<[HTTPExchangeRequest]>([])

    /// Creates a transport that calls `script` for the answer to each request.
    ///
    /// - Parameters:
    ///   - clock: The clock for pauses and for the deadlines of stalled steps.
    ///   - script: Returns the answer to a request.
    public init(clock: any ChappieClock = SystemClock(), _ script: @escaping Script) {
        self.script = script
        self.clock = clock
    }

    /// Creates a transport that plays `answers` in order. A request after the last answer fails with code
    /// `.unavailable` and a matching reason.
    public convenience init(clock: any ChappieClock = SystemClock(), answers: [ScriptedHTTPAnswer]) {
        let next = inOrder(answers)
        self.init(clock: clock) { try next($0.url) }
    }

    /// Every request so far, including those after a redirect, as they were given. Bodies are not compressed.
    public var receivedRequests: [HTTPExchangeRequest] { requests.withLock { $0 } }

    /// Plays the script's next answer, and the answers to which its redirects lead.
    public func send(_ request: HTTPExchangeRequest) async throws -> HTTPExchangeResponse {
        var request = request
        for _ in 0...5 {
            try Task.checkCancellation()
            let host = try ScriptedURLRule.usableHost(of: request.url)
            requests.withLock { $0.append(request) }
            let answer = try await script(request)
            let player = ScriptedAnswerPlayer(answer, host: host, deadlines: request.deadlines, clock: clock)
            let response = try await player.response()
            guard let next = try ScriptedURLRule.redirect(from: request, by: answer, host: host) else {
                return response
            }
            request = next
        }
        throw ChappieTransportError(
            .redirectRefused, stage: .responseHead, host: request.url.host() ?? "",
            reason: "more than 5 redirects in a row")
    }
}

/// A script for ``ScriptedHTTPTransport``'s answer to one request.
public struct ScriptedHTTPAnswer: Sendable {
    /// One step of an exchange.
    public enum Step: Sendable {
        /// Delivers these bytes. An empty chunk is ignored.
        case chunk([UInt8])
        /// Lets this much time pass. No deadline counts it.
        case pause(Duration)
        /// Continues when the test opens the gate.
        case wait(until: ScriptedGate)
        /// Breaks the connection. Later steps don't happen.
        case cut
        /// Stalls until the request's own deadline for this stage passes or the exchange is cancelled.
        case stall
        /// Fails with this error. Later steps don't happen.
        case fail(ChappieTransportError)
    }

    /// The steps before the response head. A chunk here is ignored.
    public var beforeHead: [Step]
    /// The status of the head.
    public var status: HTTPResponse.Status
    /// The fields of the head.
    public var headerFields: HTTPFields
    /// The steps after the head.
    public var body: [Step]

    /// Creates an answer of these parts. Without arguments, it is an empty 200.
    public init(
        beforeHead: [Step] = [], status: HTTPResponse.Status = .ok, headerFields: HTTPFields = [:], body: [Step] = []
    ) {
        self.beforeHead = beforeHead
        self.status = status
        self.headerFields = headerFields
        self.body = body
    }

    /// Returns a complete response with its body in one chunk.
    public static func response(
        status: HTTPResponse.Status = .ok, headerFields: HTTPFields = [:], body: String = ""
    ) -> ScriptedHTTPAnswer {
        ScriptedHTTPAnswer(status: status, headerFields: headerFields, body: [.chunk(Array(body.utf8))])
    }

    /// Returns an answer that fails with `error` before any response.
    public static func failure(_ error: ChappieTransportError) -> ScriptedHTTPAnswer {
        ScriptedHTTPAnswer(beforeHead: [.fail(error)])
    }
}

/// Plays the steps of one ``ScriptedHTTPAnswer`` to one reader.
final class ScriptedAnswerPlayer: Sendable {
    private let answer: ScriptedHTTPAnswer
    private let host: String
    private let deadlines: ChappieDeadlines?
    private let clock: any ChappieClock
    private let position = Mutex((index: 0, hasDelivered: false))
    /// The duration of silence that the reader has allowed.
    private let allowed = Mutex(Duration.zero)
    /// A promise that is fulfilled when the reader releases the body.
    private let cancellation = Promise<Void>()

    init(_ answer: ScriptedHTTPAnswer, host: String, deadlines: ChappieDeadlines?, clock: any ChappieClock) {
        self.answer = answer
        self.host = host
        self.deadlines = deadlines
        self.clock = clock
    }

    /// Plays the steps up to the head and returns the response. The body's steps play while it is read.
    func response() async throws -> HTTPExchangeResponse {
        for step in answer.beforeHead {
            _ = try await play(step, at: .responseHead, allowing: deadlines?.responseHead)
        }
        return HTTPExchangeResponse(
            status: answer.status, headerFields: answer.headerFields,
            body: HTTPBody(
                next: { try await self.nextChunk() }, cancel: { self.cancellation.fulfil(.success(())) },
                allow: { silence in self.allowed.withLock { $0 = silence } }))
    }

    private func nextChunk() async throws -> [UInt8]? {
        while true {
            let (index, hasDelivered) = position.withLock { position in
                defer { position.index += 1 }
                return position
            }
            guard answer.body.indices.contains(index) else { return nil }
            let chunk =
                hasDelivered
                ? try await play(
                    answer.body[index], at: .responseBody,
                    allowing: deadlines.map { deadlines in max(deadlines.idle, allowed.withLock { $0 }) })
                : try await play(answer.body[index], at: .firstByte, allowing: deadlines?.firstByte)
            guard !chunk.isEmpty else { continue }
            position.withLock { $0.hasDelivered = true }
            return chunk
        }
    }

    private func play(
        _ step: ScriptedHTTPAnswer.Step, at stage: ChappieTransportError.Stage, allowing allowance: Duration?
    ) async throws -> [UInt8] {
        switch step {
        case .chunk(let bytes): return bytes
        case .fail(let error): throw error
        // Nothing opens this gate.
        case .stall: try await wait(for: ScriptedGate(), at: stage, allowing: allowance)
        case .wait(until: let gate): try await wait(for: gate, at: stage, allowing: allowance)
        case .pause(let pause): if pause > .zero { try await clock.sleep(for: pause) }
        case .cut:
            throw ChappieTransportError(
                .connectionLost, stage: stage == .firstByte ? .responseBody : stage, host: host,
                reason: "the connection closed as the script has it")
        }
        return []
    }

    /// Waits until the gate opens, the deadline passes or the exchange ends.
    private func wait(
        for gate: ScriptedGate, at stage: ChappieTransportError.Stage, allowing allowance: Duration?
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            group.addTask { [cancellation] in
                try await cancellation.value()
                throw CancellationError()
            }
            group.addTask { try await gate.pass() }
            if let allowance {
                group.addTask { [clock, host] in
                    try await clock.sleep(for: allowance)
                    throw ChappieTransportError(
                        .timedOut, stage: stage, host: host,
                        reason: "nothing within \(allowance.words), as the script has it")
                }
            }
            try await group.next()
        }
    }
}

/// Returns a function that returns `answers` one after the other.
func inOrder<Answer: Sendable>(_ answers: [Answer]) -> @Sendable (URL) throws(ChappieTransportError) -> Answer {
    let rest = Mutex(answers[...])
    return { url throws(ChappieTransportError) in
        if let answer = rest.withLock({ $0.popFirst() }) { return answer }
        throw ChappieTransportError(
            .unavailable, stage: .configuration, host: url.host() ?? "",
            reason: "the script has no answer for request \(answers.count + 1)")
    }
}

/// The URL rules that every ``HTTPTransport`` and ``WebSocketTransport`` follows, as far as a fake needs them.
enum ScriptedURLRule {
    static func usableHost(
        of url: URL, schemes: [String] = ["https", "http"]
    ) throws(ChappieTransportError) -> String {
        guard let scheme = url.scheme?.lowercased(), schemes.contains(scheme), let origin = Origin(url) else {
            throw ChappieTransportError(
                .invalidURL, stage: .configuration, host: url.host() ?? "",
                reason: "the address begins with none of \(schemes.joined(separator: ", "))")
        }
        guard origin.scheme == .https || origin.isLoopback else {
            throw ChappieTransportError(
                .insecureURL, stage: .configuration, host: origin.host,
                reason: "plain \(scheme) is only for this machine")
        }
        return origin.host
    }

    /// Returns the request to which `answer` redirects, or `nil` if it does not redirect.
    static func redirect(
        from request: HTTPExchangeRequest, by answer: ScriptedHTTPAnswer, host: String
    ) throws(ChappieTransportError) -> HTTPExchangeRequest? {
        guard [301, 302, 303, 307, 308].contains(answer.status.code), let location = answer.headerFields[.location]
        else { return nil }
        guard let target = URL(string: location, relativeTo: request.url)?.absoluteURL,
            let origin = Origin(target), origin == Origin(request.url)
        else {
            throw ChappieTransportError(
                .redirectRefused, stage: .responseHead, host: host, reason: "the redirect leads to another origin")
        }
        var next = request
        next.url = target
        if answer.status.code < 307, request.method != .head {
            next.method = .get
            next.body = nil
        }
        return next
    }
}
