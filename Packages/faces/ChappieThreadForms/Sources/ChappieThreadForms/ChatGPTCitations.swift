@_spi(ChappieInternals) import ChappieCore
import ChappieMarkdown

/// The citations in an answer of ChatGPT's export. A mark in the text, between U+E200 and U+E201 or between 【 and 】,
/// refers to an entry of the message's metadata.
enum ChatGPTCitations {
    /// Returns the text with links in the place of marks.
    ///
    /// - Returns: The text, and the number of marks that were removed because their link is unknown.
    static func resolved(_ text: String, _ metadata: ChappieJSON?) -> (text: String, missing: Int) {
        guard text.unicodeScalars.contains(where: isMark) else { return (text, 0) }
        let scalars = Array(text.unicodeScalars)
        let links = links(metadata)
        var result = String.UnicodeScalarView()
        var missing = 0
        var index = 0
        while index < scalars.count {
            guard isMark(scalars[index]) else {
                result.append(scalars[index])
                index += 1
                continue
            }
            guard let end = end(of: index, in: scalars) else {
                // This is a bracket in the text, or a part of a mark.
                if scalars[index] == "【" { result.append("【") }
                index += 1
                continue
            }
            let mark = string(scalars[index...end])
            let link = links.marks[mark] ?? links.places[index] ?? entity(mark)
            if let link { result.append(contentsOf: link.unicodeScalars) } else { missing += 1 }
            index = end + 1
        }
        return (String(result), missing)
    }

    private static func isMark(_ scalar: Unicode.Scalar) -> Bool {
        ("\u{E200}"..."\u{E202}").contains(scalar) || scalar == "【"
    }

    /// Returns the index of the last character of a mark that begins at `start`, or `nil` if no mark begins there.
    private static func end(of start: Int, in scalars: [Unicode.Scalar]) -> Int? {
        let isPrivate = scalars[start] == "\u{E200}"
        guard isPrivate || scalars[start] == "【" else { return nil }
        guard let end = scalars[start...].prefix(2000).firstIndex(of: isPrivate ? "\u{E201}" : "】") else { return nil }
        return isPrivate || scalars[start...end].contains("†") ? end : nil
    }

    /// Returns the links of a message by the text of their marks and by their places in the text.
    private static func links(_ metadata: ChappieJSON?) -> (marks: [String: String], places: [Int: String]) {
        var marks: [String: String] = [:]
        for reference in metadata?["content_references"]?.array ?? [] {
            let matched = Array((reference["matched_text"]?.string ?? "").unicodeScalars)
            guard let start = matched.firstIndex(where: isMark), let end = end(of: start, in: matched) else { continue }
            if let link = link(reference) { marks[string(matched[start...end])] = link }
        }
        var places: [Int: String] = [:]
        for citation in metadata?["citations"]?.array ?? [] {
            guard let start = citation["start_ix"]?.int, let source = citation["metadata"] else { continue }
            if let link = link(source) { places[start] = link }
        }
        return (marks, places)
    }

    /// Returns a reference as Markdown, or `nil` if it names nothing.
    private static func link(_ reference: ChappieJSON) -> String? {
        if let text = reference["alt"]?.string, !text.isEmpty { return text }
        var sources = reference["items"]?.array ?? reference["sources"]?.array ?? [reference]
        if sources.isEmpty { sources = (reference["safe_urls"]?.array ?? []).map { ["url": $0] } }
        let links = sources.compactMap { source -> String? in
            let title = source["title"]?.string ?? source["name"]?.string
            guard let url = source["url"]?.string, url.hasPrefix("https://") || url.hasPrefix("http://") else {
                return title.map { "[\($0)]" }
            }
            let address = ["(": "%28", ")": "%29", " ": "%20", "<": "%3C", ">": "%3E"].reduce(url) {
                $0.replacing($1.key, with: $1.value)
            }
            return "[\(SafeMarkdown.line(title ?? url))](\(address))"
        }
        return links.isEmpty ? nil : "(\(links.joined(separator: ", ")))"
    }

    /// Returns the name in a mark for a person, a place or a product.
    private static func entity(_ mark: String) -> String? {
        let fields = mark.unicodeScalars.dropFirst().dropLast().split(separator: "\u{E202}").map { String($0) }
        guard fields.count == 2, fields[0] == "entity" else { return nil }
        return (try? ChappieJSON(parsing: fields[1]))?[1]?.string
    }

    private static func string(_ scalars: some Sequence<Unicode.Scalar>) -> String {
        var view = String.UnicodeScalarView()
        view.append(contentsOf: scalars)
        return String(view)
    }
}
