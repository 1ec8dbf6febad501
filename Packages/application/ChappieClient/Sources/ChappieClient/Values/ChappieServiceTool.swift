@_spi(ChappieInternals) public import ChappieCore

/// A tool of the service, which the model may use in a turn.
///
/// ```swift
/// let request = ChappieResponseRequest(messages: [.user("What is new in Swift?")], serviceTools: [.webSearch()])
/// let response = try await client.response(request)
/// for source in response.sources { print(source.title ?? "", source.url) }
/// ```
///
/// The backend runs a tool inside its answer, or the model calls a function that the client carries out at the
/// service's endpoint for it. The client chooses the way that the model and the sign-in allow. Nothing runs on this
/// machine in either case.
public struct ChappieServiceTool: Sendable, Hashable, Codable {
    /// The declaration in the form of requests: an object with a `type`.
    public var declaration: ChappieJSON

    /// Creates any tool of the backend from its declaration. The backend refuses a tool that it does not know.
    public init(declaration: ChappieJSON) { self.declaration = declaration }

    /// Returns a tool that searches the web and reads pages. The answer has the pages in `ChappieResponse.sources`.
    ///
    /// - Parameters:
    ///   - readsLivePages: Whether pages are fetched now. Otherwise the backend uses its stored copies. Default `true`.
    ///   - allowedDomains: The only domains to search, such as `swift.org`. Default: all.
    ///   - location: The place for which results are chosen. Default `nil`: the service decides.
    public static func webSearch(
        readsLivePages: Bool = true, allowedDomains: [String] = [], location: ChappieSearchLocation? = nil
    ) -> ChappieServiceTool {
        var declaration: ChappieJSONObject = [
            "type": .string(ServiceOutputs.search), "external_web_access": .bool(readsLivePages),
        ]
        if !allowedDomains.isEmpty {
            declaration["filters"] = ["allowed_domains": .array(allowedDomains.map { .string($0) })]
        }
        if let location { declaration["user_location"] = location.json }
        return ChappieServiceTool(declaration: .object(declaration))
    }

    /// Returns a tool that makes pictures, and changes pictures of the conversation. The answer has them in
    /// `ChappieResponse.images`. Each picture uses a part of the plan's quota for pictures.
    ///
    /// A sign-in with "Continue with ChatGPT" does not include it. The turn then throws
    /// ``ChappieClientError/notWithThisSignIn(_:)``.
    ///
    /// - Parameter model: The model that makes the pictures. Default ``ChappieImageRequest/defaultModel``.
    public static func imageGeneration(model: String = ChappieImageRequest.defaultModel) -> ChappieServiceTool {
        ChappieServiceTool(declaration: ["type": .string(ServiceOutputs.image), "model": .string(model)])
    }

    /// The type of the declaration.
    var type: String { declaration["type"]?.string ?? "" }

    /// Returns whether a request to `model` may declare the tool, which the backend runs.
    ///
    /// - Parameter listsTools: Whether the service's list of models specifies which tools they take.
    func isOffered(by model: ChappieModel, listsTools: Bool) -> Bool {
        guard type == ServiceOutputs.search, listsTools else { return true }
        return !model.webSearchContentTypes.isEmpty
    }

    /// Whether only the backend can run the tool.
    var isAlwaysHosted: Bool { ![ServiceOutputs.search, ServiceOutputs.image].contains(type) }

    /// The settings of a search at the service's endpoint.
    var searchSettings: ChappieJSONObject {
        var settings: ChappieJSONObject = ["allowed_callers": ["direct"]]
        for name in ["external_web_access", "filters", "user_location", "search_context_size"] {
            if let value = declaration[name] { settings[name] = value }
        }
        return settings
    }

    /// The tool's name in sentences.
    var name: String {
        let type = UntrustedText.forTerminal(type)
        return type == ServiceOutputs.search ? "web search" : "the tool \(type)"
    }
}
