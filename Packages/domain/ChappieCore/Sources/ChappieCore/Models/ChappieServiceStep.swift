/// A step of one of the service's tools in a turn: a search, a page, a picture. Use it for a row that shows the user
/// what happens.
public enum ChappieServiceStep: Sendable, Hashable, Codable {
    /// A step on the web.
    case web(ChappieWebSearch)
    /// A picture is made, or one is changed, as the prompt describes.
    case image(prompt: String)

    /// The step in a sentence without a full stop, for users. Parts of it are the model's text.
    public var sentence: String {
        switch self {
        case .web(let search):
            switch search.action {
            case .search(let queries) where !queries.isEmpty: "Searches the web: \(queries.joined(separator: "; "))"
            case .search: "Searches the web"
            case .openPage(let url): "Opens \(url ?? "a page")"
            case .findInPage(let url, let pattern): "Looks for \(pattern ?? "words") in \(url ?? "a page")"
            case .other(let name): name.isEmpty ? "Uses the web" : "Uses the web: \(name)"
            }
        case .image(let prompt): "Draws: \(prompt)"
        }
    }
}
