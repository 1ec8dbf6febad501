import ChappieSDK
import ChappieSDKTesting
import Foundation
import Testing

/// Whether a value is the same after it was written down and read.
private func survives<Value: Codable & Hashable & Sendable>(_ value: Value) throws -> Bool {
    Set([value]).contains(try JSONDecoder().decode(Value.self, from: JSONEncoder().encode(value)))
}

@Suite struct ConfigurationTests {
    @Test func everyParameterHasItsDefault() {
        let configuration = ChappieConfiguration()
        #expect(configuration.keychainService == "com.chappie.sdk" && configuration.keychainAccount == "default")
        #expect(configuration.keychainAccessGroup == nil && configuration.appGroup == nil)
        #expect(configuration.keychainAccessibility == .whenUnlockedThisDeviceOnly)
        #expect(configuration.model == nil)
        #expect(configuration.harness == .default && configuration.toolLoopLimit == 16)
        #expect(configuration.rateLimitBackoff == .default && configuration.streamingTransportPolicy == .default)
        #expect(configuration.toolFailureBehavior == .automatic && configuration.automaticCompaction == nil)
        #expect(configuration.endpoints == .chatGPT && configuration.network == .default)
    }

    @Test func eachParameterStandsAloneAndIsASetting() throws {
        let address = try #require(URL(string: "http://127.0.0.1:8080"))
        let configurations = [
            ChappieConfiguration(), ChappieConfiguration(keychainService: "com.example.app"),
            ChappieConfiguration(keychainAccount: "user-1"), ChappieConfiguration(keychainAccessGroup: "TEAMID.shared"),
            ChappieConfiguration(appGroup: "group.com.example"),
            ChappieConfiguration(keychainAccessibility: .afterFirstUnlockThisDeviceOnly),
            ChappieConfiguration(model: "gpt-6.1-sol"), ChappieConfiguration(harness: "Be brief."),
            ChappieConfiguration(harness: .none), ChappieConfiguration(harness: ChappieHarnessSamples.writing),
            ChappieConfiguration(rateLimitBackoff: .disabled),
            ChappieConfiguration(streamingTransportPolicy: .httpSSEOnly), ChappieConfiguration(toolLoopLimit: 3),
            ChappieConfiguration(toolFailureBehavior: .throwError), ChappieConfiguration(automaticCompaction: 0.8),
            ChappieConfiguration(
                endpoints: ChappieEndpoints(
                    issuer: address, backend: address,
                    registration: ChappieRegistration(clientID: "app", originator: "example"))),
            ChappieConfiguration(
                network: ChappieNetworkPolicy(
                    proxy: .url("http://localhost:3128", excluding: "localhost"), extraCAFile: "/etc/ca.pem",
                    deadlines: ChappieDeadlines(
                        connect: .seconds(1), responseHead: .seconds(2), firstByte: .seconds(3), idle: .seconds(4)))),
        ]
        #expect(Set(configurations).count == configurations.count)
        for configuration in configurations { #expect(try survives(configuration)) }
        #expect(ChappieConfiguration(toolLoopLimit: -1).toolLoopLimit == 0)
        var other = ChappieConfiguration()
        other.endpoints.usesWebSocket = false
        other.endpoints.registration.originator = "example"
        #expect(try survives(other) && other != ChappieConfiguration())
    }

    @Test func policiesClampWhatIsNegative() throws {
        let policy = ChappieRateLimitBackoffPolicy(
            maxRetries: 2, initialDelay: 1, maximumDelay: 30, respectsRetryAfterHeader: true)
        #expect(policy == .default)
        #expect(policy == ChappieRateLimitBackoffPolicy())
        #expect(policy.maxRetries == 2)
        #expect(policy.initialDelay == 1)
        #expect(policy.maximumDelay == 30)
        #expect(policy.respectsRetryAfterHeader)
        #expect(ChappieRateLimitBackoffPolicy.disabled == ChappieRateLimitBackoffPolicy(maxRetries: 0))
        let negative = ChappieRateLimitBackoffPolicy(maxRetries: -1, initialDelay: -1, maximumDelay: -1)
        #expect(negative.maxRetries == 0)
        #expect(negative.initialDelay == 0)
        #expect(negative.maximumDelay == 0)

        let transport = ChappieStreamingTransportPolicy(
            prefersWebSocket: true, maxWebSocketReconnectionAttempts: 5, fallsBackToHTTPSSE: true)
        #expect(transport == .default && transport == ChappieStreamingTransportPolicy())
        #expect(!ChappieStreamingTransportPolicy.httpSSEOnly.prefersWebSocket)
        let few = ChappieStreamingTransportPolicy(maxWebSocketReconnectionAttempts: -1, fallsBackToHTTPSSE: false)
        #expect(few.maxWebSocketReconnectionAttempts == 0 && !few.fallsBackToHTTPSSE)
        #expect(ChappieMessageOptions(fastMode: true).fastMode && !ChappieMessageOptions().fastMode)
        #expect(ChappieMessageOptions(fastMode: true) == ChappieMessageOptions(reasoningEffort: .low))
        let options = ChappieMessageOptions(fastMode: true, reasoningEffort: .high, verbosity: .low)
        #expect(options.reasoningEffort == .high && options.verbosity == .low)
        for policy in [policy, .disabled, negative] { #expect(try survives(policy)) }
        for policy in [transport, few, .httpSSEOnly] { #expect(try survives(policy)) }
    }

    @MainActor @Test func sessionsAndClientsTakeAnyStore() async throws {
        let configuration = ChappieConfiguration(keychainAccount: "somebody")
        let (passphrase, folder) = ("open " + "sesame", FileManager.default.temporaryDirectory.path + "/\(UUID())")
        let stores: [ChappieCredentialStorage] = [
            .memory, .encryptedFile(passphrase: "literal", directory: folder),
            .encryptedFile(passphrase: passphrase, directory: folder),
            .encryptedFile(passphrase: "\(passphrase)!", directory: folder),
            .encryptedFile(directory: folder) { passphrase },
            .encryptedFile(passphrase: .file("/nowhere"), directory: folder),
            .encryptedFile(passphrase: { passphrase }), .custom(InMemoryCredentialStore()),
        ]
        for store in stores {
            #expect(Chappie.authSession(configuration: configuration, store: store).state == .signedOut)
        }
        let own = InMemoryCredentialStore()
        let clients = [
            Chappie.client(store: .memory), Chappie.client(configuration: configuration, store: .custom(own)),
            Chappie.client(store: .encryptedFile(passphrase: passphrase, directory: folder)),
            Chappie.client(harness: "You are \(passphrase).", store: .custom(own)),
            Chappie.client(harness: .none, store: .memory),
            Chappie.client(harness: ChappieHarnessSamples.inventory, tools: [], store: .memory) { _ in .approved() },
            Chappie.client(
                configuration: configuration, harness: .default, tools: [], store: .memory, rateLimitBackoff: .disabled,
                streamingTransportPolicy: .httpSSEOnly, toolApprovalHandler: nil),
        ]
        for client in clients {
            await #expect(throws: ChappieClientError.missingCredential) { try await client.accountInfo() }
        }
        #expect(await Chappie.loadedAuthSession(configuration: configuration, store: .custom(own)).state == .signedOut)
    }
}

@Suite struct ValueTests {
    @Test func jsonIsWrittenAsItReads() throws {
        let (name, count, price) = ("tea", 3, 2.5)
        let json: ChappieJSONValue = .object([
            "type": .string("object"),
            "list": .array([.bool(true), .null, .number(1), .number(count), .number(price)]),
            "a": ["text": "a cup of \(name)", "n": 2.5, "flag": false, "nothing": nil, "list": [1, "two"]],
        ])
        let text =
            #"{"type":"object","list":[true,null,1,3,2.5],"a":{"text":"a cup of tea","n":2.5,"flag":false,"nothing":null,"list":[1,"two"]}}"#
        #expect(json.serialized() == text)
        #expect(try ChappieJSONValue(parsing: text) == json)
        let words = (json["list"]?.array ?? []).map { value in
            switch value {
            case .null: "null"
            case .bool(let value): "\(value)"
            case .number(let value): value.literal
            case .string(let value): value
            case .array(let value): "\(value.count)"
            case .object(let value): "\(value.names)"
            }
        }
        #expect(words == ["true", "null", "1", "3", "2.5"])
        #expect(
            json["list"]?[3]?.int == 3 && json["list"]?[4]?.double == 2.5
                && json["a"]?["text"]?.string == "a cup of tea")
    }

    @Test func whatIsUnknownSurvivesARoundTrip() throws {
        func keeps<Value: Codable & RawRepresentable<String>>(_: Value.Type) throws -> Bool {
            let written = Data(#"["from_the_future"]"#.utf8)
            return try JSONEncoder().encode(JSONDecoder().decode([Value].self, from: written)) == written
        }
        #expect(try keeps(ChappieReasoningEffort.self) && keeps(ChappieVerbosity.self))
        #expect(try keeps(ChappieInputMessage.Role.self) && keeps(ChappieToolPolicy.self))
        #expect(try keeps(ChappieToolExecutionResult.Outcome.self) && keeps(ChappieResponseStatus.self))
        #expect(try keeps(ChappieUsageLimitSnapshot.ReachedType.self) && keeps(ChappieToolFailureBehavior.self))
        #expect(try survives(ChappiePlan.other("from_the_future")))
        #expect(ChappiePlan(rawValue: "from_the_future") == .other("from_the_future"))
        #expect(ChappiePlan.other("Galactic").displayName == "Galactic")
        // By name: encoders keep no other order of members.
        let part: ChappieJSONValue = ["depth": 3, "type": "input_hologram"]
        #expect(try survives(ChappieInputMessage(role: .user, parts: [.other(part)])))
        #expect(try survives(ChappieOutputItem(["depth": 3, "type": "hologram"])))
        let plans: [ChappiePlan] = [
            .free, .go, .plus, .pro, .proLite, .proMax, .team, .business, .selfServeBusinessUsageBased, .enterprise,
            .enterpriseUsageBased, .edu, .eduPro,
        ]
        for plan in plans { #expect(try survives(plan) && !plan.displayName.isEmpty) }
    }

    @Test func `values for previews and tests are created member by member`() throws {
        let window = ChappieUsageWindow(usedPercent: 12.5, windowMinutes: 300, resetsAt: .now)
        let limits = ChappieUsageLimitSnapshot(
            primary: window, secondary: ChappieUsageWindow(usedPercent: 3),
            credits: ChappieUsageCredits(hasCredits: true, isUnlimited: false, balance: "5"), plan: .pro)
        let limit = ChappieUsageLimit(
            type: "usage_limit_reached", message: "Enough.", plan: .pro, resetsAt: .now, resetsInSeconds: 60,
            rateLimit: limits)
        let call = ChappieToolCall(name: "weather", callID: "call_1", arguments: #"{"town":"Oslo"}"#)
        let message = ChappieInputMessage(
            role: .user,
            parts: [
                .text("Hi"), .imageURL("https://example.com/a.png"),
                .image(try ChappieImage(data: Data("GIF89a".utf8), detail: .low)),
                .image(try ChappieImage(url: try #require(URL(string: "https://example.com/b.png")))),
                .file(try ChappieFile(data: Data("%PDF-".utf8), name: "a.pdf")),
            ], options: ChappieMessageOptions(reasoningEffort: .minimal, verbosity: .high))
        #expect(try survives(window) && survives(limits) && survives(limit) && survives(call) && survives(message))
        #expect(try survives(ChappieToolExecutionRequest(call: call, round: 1)))
        #expect(
            try survives(
                ChappieToolExecutionResult(call: call, outcome: .failed, result: .init(output: "x", isError: true))))
        #expect(try survives(ChappieApprovalRequest(call: call, toolDescription: "Weather.", inputSchema: [:])))
        #expect(try survives(ChappieApprovalDecision.approved(arguments: ["town": "Rome"], scope: .session)))
        #expect(
            try survives(
                ChappieResponse(
                    id: "resp_1", status: .completed, outputText: "Hi",
                    usage: ChappieTokenUsage(
                        inputTokens: 2, cachedInputTokens: 1, outputTokens: 3, reasoningTokens: 1, totalTokens: 5),
                    error: ChappieResponseError(code: "x"), incompleteReason: "max_output_tokens", raw: ["id": "resp_1"]
                )))
        #expect(
            try survives(ChappieResponseRequest(messages: [message], options: .init(), model: "x", outputSchema: [:])))
        #expect(try survives(ChappieAccountInfo(email: "a@example.com", userID: "u", accountID: "a", plan: .edu)))
        #expect(
            try survives(
                ChappieDeviceCode(
                    userCode: "ABCD", verificationURL: #require(URL(string: "https://example.com")), expiresAt: nil,
                    pollInterval: .seconds(5))))
        #expect(
            try survives(
                ChappieModel(
                    slug: "m", displayName: "M", description: "A model.", supportedInAPI: true, priority: 1,
                    inputModalities: ["text"], supportedReasoningLevels: [.low], defaultReasoningLevel: .low,
                    contextWindow: 1000, supportsSearchTool: true, supportsParallelToolCalls: false)))
        #expect(
            try survives(
                ChappieModelFilter(
                    supportedInAPI: true, inputModality: "text", supportsSearchTool: false,
                    supportsParallelToolCalls: true, reasoningLevel: "low")))
        let context = ChappieClientContext(
            sessionID: "s", threadID: "t", model: "m", messages: [.user("Hi"), .assistant("Hello")],
            compactedSummary: "We met.", createdAt: .now)
        #expect(try survives(context) && context.messageCount == 2 && context.threadID == "t")
        #expect(try survives(ChappieContextSize(estimatedTokens: 25, contextWindow: 100)))
        #expect(ChappieContextSize(estimatedTokens: 25, contextWindow: 100).usedPercent == 25)
        #expect(ChappieContextSize(estimatedTokens: 200, contextWindow: 100).remainingTokens == 0)
    }

    @Test func aHarnessIsAText() throws {
        let harness: ChappieHarness = "Be brief."
        #expect(harness.name == "Inline Harness")
        #expect(harness.instructions == "Be brief.")
        #expect(harness.tools.isEmpty)
        #expect(ChappieHarness(name: "Shop").instructions == ChappieHarness.defaultInstructions)
        #expect(ChappieHarness.default.instructions.contains("Do not present yourself as the Codex app"))
        #expect(ChappieHarness.none.instructions.isEmpty && ChappieHarness.none != .default)
        #expect(
            ChappieHarnessSamples.all.count == 4 && ChappieHarnessSamples.all.contains(ChappieHarnessSamples.inventory))
        for sample in ChappieHarnessSamples.all { #expect(!sample.summary.isEmpty && !sample.instructions.isEmpty) }
    }

    @Test func `a manifest extends a harness, and an error names what is wrong in it`() throws {
        let tool = ChappieHarnessTool(name: "look_up", description: "Finds.", inputSchema: ["type": "object"])
        let base = ChappieHarness(
            name: "Shop", tools: [tool], plugins: [ChappieHarnessPlugin(name: "Old", instructions: "Old.", tools: [])])
        let manifest = ChappiePluginManifest(
            name: "shop", version: "1.0", harness: base,
            tools: [
                ChappieHarnessTool(name: "look_up", description: "Another.", inputSchema: ["type": "object"]),
                ChappieHarnessTool(name: "order", inputSchema: ["type": "object"]),
            ],
            plugins: [ChappieHarnessPlugin(name: "New", summary: "New.", instructions: "New.")])
        let resolved = manifest.resolvedHarness
        #expect(
            resolved.tools.map(\.description) == ["Finds.", ""] && resolved.tools.map(\.name) == ["look_up", "order"])
        #expect(resolved.plugins.map(\.name) == ["Old", "New"])
        let file = FileManager.default.temporaryDirectory.appending(path: "\(UUID()).json")
        defer { try? FileManager.default.removeItem(at: file) }
        try JSONEncoder().encode(manifest).write(to: file)
        #expect(try ChappiePluginManifest(contentsOf: file) == manifest)
        try Data(#"{"name": "shop", "tools": [{"name": "ok"}, {"description": "no name"}]}"#.utf8).write(to: file)
        do {
            _ = try ChappiePluginManifest(contentsOf: file)
            Issue.record("read")
        } catch {
            #expect(error.keyPath == "tools[1].name" && error.localizedDescription.contains("tools[1].name"))
        }
    }
}
