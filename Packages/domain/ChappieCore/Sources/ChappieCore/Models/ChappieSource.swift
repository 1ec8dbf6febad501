/// A page of the web that an answer cites.
///
/// The data comes from the annotations of type `url_citation` in the Responses API's output text.
public struct ChappieSource: Sendable, Hashable, Codable {
    /// The address, which begins with `https:` or `http:`. The model has chosen it, so show it before it is opened.
    public var url: String
    /// The title of the page, or `nil` if the backend names none.
    public var title: String?
    /// The name of the page in further searches of the same conversation, such as `turn0search0`.
    @_spi(ChappieInternals) public var reference: String?

    /// Creates a page with this address.
    public init(url: String, title: String? = nil) {
        self.url = url
        self.title = title
    }

    /// The largest number of pages. An answer can cite more pages than a user reads.
    private static let limit = 1000

    static func cited(in items: some Sequence<ChappieJSON>) -> [ChappieSource] {
        var (sources, known) = ([ChappieSource](), Set<String>())
        for item in items where item["type"]?.string == "message" {
            for part in item["content"]?.array ?? [] {
                for annotation in part["annotations"]?.array ?? [] where annotation["type"]?.string == "url_citation" {
                    guard let url = annotation["url"]?.string, isAddress(url), known.insert(url).inserted else {
                        continue
                    }
                    let title = annotation["title"]?.string.flatMap { $0.isEmpty ? nil : $0 }
                    sources.append(ChappieSource(url: url, title: title))
                    if sources.count == limit { return sources }
                }
            }
        }
        return sources
    }

    /// Returns whether `text` is an address of the web.
    @_spi(ChappieInternals) public static func isAddress(_ text: String) -> Bool {
        ["https://", "http://"].contains { text.lowercased().hasPrefix($0) } && text.utf8.count <= 8192
            && text.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7F }
    }
}

/// A step of the backend on the web for an answer, which is an item of the type `web_search_call`.
public struct ChappieWebSearch: Sendable, Hashable, Codable {
    /// One step. Unknown steps are kept as ``other(_:)``.
    public enum Action: Sendable, Hashable, Codable {
        /// The backend searched with these queries.
        case search(queries: [String])
        /// The backend opened a page.
        case openPage(url: String?)
        /// The backend looked for a text in a page.
        case findInPage(url: String?, pattern: String?)
        /// Another step, with its name.
        case other(String)
    }

    /// The kind of the step, with its details.
    public var action: Action
    /// The progress of the step, such as `completed`.
    public var status: String?

    /// Creates a step.
    public init(action: Action, status: String? = nil) {
        self.action = action
        self.status = status
    }

    /// The step in a sentence, for users. Parts of it are the model's text.
    public var sentence: String {
        switch action {
        case .search(let queries) where !queries.isEmpty: "Searched the web: \(queries.joined(separator: "; "))"
        case .search: "Searched the web"
        case .openPage(let url): "Opened \(url ?? "a page")"
        case .findInPage(let url, let pattern): "Looked for \(pattern ?? "words") in \(url ?? "a page")"
        case .other: "Used the web"
        }
    }

    init?(_ item: ChappieJSON) {
        guard item["type"]?.string == "web_search_call" else { return nil }
        let action = item["action"] ?? .null
        status = item["status"]?.string
        switch action["type"]?.string {
        case "search"?:
            let queries = (action["queries"]?.array ?? []).compactMap(\.string)
            self.action = .search(queries: queries.isEmpty ? [action["query"]?.string].compactMap(\.self) : queries)
        case "open_page"?: self.action = .openPage(url: action["url"]?.string)
        case "find_in_page"?: self.action = .findInPage(url: action["url"]?.string, pattern: action["pattern"]?.string)
        case let other: self.action = .other(other ?? "")
        }
    }
}
