import ChappieSDK
import ChappieSDKTesting
import Foundation
import Testing

@Suite struct TurnTests {
    @Test func everyWayToAskGivesTheSameAnswer() async throws {
        try await Simulated.run { simulated in
            let client = simulated.client(streamingTransportPolicy: .default)
            let (text, message) = ("reply: Hello", ChappieInputMessage.user("reply: Hello", fastMode: true))
            let request = ChappieResponseRequest(messages: [message], options: ChappieMessageOptions(verbosity: .low))
            #expect(try await client.send(text) == "Hello")
            #expect(try await client.send(message) == "Hello")
            #expect(try await client.response(request).outputText == "Hello")
            for stream in [client.stream(text), client.stream(message), client.streamResponse(request)] {
                var said = ""
                for try await piece in stream.text { said += piece }
                #expect(said == "Hello")
            }
            let handle: ChappieStreamHandle = client.startStream(message)
            var names: [String] = []
            for try await event in handle.events {
                // All cases, and all that they hold.
                switch event {
                case .created(let responseID): names.append(responseID.isEmpty ? "?" : "created")
                case .textDelta(let text): names.append(text.isEmpty ? "?" : "text")
                case .restarted(let discarded): names.append(discarded.isEmpty ? "?" : "restarted")
                case .commentaryDelta(let text): names.append(text.isEmpty ? "?" : "commentary")
                case .reasoningSummaryDelta(let text): names.append(text.isEmpty ? "?" : "reasoning")
                case .toolArgumentsDelta(let piece): names.append(piece.delta.isEmpty ? "?" : piece.name)
                case .usageLimits(let limits): names.append(limits.primary == nil ? "?" : "limits")
                case .toolCallRequested(let request): names.append(request.call.name)
                case .approvalRequested(let request): names.append(request.call.name)
                case .toolCallCompleted(let result): names.append(result.output)
                case .transport(.connected(let kind)): names.append(kind.rawValue)
                case .transport(.reconnecting(let attempt, let maximum, let delay)):
                    names.append("\(attempt) of \(maximum) in \(delay)")
                case .transport(.waiting(let attempt, let maximum, let delay)):
                    names.append("\(attempt) of \(maximum) in \(delay)")
                case .transport(.fellBack(let kind)): names.append(kind.rawValue)
                case .notice(let notice): names.append(notice.kind.rawValue)
                case .steered(let message): names.append(message.text)
                case .item(let item): names.append(item.type)
                case .completed(let response): names.append(response.status.rawValue)
                }
            }
            #expect(names.last == "completed" && !names.contains("?"))
            #expect(Set(names).isSuperset(of: ["created", "websocket", "reasoning", "text", "limits", "message"]))
            let response = try await handle.response()
            #expect(response.outputText == "Hello")
            #expect(response.status == .completed)
            #expect(!response.id.isEmpty)
            #expect(
                response.items.map(\.type) == ["reasoning", "message"] && response.raw["id"]?.string == response.id)
            let usage = try #require(response.usage)
            #expect(usage.totalTokens == usage.inputTokens + usage.outputTokens && usage.outputTokens > 0)
            #expect(usage.cachedInputTokens >= 0 && usage.reasoningTokens > 0)
            #expect(response.error == nil)
            #expect(response.incompleteReason == nil)
            #expect(response.model == "gpt-6.1-sol")
            await client.disconnect()
        }
    }

    @Test func aCaseWithAPayloadNeedsNoPattern() async throws {
        var said = ""
        for try await event in ChappieClient.answering("Hello").stream("Hi") {
            switch event {
            case .textDelta(let text): said += text
            case .completed: said += "."
            default: break
            }
        }
        #expect(said == "Hello.")
    }

    @Test func turnsOfOneClientWaitForEachOther() async throws {
        try await Simulated.run { simulated in
            let client = simulated.client()
            async let first = client.send("reply: one")
            async let second = client.send("reply: two")
            let answers = try await [first, second]
            #expect(answers == ["one", "two"])
            #expect(await client.context().messageCount == 4)
        }
    }

    @Test func `options reach the backend, and the prefix stays the same byte for byte`() async throws {
        try await Simulated.run { simulated in
            let client = simulated.client()
            _ = try await client.send(
                ChappieInputMessage(
                    role: .user, parts: [.text("reply: a"), .imageURL("data:image/png;base64,AA==")],
                    options: ChappieMessageOptions(fastMode: true, verbosity: .high)))
            _ = try await client.response(
                ChappieResponseRequest(
                    messages: [.developer("Be brief."), .system("No lists."), .assistant("Yes?"), .user("reply: b")],
                    options: ChappieMessageOptions(fastMode: true, reasoningEffort: .high, verbosity: .low),
                    model: "gpt-6-luna"))
            let turns = simulated.turns
            #expect(turns.map { $0["reasoning"]?["effort"] } == ["low", "high"])
            #expect(turns.map { $0["text"]?["verbosity"] } == ["high", "low"])
            #expect(turns.map { $0["model"] } == ["gpt-6.1-sol", "gpt-6-luna"])
            let inputs = turns.map { $0["input"]?.array ?? [] }
            #expect(inputs[0][0]["role"] == "developer", "the harness is the first item")
            #expect(inputs[1].prefix(inputs[0].count).map { $0.serialized() } == inputs[0].map { $0.serialized() })
            #expect(inputs[0].last?["content"]?[1]?["type"] == "input_image")
            #expect(await client.context().model == "gpt-6.1-sol", "the other model was for one turn")
        }
    }

    @Test func anAnswerTakesATypesForm() async throws {
        nonisolated struct Town: Codable, Equatable, ChappieJSONSchemaProviding {
            var name: String
            var people: Int?
        }
        try await Simulated.run { simulated in
            let client = simulated.client()
            let question = #"reply: {"name": "Paris", "people": 2}"#
            let properties: ChappieJSONValue = [
                "name": ["type": "string"], "people": ["type": "integer", "minimum": .number(1)],
            ]
            let schema: ChappieJSONValue = .object([
                "type": .string("object"), "required": .array([.string("name")]), "properties": properties,
            ])
            let towns = [
                try await client.send(question, as: Town.self, schema: ChappieJSONSchema(schema)),
                try await client.send(
                    question, as: Town.self, schema: .object(["type": "object", "properties": properties])),
                try await client.send(
                    question, as: Town.self, schema: ["type": .string("object"), "properties": properties]),
                try await client.send(question, as: Town.self, schema: .derived(from: Town.self)),
                try await client.send(question, as: Town.self),
            ]
            #expect(towns == Array(repeating: Town(name: "Paris", people: 2), count: 5))
            let strict = try ChappieStrictSchema(ChappieJSONSchema(schema))
            #expect(simulated.turns[0]["text"]?["format"]?["schema"] == strict.json)
            #expect(simulated.turns[0]["text"]?["format"]?["strict"] == true)
            do {
                _ = try await client.send(#"reply: {"name": 7}"#, as: Town.self, schema: ChappieJSONSchema(schema))
                Issue.record("decoded")
            } catch ChappieClientError.invalidStructuredOutput(let violation, let text) {
                #expect(violation.path == "/name" && text == #"{"name": 7}"#)
            }
        }
    }

    @Test func `an answer that ends early is returned, and send throws it`() async throws {
        try await Simulated.run("incomplete") { simulated in
            let client = simulated.client()
            let response = try await client.response(ChappieResponseRequest(messages: [.user("reply: half of it")]))
            #expect(response.status == .incomplete && response.incompleteReason == "max_output_tokens")
            do {
                _ = try await client.send("reply: half of it")
                Issue.record("sent")
            } catch ChappieClientError.responseFailed(let response) {
                #expect(response.outputText == "half of it" && response.requestID?.isEmpty == false)
            }
        }
    }

    @Test func `a turn that is cancelled throws and leaves nothing behind`() async throws {
        try await Simulated.run("stall") { simulated in
            let client = simulated.client()
            let handle = client.startStream(.user("repeat 40 words"))
            do {
                for try await event in handle.events { if case .textDelta = event { handle.cancel() } }
                Issue.record("ended")
            } catch is CancellationError {}
            await #expect(throws: CancellationError.self) { try await handle.response() }
            let reader = Task { for try await _ in client.stream("repeat 40 words") {} }
            reader.cancel()
            await #expect(throws: CancellationError.self) { try await reader.value }
            // Even one that was asked for a moment ago.
            let newest = client.startStream(.user("repeat 40 words"))
            await client.cancel()
            await #expect(throws: CancellationError.self) { try await newest.response() }
            #expect(await client.context().messages.isEmpty)
        }
    }

    @Test func theContextIsAValue() async throws {
        try await Simulated.run { simulated in
            let client = simulated.client()
            let empty: ChappieClientContext = await client.context()
            #expect(empty.messages.isEmpty && empty.messageCount == 0)
            _ = try await client.send("reply: one")
            let context = await client.context()
            #expect(context.sessionID == empty.sessionID && context.threadID == empty.threadID)
            #expect(!context.model.isEmpty && context.compactedSummary == nil)
            #expect(context.createdAt <= context.updatedAt && context.estimatedTokens > 0)
            #expect(context.messages.map(\.role) == [.user, .assistant] && context.messageCount == 2)
            let size: ChappieContextSize = await client.contextSize(contextWindow: 100_000)
            #expect(size.estimatedTokens == context.estimatedTokens && size.contextWindow == 100_000)
            #expect(size.remainingTokens == 100_000 - size.estimatedTokens && size.usedPercent > 0)
            #expect(await client.selectModel("gpt-6-luna").model == "gpt-6-luna")
            await client.selectModel(context.model)

            let kept = try JSONDecoder().decode(ChappieClientContext.self, from: JSONEncoder().encode(context))
            #expect(kept == context)
            let other = simulated.client()
            await other.resumeContext(kept)
            _ = try await other.send("reply: two")
            #expect(await other.context().messageCount == 4)
            let compacted = try await other.compactContext()
            #expect(compacted.sessionID == context.sessionID && compacted.items != context.items)
            #expect(try await other.send("reply: three") == "three")
            #expect(await other.compactContext(summary: "We counted.").compactedSummary == "We counted.")
            await other.clearContext()
            #expect(await other.clearContext().messages.isEmpty)
            #expect(await other.context().sessionID != context.sessionID)
        }
    }

    @Test func modelsLimitsAndTheAccountAreListed() async throws {
        try await Simulated.run { simulated in
            let client = simulated.client()
            let models: [ChappieModel] = try await client.models()
            let model = try #require(models.first)
            let slugs = [
                "gpt-6.1-sol", "gpt-6-astra", "gpt-6-sol", "gpt-6-luna", "gpt-5.6-sol", "gpt-5.6-terra", "gpt-5.6-luna",
            ]
            #expect(models.map(\.slug) == slugs)
            #expect(model.id == model.slug)
            #expect(model.displayName == "GPT-6.1-Sol")
            #expect(model.description?.isEmpty == false)
            #expect(model.supportedInAPI)
            #expect(model.priority == 1)
            #expect(model.inputModalities == ["text", "image"])
            #expect(model.supportedReasoningLevels == [.low, .medium, .high, .extraHigh, .max, .ultra])
            #expect(model.defaultReasoningLevel == .low && model.contextWindow == 272_000)
            #expect(!model.supportsSearchTool && model.supportsParallelToolCalls)
            let filters: [(ChappieModelFilter, Int)] = [
                (.init(), 7), (.textInAPI, 7), (ChappieModelFilter(supportedInAPI: false), 0),
                (ChappieModelFilter(inputModality: "sound"), 0), (ChappieModelFilter(supportsSearchTool: true), 0),
                (ChappieModelFilter(supportsParallelToolCalls: true), 7),
                (ChappieModelFilter(reasoningLevel: "ultra"), 5),
            ]
            for (filter, count) in filters { #expect(try await client.models(filter: filter).count == count) }
            #expect(ChappieModelFilter.textInAPI == ChappieModelFilter(supportedInAPI: true, inputModality: "text"))
            #expect(try await client.bestAvailableModel() == model)
            #expect(try await client.bestAvailableModel(filter: .init(supportsSearchTool: true)) == nil)
            #expect(try await client.fallbackModel(excluding: "gpt-6.1-sol")?.slug == "gpt-6-astra")
            #expect(
                try await client.fallbackModel(excluding: "gpt-6-astra", filter: .init(reasoningLevel: "max"))?.slug
                    == "gpt-6.1-sol")
            let limits: ChappieUsageLimitSnapshot = try await client.usageLimits()
            #expect(limits.primary?.usedPercent == 12)
            #expect(limits.secondary?.usedPercent == 3)
            #expect(limits.plan == .plus)
            #expect(limits.primary?.windowMinutes == 300 && limits.primary?.resetsAt != nil)
            #expect(limits.credits?.hasCredits != nil && limits.limitID == "codex")
            #expect(try await client.accountInfo().email == "ada@example.com")
        }
    }
}

