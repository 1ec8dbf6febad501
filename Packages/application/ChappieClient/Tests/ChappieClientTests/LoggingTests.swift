import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieTesting
import HTTPTypes
import InMemoryLogging
import Logging
import Testing

/// A logger is told why a turn was sent again and why tokens were renewed, and nothing else.
@Suite(.timeLimit(.minutes(2))) struct LoggingTests {
    private let log = InMemoryLogHandler()
    private var logger: Logger {
        var logger = Logger(label: "test") { [log] _ in log }
        logger.logLevel = .trace
        return logger
    }

    private struct Case: CustomTestStringConvertible, Sendable {
        let testDescription: String
        var wires = Wire.allCases
        let replies: [Reply]
        var openings: [ScriptedWebSocketOpening] = []
        let message: String?
        var reason = ""
    }

    private static let cases = [
        Case(testDescription: "no fault", replies: [.answer("Hello")], message: nil),
        Case(
            testDescription: "a rate limit", replies: [.refused(429), .answer("Hello")],
            message: "Waiting because of a limit", reason: "status 429"),
        Case(
            testDescription: "a break before the answer", replies: [Reply(steps: [.cut]), .answer("Hello")],
            message: "Reconnecting", reason: "connectionLost at "),
        Case(
            testDescription: "a break in the answer", replies: [.half("Hel", then: .cut), .answer("Hello")],
            message: "Replaying a turn of which a part was shown", reason: "connectionLost at "),
        Case(
            testDescription: "a server that fails", replies: [.failed(#"{"code":"server_error"}"#), .answer("Hello")],
            message: "Reconnecting", reason: "response failed: server_error"),
        Case(
            testDescription: "no WebSocket", wires: [.webSocket], replies: [.answer("Hello")],
            openings: [.refused(.response(status: .upgradeRequired))],
            message: "Falling back to server-sent events", reason: "status 426"),
        Case(
            testDescription: "a lost conversation", wires: [.webSocket],
            replies: [.failed(#"{"code":"previous_response_not_found"}"#), .answer("Hello")],
            message: "Repeating the request on a new connection", reason: "previous_response_not_found"),
    ]

    @Test(arguments: cases.indices, Wire.allCases) func aFaultIsToldOnceWithItsReason(index: Int, wire: Wire) async {
        let it = Self.cases[index]
        guard it.wires.contains(wire) else { return }
        let harness = ClientHarness(wire, it.replies, openings: it.openings, logger: logger)
        _ = await harness.ask()
        #expect(log.entries.map { "\($0.message)" } == [it.message].compactMap(\.self), "\(it)")
        #expect(log.entries.allSatisfy { $0.level == .debug })
        #expect(log.entries.allSatisfy { "\($0.metadata["reason"] ?? "none")".contains(it.reason) }, "\(log.entries)")
    }

    @Test func aServerWithoutCompressionIsTold() async {
        let harness = ClientHarness(.serverSentEvents, [.refused(415), .answer("Hello")], logger: logger)
        _ = await harness.ask(String(repeating: "long ", count: 2000))
        #expect(log.entries.map { "\($0.message)" } == ["Repeating the request without compression"])
    }

    @Test @MainActor func `a complete sign-in, a refused token and a turn log no secret`() async throws {
        var (first, second) = (SeededAuth(), SeededAuth())
        (first.serial, first.refreshToken) = (1, "rt_first_secret")
        (second.serial, second.refreshToken) = (2, "rt_second_secret")
        let harness = ClientHarness(
            .serverSentEvents, [.refused(401, "body-secret"), .half("answer-", then: .cut), .answer("answer-secret")],
            others: [
                .response(body: #"{"device_auth_id":"device-secret","user_code":"CODE-SECRET","interval":"0"}"#),
                .response(
                    body: #"{"authorization_code":"ac-secret","code_challenge":"x","code_verifier":"verifier-secret"}"#),
                .response(body: first.tokenAnswer), .response(body: second.tokenAnswer),
            ], signedIn: false, logger: logger)
        let session = ChappieAuthSession(credentials: harness.credentials)
        _ = try await session.signIn { _ in }
        #expect(await harness.ask("question-secret").text == "answer-secret")
        #expect(
            log.entries.map { "\($0.message)" } == [
                "Renewing the tokens", "Replaying a turn of which a part was shown",
            ])
        #expect(log.entries.first?.metadata["reason"] == "the backend refused the access token")
        let all = "\(log.entries)"
        let secrets = [first, second].flatMap { [$0.accessToken, $0.idToken, "person@", "account-1", "user-1"] }
        for secret in secrets + ["secret", "SECRET"] { #expect(!all.contains(secret)) }
    }

    @Test func `a renewal that fails logs a warning without the server's text`() async {
        let harness = ClientHarness(
            .serverSentEvents, [.refused(401)],
            others: [.response(status: .badRequest, body: #"{"error":"invalid_grant","error_description":"secret"}"#)],
            logger: logger)
        _ = await harness.ask()
        #expect(log.entries.map(\.level) == [.debug, .warning])
        #expect(log.entries.last?.message == "The tokens were not renewed")
        #expect(log.entries.last?.metadata["reason"] == "status 400")
    }
}
