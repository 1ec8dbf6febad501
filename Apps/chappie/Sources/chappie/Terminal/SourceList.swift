@_spi(ChappieInternals) import ChappieCore
import ChappieSDK

/// The pages that an answer cites as plain lines.
enum SourceList {
    static func lines(_ sources: [ChappieSource]) -> [String] {
        guard !sources.isEmpty else { return [] }
        return ["Sources:"]
            + sources.enumerated().map { index, source in
                let title = UntrustedText.message(source.title, limit: 200).map { "\($0): " } ?? ""
                return "\(index + 1). \(title)\(UntrustedText.forTerminal(source.url))"
            }
    }
}

extension ChappieSource {
    var json: ChappieJSON { ["url": .string(url), "title": title.map { .string($0) } ?? .null] }
}
