import ChappieAuth
import ChappieClient
import ChappieCore
import InMemoryLogging
import Logging
import Testing

@testable import ChappieFoundationModels

#if canImport(FoundationModels, _version: 2)
    import FoundationModels
#elseif canImport(FoundationModelsStandIn)
    import FoundationModelsStandIn
#endif

/// Failures of requests, options that are not sent, and cancellation.
@MainActor
@Suite(.timeLimit(.minutes(2))) struct ErrorTests {
    private func error(_ scenario: String?, _ prompt: String = "reply: one two three") async throws -> (any Error)? {
        let user = try await SignedInModel(scenario)
        let session = LanguageModelSession(model: user.model)
        let error = await Result { try await session.respond(to: prompt) }.error
        #expect(session.transcript.isEmpty)
        return error
    }

    @Test func `a used-up plan is a rate limit with its date`() async throws {
        guard case .rateLimited(let limit)? = try await error("usage-limit") as? LanguageModelError else {
            Issue.record("no rate limit")
            return
        }
        #expect(limit.resetDate.map { $0 > Date() } == true)
        #expect(limit.metadata["chappie.limit"] is ChappieUsageLimit)
    }

    @Test func `a revoked sign-in, and none, stay errors of the client`() async throws {
        guard case .reauthenticationRequired? = try await error("unauthorized-storm") as? ChappieClientError else {
            Issue.record("no sign-in is required")
            return
        }
        let user = try await SignedInModel(isSignedIn: false)
        let session = LanguageModelSession(model: user.model)
        let missing = await Result { try await session.respond(to: "Hi") }.error
        #expect(missing as? ChappieClientError == .missingCredential)
    }

    @Test func `a transcript that is too long reports the model's window`() async throws {
        guard case .contextSizeExceeded(let size)? = try await error("failed-context-length") as? LanguageModelError
        else {
            Issue.record("no context size")
            return
        }
        #expect(size.contextSize > 0 && size.tokenCount > 0)
    }

    @Test func `an overloaded service, and an answer that ended early, stay errors of the client`() async throws {
        let overloaded = try await error("overloaded")
        #expect(overloaded is ChappieClientError, "\(String(describing: overloaded))")
        guard case .responseFailed(let response)? = try await error("incomplete") as? ChappieClientError else {
            Issue.record("the answer counts as complete")
            return
        }
        #expect(response.status == .incomplete)
    }

    @Test func `a content filter is a guardrail violation`() async throws {
        guard case .guardrailViolation? = try await error("incomplete-content-filter") as? LanguageModelError else {
            Issue.record("no violation")
            return
        }
    }

    @Test func `a refusal of the model is an error with its explanation`() async throws {
        guard case .refusal(let refusal)? = try await error(nil, "refuse: I won't.") as? LanguageModelError
        else {
            Issue.record("no refusal")
            return
        }
        #expect(refusal.debugDescription.hasSuffix("I won't."))
    }

    @Test(arguments: ["cut", "ws-cut"])
    func `a connection that breaks delivers nothing twice`(scenario: String) async throws {
        let user = try await SignedInModel(scenario, policy: scenario == "cut" ? .httpSSEOnly : .default)
        let session = LanguageModelSession(model: user.model)
        var snapshots: [String] = []
        for try await snapshot in session.streamResponse(to: "reply: one two three four") {
            snapshots.append(snapshot.content)
        }
        #expect(snapshots.last == "one two three four")
        #expect(zip(snapshots, snapshots.dropFirst()).allSatisfy { $1.hasPrefix($0) })
    }

    @Test func `errors of the client become the framework's`() async throws {
        let user = try await SignedInModel()
        let timedOut = ChappieTransportError(.timedOut, stage: .firstByte, host: "example.com", reason: "silence")
        let size = ChappieInputSize(model: "m", isQuestion: true, contextWindow: 1000, byteCount: 8000)
        let table: [(ChappieClientError, String)] = [
            (.httpError(429, "{}"), "rateLimited"), (.transportFailed(timedOut), "timeout"),
            (.timeLimitExceeded(.seconds(1)), "timeout"), (.inputTooLarge(size), "contextSizeExceeded"),
            (.messageTooLarge(bytes: 2, limit: 1), "contextSizeExceeded"), (.httpError(400, "{}"), ""),
            (.blockedByGateway("example.com"), ""), (.invalidResponse, ""),
        ]
        for (failure, name) in table {
            let error = await LanguageModelError.replacing(
                failure, of: ChappieExchange(input: []), user.model.executorConfiguration.makeClient(), nil)
            if name.isEmpty {
                #expect(error as? ChappieClientError == failure)
            } else {
                #expect(error is LanguageModelError && "\(error)".hasPrefix(name))
            }
        }
    }

    @Test func `no log and no metadata has a token, an account or a text`() async throws {
        let handler = InMemoryLogHandler()
        var logger = Logger(label: "test") { _ in handler }
        logger.logLevel = .trace
        let user = try await SignedInModel(logger: logger)
        let session = LanguageModelSession(model: user.model, tools: [Weather()])
        _ = try await session.respond(
            to: "reply: a secret word", options: GenerationOptions(temperature: 0.5))
        let account = try #require(await user.model.account)
        let secrets = ["a secret word", "Bearer", "eyJ", account.accountID, account.email].compactMap(\.self)
        let logged = handler.entries.map { "\($0.message) \($0.metadata)" }
        let metadata = session.transcript.map { entry -> String in
            switch entry {
            case .response(let response): "\(response.metadata)"
            case .reasoning(let reasoning): "\(reasoning.metadata)"
            default: ""
            }
        }
        #expect(!logged.isEmpty && !metadata.joined().isEmpty)
        for text in logged + metadata { #expect(!secrets.contains(where: text.contains)) }
    }

    @Test func `options that the service refuses are named once in the log`() async throws {
        let handler = InMemoryLogHandler()
        let user = try await SignedInModel(logger: Logger(label: "test") { _ in handler })
        let session = LanguageModelSession(model: user.model)
        let options = GenerationOptions(temperature: 0.5, maximumResponseTokens: 10)
        for _ in 0..<2 { _ = try await session.respond(to: "reply: one", options: options) }
        let named = handler.entries.compactMap { $0.metadata["option"]?.description }
        #expect(named == ["temperature", "maximumResponseTokens"])
        guard case .response(let response)? = session.transcript.last else { return }
        let ignored = try response.metadata["chappie.ignored"]?.value(String.self)
        #expect(ignored == "temperature, maximumResponseTokens")
        #expect(user.frames[0].allSatisfy { $0["temperature"] == nil && $0["max_output_tokens"] == nil })
    }

    @Test func `a required tool call is refused before anything is sent`() async throws {
        let user = try await SignedInModel()
        let session = LanguageModelSession(model: user.model, tools: [Weather()])
        let error = await Result {
            try await session.respond(to: "Hi", options: GenerationOptions(toolCallingMode: .required))
        }.error
        guard case .unsupportedInput? = error as? ChappieClientError else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(user.frames.isEmpty)
        _ = try await session.respond(
            to: #"call weather {"town":"Oslo"}"#, options: GenerationOptions(toolCallingMode: .disallowed))
        #expect(session.transcript.kinds.last == "response" && !session.transcript.kinds.contains("calls"))
    }

    @Test func `cancelling a request leaves the transcript, and the next request works`() async throws {
        let user = try await SignedInModel(deltasPerSecond: 50)
        let session = LanguageModelSession(model: user.model)
        _ = try await session.respond(to: "reply: one")
        let before = session.transcript
        let (snapshots, continuation) = AsyncStream<Void>.makeStream()
        let answer = Task {
            for try await _ in session.streamResponse(to: "repeat 1000 words") { continuation.yield() }
            try Task.checkCancellation()
        }
        for await _ in snapshots { break }
        let start = ContinuousClock.now
        answer.cancel()
        let error = await answer.result
        #expect(error.error is CancellationError)
        while session.isResponding { await Task.yield() }
        let elapsed = ContinuousClock.now - start
        print("measured: \(elapsed) from the cancellation to the end of the request")
        // The whole answer takes twenty seconds.
        #expect(elapsed < .seconds(10))
        #expect(session.transcript == before)
        #expect(try await session.respond(to: "reply: three").content == "three")
    }
}
