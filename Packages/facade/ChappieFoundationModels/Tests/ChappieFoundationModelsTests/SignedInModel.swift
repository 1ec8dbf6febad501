import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieSDK
import ChappieTesting
import Logging
import Testing

@testable @_spi(ChappieInternals) import ChappieFoundationModels

#if canImport(FoundationModels, _version: 2)
    import FoundationModels
#elseif canImport(FoundationModelsStandIn)
    import FoundationModelsStandIn
#endif

/// A model over a simulator in this process.
@MainActor
struct SignedInModel {
    let simulator: InMemorySimulator
    let configuration: ChappieConfiguration
    let model: ChatGPTLanguageModel
    private let credentials: CredentialManager
    private let firstClient = FirstClient()
    private let makeModel: @Sendable (String?, ChappieReasoningEffort?) -> ChatGPTLanguageModel

    init(
        _ scenario: String? = nil, isSignedIn: Bool = true, deltasPerSecond: Double? = nil, logger: Logger? = nil,
        policy: ChappieStreamingTransportPolicy = .default
    ) async throws {
        let simulator = try InMemorySimulator(
            SimulatorConfiguration(
                autoApprove: true, pollInterval: 0, deltasPerSecond: deltasPerSecond,
                scenario: try scenario.map(SimulatorScenario.init(named:))))
        let configuration = ChappieConfiguration(
            rateLimitBackoff: ChappieRateLimitBackoffPolicy(initialDelay: 0.01), streamingTransportPolicy: policy,
            replayDivergence: .fail,
            endpoints: ChappieEndpoints(issuer: simulator.issuer, backend: simulator.backend))
        let store = InMemoryCredentialStore()
        let credentials = CredentialManager(
            slot: configuration.credentialSlot, store: store, transport: simulator.transport,
            endpoints: configuration.endpoints)
        if isSignedIn { try await ChappieAuthSession(credentials: credentials).signIn { _ in } }
        self.simulator = simulator
        self.configuration = configuration
        self.credentials = credentials
        makeModel = { [firstClient] slug, effort in
            ChatGPTLanguageModel(
                model: slug, effort: effort,
                executorConfiguration: .init(
                    configuration: configuration, store: .custom(store), logger: logger,
                    makeClient: {
                        let client = ChappieClient(
                            configuration: configuration, transport: simulator.transport,
                            webSocket: simulator.webSocket, credentials: credentials, logger: logger)
                        firstClient.note(client)
                        return client
                    },
                    makeSession: { ChappieAuthSession(credentials: credentials) }))
        }
        model = makeModel(nil, nil)
    }

    /// Returns a model of the same user.
    func model(_ slug: String? = nil, effort: ChappieReasoningEffort? = nil) -> ChatGPTLanguageModel {
        makeModel(slug, effort)
    }

    /// Waits until the first client has received the answer to its prewarm.
    func waitForPrewarm() async {
        while frames.first?.isEmpty != false { await Task.yield() }
        await firstClient.waitForPrewarm()
    }

    /// The requests of turns over each WebSocket.
    var frames: [[ChappieJSON]] {
        simulator.webSocket.peers.map { peer in
            peer.sentMessages.compactMap { message in
                if case .text(let text) = message { try? ChappieJSON(parsing: text) } else { nil }
            }
        }
    }

    /// The requests of turns over HTTP.
    var posts: [ChappieJSON] {
        simulator.transport.receivedRequests.filter { $0.url.path().hasSuffix("/responses") }
            .compactMap { try? ChappieJSON(parsing: $0.body?.bytes ?? []) }
    }

    /// The request that was sent last over WebSocket `index`.
    func lastFrame(_ index: Int = 0) throws -> ChappieJSON { try #require(frames[index].last) }
}

extension ChappieJSON {
    /// The types of a request's input, and the roles of its messages.
    var inputTypes: [String] {
        inputItems.map { $0["role"]?.string ?? $0["type"]?.string ?? "" }
    }

    /// The part of a request's input that follows the declaration of the tools.
    var inputItems: [ChappieJSON] { (self["input"]?.array ?? []).filter { $0["type"] != "additional_tools" } }
}

extension Transcript {
    /// The kinds of the entries.
    var kinds: [String] {
        map { entry in
            switch entry {
            case .instructions: "instructions"
            case .prompt: "prompt"
            case .toolCalls: "calls"
            case .toolOutput: "output"
            case .response: "response"
            default: "reasoning"
            }
        }
    }
}

/// A tool that answers with its arguments.
struct Weather: Tool {
    var name = "weather"
    let description = "Reports the weather."
    let parameters = GenerationSchema(
        decoding: #"""
            {"title": "Place", "type": "object", "x-order": ["town", "day"], "additionalProperties": false,
             "properties": {"day": {"type": "string"}, "town": {"type": "string"}}, "required": ["town"]}
            """#)

    func call(arguments: GeneratedContent) async throws -> String { "rain, \(arguments.jsonString)" }
}

extension GenerationSchema {
    /// Decodes a schema that is known to be correct.
    init(decoding json: String) {
        do {
            self = try JSONDecoder().decode(GenerationSchema.self, from: Data(json.utf8))
        } catch {
            preconditionFailure("\(error)")
        }
    }
}

extension Result where Failure == any Error {
    /// Keeps the error of work.
    init(of work: () async throws -> Success) async {
        do {
            self = .success(try await work())
        } catch {
            self = .failure(error)
        }
    }

    /// The error, if there is one.
    var error: (any Error)? { if case .failure(let error) = self { error } else { nil } }
}
