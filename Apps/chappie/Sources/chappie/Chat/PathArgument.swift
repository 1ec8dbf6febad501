@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieSDK
import FoundationEssentials

/// A parser for paths as a user types them, or as a terminal pastes them when files are dropped on its window.
enum PathArgument {
    /// Reads the paths of an argument. An argument that names a file is one path, including its blanks. Any other
    /// argument is split by a shell's rules.
    static func paths(in text: String, home: String?) -> [String] {
        let whole = resolved(text, home)
        return WholeFile.exists(whole) ? [whole] : words(of: text).map { resolved($0, home) }
    }

    /// Returns the files if the text contains only absolute paths of files. Such a text was dropped rather than typed.
    static func dropped(_ text: String, home: String?) -> [String]? {
        let text = text.trimmed
        guard text.utf8.count <= 8192, ["/", "'", "\"", "file://"].contains(where: text.hasPrefix) else { return nil }
        let found = paths(in: text, home: home)
        return !found.isEmpty && found.allSatisfy { $0.hasPrefix("/") && WholeFile.exists($0) } ? found : nil
    }

    /// Splits the text at blanks as a shell does. Quotes and backslashes keep blanks.
    static func words(of text: String) -> [String] {
        var (words, word, quote, isEscaped) = ([String](), String?.none, Character?.none, false)
        for character in text {
            if isEscaped {
                word = (word ?? "") + String(character)
                isEscaped = false
            } else if character == "\\", quote != "'" {
                isEscaped = true
            } else if character == quote {
                quote = nil
            } else if quote == nil, character == "'" || character == "\"" {
                quote = character
                word = word ?? ""
            } else if quote == nil, character.isWhitespace {
                if let word { words.append(word) }
                word = nil
            } else {
                word = (word ?? "") + String(character)
            }
        }
        return words + (word.map { [$0] } ?? [])
    }

    /// Returns the path of a `file://` address, or of a path that may begin with `~`.
    static func resolved(_ path: String, _ home: String?) -> String {
        if path.hasPrefix("file://"), let url = URL(string: path) { return url.path(percentEncoded: false) }
        guard path == "~" || path.hasPrefix("~/"), let home else { return path }
        return home + path.dropFirst()
    }

    /// Returns the paths that begin with `text`, in the form of a separate argument.
    static func completions(of text: String) -> [String] {
        let folder = text.lastIndex(of: "/").map { String(text[...$0]) } ?? ""
        let beginning = text.dropFirst(folder.count)
        let home = ProgramEnvironment.process.folders.home
        let names =
            (try? FileManager.default.contentsOfDirectory(atPath: folder.isEmpty ? "." : resolved(folder, home)))
        return (names ?? []).filter { $0.hasPrefix(beginning) && (beginning.first == "." || $0.first != ".") }.sorted()
            .prefix(200).map { name in
                var isFolder = false
                _ = FileManager.default.fileExists(atPath: resolved(folder + name, home), isDirectory: &isFolder)
                return folder + name + (isFolder ? "/" : "")
            }
    }
}
