import ChappieSDK
import FoundationEssentials

/// Images and files of the command line, as parts of a message.
enum Attachment {
    /// An image: a file, or an address that begins with `https:`, `http:` or `data:`.
    static func image(_ argument: String) throws -> ChappieInputMessage.Part {
        if ["https:", "http:", "data:"].contains(where: argument.lowercased().hasPrefix) {
            guard let url = URL(string: argument) else {
                throw CommandLineError.usage("\(argument.prefix(200)) is not an address.")
            }
            return .image(try ChappieImage(url: url))
        }
        return .image(try ChappieImage(path: argument))
    }

    /// Text goes into the message, because every model can read it there; any other file is attached. Pipes are read
    /// too.
    static func file(_ path: String) throws -> ChappieInputMessage.Part {
        let bytes = try SmallFile.read(path)
        let name = path.split(separator: "/").last.map(String.init) ?? path
        guard let text = String(validating: bytes, as: UTF8.self), !text.contains("\0") else {
            return .file(try ChappieFile(bytes: bytes, name: name))
        }
        return .text("<document name=\"\(name)\">\n\(text)\(text.hasSuffix("\n") ? "" : "\n")</document>\n\n")
    }
}
