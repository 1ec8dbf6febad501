@_spi(ChappieInternals) public import ChappieAuth
@_spi(ChappieInternals) public import ChappieClient
@_spi(ChappieInternals) public import ChappieCore
import HTTPTypes
import Synchronization

/// The apps that the user has connected in ChatGPT, such as Gmail, as tools for a client. They are experimental: the
/// service does not document them, and not every sign-in includes them.
///
/// ```swift
/// let apps = ChappieConnectedApps(credentials: credentials, transport: transport, apps: ["gmail", "calendar"])
/// defer { apps.close() }
/// let client = Chappie.client(toolProviders: [apps])
/// ```
///
/// The user is asked before every call of every tool. A tool that only reads may be called without a question if
/// `automaticTools` names it. The credential is sent only to the configured backend, and no redirect is followed.
public final class ChappieConnectedApps: ChappieToolProvider {
    /// An app with its tools.
    public struct App: Sendable, Hashable {
        /// The name by which a client chooses the app, such as `gmail`.
        public let name: String
        /// The tools in the order of the service.
        public let tools: [Tool]
    }

    /// A tool of an app.
    public struct Tool: Sendable, Hashable {
        /// The service's name, such as `gmail.search_emails`.
        public let name: String
        /// The explanation of the tool for the model.
        public let description: String
        /// Whether the service states that the tool changes nothing.
        public let isReadOnly: Bool
    }

    /// The group that contains the tools for the model.
    public static let namespace = "connected_apps"
    /// The limit for the start, and for the list of tools.
    private static let startLimit = Duration.seconds(30)

    private let server: ChappieMCPServer?
    private let offered: Mutex<Set<String>?>
    private let automaticTools: Set<String>

    /// Creates a provider, which sends nothing until its tools are requested.
    ///
    /// - Parameters:
    ///   - credentials: the sign-in.
    ///   - transport: the transport to the backend.
    ///   - apps: the names of the apps that are offered. Default `nil`: all of them.
    ///   - automaticTools: the service's names of tools that run without a question. A tool that may change something
    ///     asks nevertheless. Default: none.
    public init(
        credentials: CredentialManager, transport: any HTTPTransport, apps: Set<String>? = nil,
        automaticTools: Set<String> = []
    ) {
        offered = Mutex(Self.names(apps))
        self.automaticTools = automaticTools
        server = credentials.endpoints.connectedAppsURL.map { url in
            var fields: HTTPFields = [:]
            fields[.productSKU] = "codex"
            var start = MCPServerStart.http(
                MCPEndpoint(
                    url: url, headerFields: fields,
                    transport: MiddlewareTransport(transport, middleware: [AppsAccess(), credentials.authorization]),
                    callTimeout: .seconds(300)))
            start.capabilities = ["elicitation": ["url": [:]]]
            return ChappieMCPServer(
                start: start, name: Self.namespace, startTimeout: Self.startLimit, limits: MCPSession.Limits())
        }
    }

    /// Returns the user's apps with their tools, by name. The choice of apps does not matter.
    ///
    /// - Throws: ``ChappieMCPError``; its code is `appsNotIncluded` if the sign-in does not include connected apps.
    ///   `ChappieClientError.notWithThisSignIn` for a sign-in of another kind. `CancellationError`.
    public func list() async throws -> [App] {
        let tools = try await available().map(\.entry)
        return Dictionary(grouping: tools, by: \.app).map { name, tools in
            App(
                name: name,
                tools: tools.map { Tool(name: $0.name, description: $0.description, isReadOnly: $0.isReadOnly) })
        }.sorted { $0.name < $1.name }
    }

    /// Offers other apps from the next turn on. `nil` offers all of them.
    public func offer(_ apps: Set<String>?) { offered.withLock { $0 = Self.names(apps) } }

    private static func names(_ apps: Set<String>?) -> Set<String>? { apps.map { Set($0.map { $0.lowercased() }) } }

    /// Returns the tools of the offered apps. If no app is offered, the service is not asked.
    ///
    /// - Throws: the errors of ``list()``. Its code is `refused` if an offered app is not connected.
    public func tools() async throws -> [ChappieHostTool] {
        let apps = offered.withLock(\.self)
        guard apps?.isEmpty != true else { return [] }
        let all = try await available()
        let connected = Set(all.map(\.entry.app))
        if let missing = apps?.subtracting(connected).min() {
            let names = connected.sorted().joined(separator: ", ")
            let reason =
                "you have connected no app \"\(missing)\"" + (names.isEmpty ? "" : ", but these apps: \(names)")
            throw ChappieMCPError(
                .refused, server: Self.namespace, reason: UntrustedText.message(reason, limit: 1000) ?? "")
        }
        return all.filter { apps?.contains($0.entry.app) != false }.map { entry, tool in
            var tool = tool
            let isAutomatic = entry.isReadOnly && automaticTools.contains(entry.name)
            tool.policy = isAutomatic ? .automatic : .ask
            return tool
        }
    }

    private func available() async throws -> [(entry: MCPTool, tool: ChappieHostTool)] {
        guard let server else { throw ChappieClientError.notWithThisSignIn("Using connected apps") }
        return try await server.entries()
    }

    /// Ends the session with the service.
    public func close() { server?.close() }
}

/// A middleware that explains answers about the sign-in. They are about connected apps only, and do not change the
/// sign-in.
private struct AppsAccess: HTTPMiddleware {
    func intercept(
        _ request: HTTPExchangeRequest,
        next: @concurrent @Sendable (HTTPExchangeRequest) async throws -> HTTPExchangeResponse
    ) async throws -> HTTPExchangeResponse {
        let response: HTTPExchangeResponse
        do {
            response = try await next(request)
        } catch let error as ChappieAuthError {
            throw OAuthRefusal(.signInNeeded, clause: error.errorDescription ?? "you are not signed in")
        }
        guard response.status == .unauthorized || response.status == .forbidden else { return response }
        response.body.cancel()
        throw Self.refusal
    }

    private static let refusal = OAuthRefusal(.appsNotIncluded, "this sign-in doesn't include connected apps")
}

extension MCPTool {
    /// The name of the app that has the tool: the part of its name before the first dot.
    fileprivate var app: String { name.prefix { $0 != "." }.lowercased() }
}

extension HTTPField.Name {
    /// The field that names the product. The name is valid by RFC 9110's grammar. The fallback only avoids a trap.
    fileprivate static let productSKU = Self("X-OpenAI-Product-Sku") ?? .accept
}