@Suite struct ErrorTests {
    @Test func withoutASignInThereIsNoCredential() async throws {
        try await Simulated.run(signedIn: false) { simulated in
            do {
                _ = try await simulated.client().send("Hello")
                Issue.record("answered")
            } catch {
                switch error as? ChappieClientError {
                case .missingCredential: break
                case .none, .some: Issue.record("\(error)")
                }
            }
        }
    }

    @Test func aReachedLimitSaysWhenItResets() async throws {
        try await Simulated.run("usage-limit") { simulated in
            do {
                _ = try await simulated.client().send("Hello")
                Issue.record("answered")
            } catch ChappieClientError.usageLimitReached(let limit) {
                #expect(limit.type == "usage_limit_reached")
                #expect(limit.plan == .plus)
                #expect(limit.message?.isEmpty == false)
                #expect(try #require(limit.resetsAt) > .now && limit.resetsInSeconds == 3600)
                #expect(limit.rateLimit?.primary?.usedPercent == 100 && limit.rateLimit?.secondary == nil)
            }
        }
    }

    @Test func a429IsTriedAgainAsThePolicySays() async throws {
        try await Simulated.run("rate-limit-retry-after") { simulated in
            var patient = simulated
            // The server asks for a second, twice; the policy's bound is shorter.
            patient.configuration.rateLimitBackoff = ChappieRateLimitBackoffPolicy(maxRetries: 2, maximumDelay: 0.01)
            var pauses = 0
            for try await event in patient.client().stream("reply: at last") {
                if case .transport(.waiting(_, maximum: 2, _)) = event { pauses += 1 }
            }
            #expect(pauses == 2)
        }
        try await Simulated.run("rate-limit") { simulated in
            do {
                _ = try await simulated.client().send("Hello")
                Issue.record("answered")
            } catch ChappieClientError.httpError(let status, let body) {
                #expect(status == 429 && !body.isEmpty)
            }
        }
    }

