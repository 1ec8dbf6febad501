import CEditline
import Glibc

/// The effect of Tab on the text before the cursor.
enum Completion: Equatable {
    case nothing
    case insert(String)
    /// Several candidates fit, and they have no more text in common.
    case list([String])

    /// Creates the completion of `text`.
    ///
    /// - Parameter candidates: complete texts that could replace `text`. They include the names of files and of a
    ///   service's models, so a candidate with a control character, which the terminal might obey, is left out.
    init(of text: String, among candidates: [String]) {
        let fitting = candidates.filter { $0.hasPrefix(text) && !$0.hasControlCharacters }
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

    /// Returns the last word of each candidate, arranged in columns.
    static func table(_ candidates: [String], columns: Int) -> String {
        let words = candidates.map { $0.split(separator: " ").last.map(String.init) ?? $0 }
        let width = (words.map(\.columns).max() ?? 0) + 2
        let perRow = max(1, columns / max(1, width))
        return stride(from: 0, to: words.count, by: perRow).map { start in
            words[start..<min(start + perRow, words.count)].map { word in
                word + String(repeating: " ", count: width - word.columns)
            }.joined() + "\n"
        }.joined()
    }
}

extension String {
    /// The number of columns that a terminal needs for the text.
    var columns: Int {
        unicodeScalars.reduce(0) { $0 + Int(ceditline_columns(wchar_t(bitPattern: $1.value))) }
    }

    fileprivate var hasControlCharacters: Bool {
        unicodeScalars.contains { $0.properties.generalCategory == .control }
    }

    fileprivate func commonPrefix(with other: String) -> String {
        String(zip(self, other).prefix { $0 == $1 }.map(\.0))
    }
}
