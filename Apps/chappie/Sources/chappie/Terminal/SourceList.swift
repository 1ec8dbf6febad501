@_spi(ChappieInternals) import ChappieCore
import ChappieSDK
import FoundationEssentials

/// The pages that an answer cites as plain lines.
enum SourceList {
    static func lines(_ sources: [ChappieSource]) -> [String] {
        guard !sources.isEmpty else { return [] }
        let lines = sources.prefix(50).enumerated().map { index, source in
            let title = UntrustedText.message(source.title, limit: 200).map { "\($0): " } ?? ""
            return "\(index + 1). \(title)\(shown(source.url))"
        }
        return ["Sources:"] + lines + (sources.count > 50 ? ["… and \(sources.count - 50) more"] : [])
    }

    /// Returns an address from elsewhere as text for one line.
    static func shown(_ url: String) -> String {
        UntrustedText.writtenOut(address(url)).filter { !$0.isWhitespace }
    }

    /// Returns the address without a user's name, which may look like another host.
    private static func address(_ url: String) -> String {
        guard var parts = URLComponents(string: url), parts.user != nil else { return url }
        parts.user = nil
        parts.password = nil
        return parts.string ?? url
    }
}

extension ChappieSource {
    var json: ChappieJSON { ["url": .string(url), "title": title.map { .string($0) } ?? .null] }
}