    @Test func aTextThatGoesOnDifferentlyIsNotShown() async throws {
        try await Simulated.run("diverge") { simulated in
            var said = ""
            do {
                for try await text in simulated.client().stream("repeat 40 words").text { said += text }
                Issue.record("ended")
            } catch ChappieClientError.streamingTransportReplayDiverged(let partial) {
                #expect(!partial.isEmpty && partial == said)
            }
        }
    }

    @Test func everyErrorHasASentenceAndANextStep() {
        let response = ChappieResponse(status: .failed, error: ChappieResponseError(message: "Overloaded."))
        let transport = ChappieTransportError(.timedOut, stage: .connect, host: "example.com", reason: "no answer")
        let errors: [ChappieClientError] = [
            .missingCredential, .missingRefreshToken, .missingAccountID, .reauthenticationRequired("Sign in again."),
            .usageLimitReached(ChappieUsageLimit()), .usageLimitReached(ChappieUsageLimit(plan: .pro, resetsAt: .now)),
            .missingToolHandler("a"), .toolApprovalDenied("a", "Not today."), .toolExecutionFailed("a", "No network."),
            .toolLoopLimitExceeded(16), .responseFailed(response),
            .responseFailed(ChappieResponse(status: .incomplete)),
            .streamingTransportReplayDiverged("half"), .httpError(500, "x"), .httpError(429, ""), .httpError(404, ""),
            .invalidResponse, .transportFailed(transport), .contextWindowExceeded, .messageTooLarge(bytes: 2, limit: 1),
            .inputTooLarge(ChappieInputSize(model: "gpt-6-sol", isQuestion: true, byteCount: 2_000_000)),
            .invalidStructuredOutput(ChappieSchemaViolation(path: "", message: "must be an object."), "1"),
            .invalidTool("a b", "the name has a space"), .renewalFailed(.networkFailure("The network is down.")),
            .credentialStoreFailed(.locked("the keyring is locked")), .blockedByGateway("example.com"),
            .modelUnavailable(ChappieModelRefusal(slug: "gpt-5.5", reason: .retired, suggestion: "gpt-6.1-sol")),
            .unsupportedInput("The model takes no images.", "Leave it out."), .usageNotReported(nil),
            .gatewayAnswered(ChappieGatewayAnswer(sender: .edge, host: "example.com", status: 404)),
            .planRefused(ChappiePlanRefusal(reason: .notEligible)), .timeLimitExceeded(.seconds(90)),
            .conversationRefused("Item not found."), .notWithThisSignIn("Making pictures"),
            .searchFailed("Found no tool response"), .imageFailed(.noPicture), .resetRefused(.noCredit),
            .tooManyTurns, .stopping,
        ]
        for error in errors {
            #expect(error.localizedDescription == error.errorDescription)
            #expect(error.errorDescription?.hasSuffix(".") == true, "\(error.localizedDescription)")
            #expect(error.recoverySuggestion?.hasSuffix(".") == true && error.requestID == nil)
            switch error {
            case .missingCredential, .missingRefreshToken, .missingAccountID, .invalidResponse, .contextWindowExceeded,
                .tooManyTurns, .stopping:
                break
            case .reauthenticationRequired(let text), .missingToolHandler(let text),
                .streamingTransportReplayDiverged(let text), .toolApprovalDenied(let text, _),
                .toolExecutionFailed(let text, _), .invalidTool(let text, _), .invalidStructuredOutput(_, let text),
                .blockedByGateway(let text), .unsupportedInput(let text, _), .conversationRefused(let text),
                .notWithThisSignIn(let text), .searchFailed(let text):
                #expect(!text.isEmpty)
            case .modelUnavailable(let refusal): #expect(refusal.slug == "gpt-5.5" && refusal.reason == .retired)
            case .gatewayAnswered(let answer): #expect(answer.sender == .edge && answer.host == "example.com")
            case .planRefused(let refusal): #expect(refusal.reason == .notEligible)
            case .inputTooLarge(let size): #expect(size.isQuestion && size.pictureCount == 0)
            case .imageFailed(let failure): #expect(failure == .noPicture)
            case .resetRefused(let refusal): #expect(refusal == .noCredit)
            case .timeLimitExceeded(let limit): #expect(limit == .seconds(90))
            case .usageNotReported(let page): #expect(page == nil)
            case .toolLoopLimitExceeded(let count), .httpError(let count, _),
                .messageTooLarge(bytes: let count, limit: _):
                #expect(count > 0)
            case .usageLimitReached(let limit): #expect(limit.type == "usage_limit_reached")
            case .responseFailed(let response): #expect(response.status != .completed)
            case .transportFailed(let error): #expect(error.host == "example.com" && error.code == .timedOut)
            case .renewalFailed(let error): #expect(error == .networkFailure("The network is down."))
            case .credentialStoreFailed(let error): #expect(error.errorDescription != nil)
            case .approvalPending(let turn): #expect(!turn.approvals.isEmpty)
            }
        }
    }
}

/// Where a client may live: an actor, and the main one.
@MainActor @Test func aClientIsUsedFromActors() async throws {
    actor Desk {
        let client = ChappieClient.answering("Hello")
        var said = ""

        func ask() async throws -> String {
            for try await event in client.stream("Hi") { if case .textDelta(let text) = event { said += text } }
            return try await said + client.send("Hi")
        }
    }
    @MainActor final class Screen {
        var text = ""

        func ask(_ client: ChappieClient) async throws {
            for try await piece in client.stream("Hi").text { text += piece }
            async let (first, second) = (client.send("Hi"), client.send("Hi"))
            text += try await first + second
        }
    }
    #expect(try await Desk().ask() == "HelloHello")
    let screen = Screen()
    try await screen.ask(.answering("Yes"))
    #expect(screen.text == "YesYesYes")
}
