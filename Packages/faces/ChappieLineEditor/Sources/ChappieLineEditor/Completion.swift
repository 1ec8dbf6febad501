/// The effect of Tab on the text before the cursor.
enum Completion: Equatable {
    case nothing
    case insert(String)
    /// Several candidates fit, and they have no more text in common.
    case list([String])

    /// - Parameter candidates: whole texts that could replace `text`.
    init(of text: String, among candidates: [String]) {
        let fitting = candidates.filter { $0.hasPrefix(text) }
        guard var common = fitting.first else {
            self = .nothing
            return
        }
        for candidate in fitting.dropFirst() { common = common.commonPrefix(with: candidate) }
        if common.count > text.count {
            self = .insert(String(common.dropFirst(text.count)))
        } else {
            self = fitting.count > 1 ? .list(fitting) : .nothing
        }
    }

    /// The last word of each candidate, in columns.
    static func table(_ candidates: [String], columns: Int) -> String {
        let words = candidates.map { $0.split(separator: " ").last.map(String.init) ?? $0 }
        let width = (words.map(\.count).max() ?? 0) + 2
        let perRow = max(1, columns / max(1, width))
        return stride(from: 0, to: words.count, by: perRow).map { start in
            words[start..<min(start + perRow, words.count)].map { word in
                word + String(repeating: " ", count: width - word.count)
            }.joined() + "\n"
        }.joined()
    }
}

extension String {
    fileprivate func commonPrefix(with other: String) -> String {
        String(zip(self, other).prefix { $0 == $1 }.map(\.0))
    }
}
