@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieSDK
import SystemPackage

/// The file of a new picture. Its name comes from the prompt, and it never replaces another file.
enum PictureFile {
    /// The maximum length of a name without its number and its extension.
    private static let nameLimit = 48

    /// Returns the beginning of a file name, which consists of the prompt's letters from a to z, its digits and hyphens.
    static func stem(for prompt: String) -> String {
        var stem = ""
        for word in prompt.lowercased().split(whereSeparator: { !$0.isASCII || !$0.isLetter && !$0.isNumber }) {
            let next = stem.isEmpty ? String(word) : "\(stem)-\(word)"
            guard next.utf8.count <= nameLimit else { break }
            stem = next
        }
        return stem.isEmpty ? "picture" : stem
    }

    /// Writes the picture into a file that begins with `stem` and has a number if that name is taken.
    ///
    /// - Returns: the path of the file.
    /// - Throws: ``CommandLineError``.
    static func save(
        _ picture: ChappieGeneratedImage, as stem: String, outside store: ThreadsFolder
    ) throws -> String {
        var number = 1
        while true {
            let path = "\(stem)\(number == 1 ? "" : "-\(number)").\(picture.fileExtension)"
            try store.refuse(path)
            do throws(Errno) {
                try FileDraft(of: path, permissions: FilePermissions(rawValue: 0o666)).replace(
                    with: picture.bytes, isDurable: false, onlyIfMissing: true)
                return path
            } catch {
                guard error == .fileExists else { throw OutputFile.failure(path, error, .unavailable) }
                number += 1
            }
        }
    }

    /// Checks before a picture is made that it can be saved in the current folder.
    ///
    /// - Throws: ``CommandLineError``.
    static func checkFolder() throws {
        do {
            _ = try FileDraft(of: "picture")
        } catch {
            throw OutputFile.failure("A picture in this folder", error)
        }
    }
}

extension ChappieGeneratedImage {
    /// The size and the kind of the picture for the user.
    var description: String { "\(width) × \(height), \(fileExtension.uppercased())" }

    /// Returns the picture's facts for a script.
    func json(path: String) -> ChappieJSON {
        var object: ChappieJSONObject = [
            "path": .string(path), "media_type": .string(mediaType), "width": .integer(width),
            "height": .integer(height), "bytes": .integer(bytes.count),
        ]
        object["usage"] = usage?.json
        return .object(object)
    }
}
