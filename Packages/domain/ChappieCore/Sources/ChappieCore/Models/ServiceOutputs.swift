/// The outputs of the service's tools among the items of a turn: the pages that searches found, and the pictures.
///
/// An output has its pages in the member `sources`, which is kept with the conversation and not sent to the service.
@_spi(ChappieInternals) public struct ServiceOutputs: Sendable, Hashable, Codable {
    /// The outputs of calls, in the form of the Responses API.
    private var items: [ChappieJSON] = []

    /// The name of the tool that searches, as the model calls it.
    public static let search = "web_search"
    /// The name of the tool that makes pictures, as the model calls it.
    public static let image = "image_generation"
    /// The member of an output that has its pages.
    public static let member = "sources"

    /// Creates an empty list.
    public init() {}

    /// Finds the outputs among the items of a turn.
    public init(in items: some Sequence<ChappieJSON>) {
        var drawing: Set<String> = []
        for item in items {
            guard let id = item["call_id"]?.string else { continue }
            switch item["type"]?.string {
            case "function_call"? where item["name"]?.string == Self.image: drawing.insert(id)
            case "function_call_output"? where drawing.contains(id) || item[Self.member] != nil:
                self.items.append(item)
            default: continue
            }
        }
    }

    /// Whether there are none.
    public var isEmpty: Bool { items.isEmpty }

    /// The pictures that were made.
    public var images: [ChappieGeneratedImage] {
        items.filter { $0[Self.member] == nil }.flatMap { $0["output"]?.array ?? [] }
            .compactMap(ChappieGeneratedImage.init(part:))
    }

    /// Returns the pages to which `text` has a link, in the order of their links. If it has no link to any of them,
    /// returns all pages, at most 20 of them.
    public func sources(for text: String) -> [ChappieSource] {
        var known: Set<String> = []
        let all = items.flatMap { Self.sources(in: $0) }.filter { known.insert($0.url).inserted }
        guard !all.isEmpty else { return [] }
        var linked: [ChappieSource] = []
        let byLink = Dictionary(all.map { (Self.link($0.url[...]), $0) }) { first, _ in first }
        var used: Set<String> = []
        for word in text.split(whereSeparator: Self.endsLink) {
            let word = word.drop { "*_~".contains($0) }
            guard word.hasPrefix("http"), let source = byLink[Self.link(word)] else { continue }
            if used.insert(source.url).inserted { linked.append(source) }
        }
        return linked.isEmpty ? Array(all.prefix(Self.limit)) : linked
    }

    /// Returns the part of an address by which a link to it is recognised in Markdown.
    private static func link(_ address: Substring) -> Substring {
        var link = address.prefix { !endsLink($0) }
        while let last = link.last, "/.,;:!?*_".contains(last) { link.removeLast() }
        return link
    }

    private static func endsLink(_ character: Character) -> Bool {
        character.isWhitespace || "()<>[]{}\"'`|".contains(character)
    }

    /// The largest number of pages that are listed for an answer without links.
    private static let limit = 20

    /// Returns the pages of one output.
    private static func sources(in item: ChappieJSON) -> [ChappieSource] {
        (item[member]?.array ?? []).compactMap { page in
            guard let url = page["url"]?.string, ChappieSource.isAddress(url) else { return nil }
            return ChappieSource(url: url, title: page["title"]?.string.flatMap { $0.isEmpty ? nil : $0 })
        }
    }

    /// Returns the address of the page that has this reference in an earlier search, or `nil`.
    public func address(of reference: String) -> String? {
        for page in items.reversed().lazy.flatMap({ $0[Self.member]?.array ?? [] })
        where page["ref_id"]?.string == reference { return page["url"]?.string }
        return nil
    }
}
