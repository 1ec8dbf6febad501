@_spi(ChappieInternals) public import ChappieCore

/// A tool that the backend itself runs. Its calls and their results are items of the answer, and nothing runs on this
/// machine.
///
/// ```swift
/// let request = ChappieResponseRequest(messages: [.user("What is new in Swift?")], serviceTools: [.webSearch()])
/// let response = try await client.response(request)
/// for source in response.sources { print(source.title ?? "", source.url) }
/// ```
public struct ChappieServiceTool: Sendable, Hashable, Codable {
    /// The declaration in the form of requests: an object with a `type`.
    public var declaration: ChappieJSON

    /// Creates any tool of the backend from its declaration. The backend refuses a tool that it does not know.
    public init(declaration: ChappieJSON) { self.declaration = declaration }

    /// Returns a tool that searches the web. The answer cites the pages as `ChappieResponse.sources`.
    ///
    /// - Parameters:
    ///   - readsLivePages: Whether pages are fetched now. Otherwise the backend uses its stored copies. Default `true`.
    ///   - allowedDomains: The only domains to search, such as `swift.org`. Default: all.
    public static func webSearch(
        readsLivePages: Bool = true, allowedDomains: [String] = []
    ) -> ChappieServiceTool {
        var declaration: ChappieJSONObject = [
            "type": "web_search", "external_web_access": .bool(readsLivePages),
        ]
        if !allowedDomains.isEmpty {
            declaration["filters"] = ["allowed_domains": .array(allowedDomains.map { .string($0) })]
        }
        return ChappieServiceTool(declaration: .object(declaration))
    }

    /// Returns whether a request to `model` may declare the tool.
    ///
    /// - Parameter listsTools: Whether the service's list of models specifies which tools they take.
    func isOffered(by model: ChappieModel, listsTools: Bool) -> Bool {
        guard declaration["type"]?.string == "web_search", listsTools else { return true }
        return !model.webSearchContentTypes.isEmpty
    }

    /// The tool's name in sentences.
    var name: String {
        let type = UntrustedText.forTerminal(declaration["type"]?.string ?? "")
        return type == "web_search" ? "web search" : "the tool \(type)"
    }
}
