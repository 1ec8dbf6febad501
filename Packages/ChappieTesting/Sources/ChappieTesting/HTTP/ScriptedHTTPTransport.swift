public import ChappieCore
import FoundationEssentials
import HTTPTypes
import Synchronization

/// ``HTTPTransport`` in memory: plays scripted answers and remembers what it was asked.
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
/// It keeps ``HTTPTransportContract``, as the real adapters do: plain `http` only to loopback, redirects within the
/// origin only, deadlines where the request brings its own.
public final class ScriptedHTTPTransport: HTTPTransport {
    /// Decides the answer to a request.
    public typealias Script = @Sendable (HTTPExchangeRequest) async throws -> ScriptedHTTPAnswer

    private let script: Script
    private let clock: any ChappieClock
    private let requests = Mutex<[HTTPExchangeRequest]>([])

    /// Asks `script` for the answer to each request.
    ///
    /// - Parameter clock: for the deadlines of stalled steps.
    public init(clock: any ChappieClock = SystemClock(), _ script: @escaping Script) {
        self.script = script
        self.clock = clock
    }

    /// Gives `answers` in order. A request after the last one fails with code `.unavailable`, which says so.
    public convenience init(clock: any ChappieClock = SystemClock(), answers: [ScriptedHTTPAnswer]) {
        let rest = Mutex(answers[...])
        self.init(clock: clock) { request in
            guard let answer = rest.withLock({ $0.popFirst() }) else {
                throw ChappieTransportError(
                    .unavailable, stage: .configuration, host: request.url.host() ?? "",
                    reason: "the script has no answer for request \(answers.count + 1)")
            }
            return answer
        }
    }

    /// Every request so far, those that followed a redirect included, as they were given: bodies not compressed.
    public var receivedRequests: [HTTPExchangeRequest] { requests.withLock { $0 } }

    public func send(_ request: HTTPExchangeRequest) async throws -> HTTPExchangeResponse {
        var request = request
        for _ in 0...5 {
            try Task.checkCancellation()
            let host = try ScriptedURLRule.usableHost(of: request.url)
            requests.withLock { $0.append(request) }
            let answer = try await script(request)
            let player = ScriptedAnswerPlayer(answer, host: host, deadlines: request.deadlines, clock: clock)
            try await player.playBeforeHead()
            guard let next = try ScriptedURLRule.redirect(from: request, by: answer, host: host) else {
                return HTTPExchangeResponse(
                    status: answer.status, headerFields: answer.headerFields,
                    body: HTTPBody(next: { try await player.nextChunk() }, cancel: { player.cancel() }))
            }
            request = next
        }
        throw ChappieTransportError(
            .redirectRefused, stage: .responseHead, host: request.url.host() ?? "",
            reason: "more than 5 redirects in a row")
    }
}
