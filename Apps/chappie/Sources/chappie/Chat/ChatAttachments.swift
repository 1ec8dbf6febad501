@_spi(ChappieInternals) import ChappieCore
import ChappieDesktopLinux
@_spi(ChappieInternals) import ChappieFiles
import ChappieMarkdown
import ChappieSDK

/// The reader of the files, folders and addresses that a line of a chat names.
struct ChatAttachments: Sendable {
    let program: Program
    /// The reader that asks the user whether to attach a file.
    let reader: any LineReader

    enum Kind { case file, image }

    /// Reads the argument of `/file` and `/image`.
    func read(_ argument: String, as kind: Kind) async throws -> [ChappieInputMessage.Part] {
        let isAddress = ["https:", "http:", "data:"].contains(where: argument.lowercased().hasPrefix)
        let paths = isAddress ? [argument] : PathArgument.paths(in: argument, home: program.environment.folders.home)
        var parts: [ChappieInputMessage.Part] = []
        for path in paths {
            switch kind {
            case .image: parts.append(try await Attachment.image(path))
            case .file: parts += try await Attachment.file(path, program.attachmentTransport, program.console)
            }
        }
        return parts
    }

    /// Offers to attach files that were dropped on the terminal's window.
    ///
    /// - Returns: the files, or `nil` for a text that must be sent.
    /// - Throws: `CancellationError` if the user does not answer.
    func dropped(_ text: String) async throws -> [String]? {
        guard let paths = PathArgument.dropped(text, home: program.environment.folders.home) else { return nil }
        let names = paths.map { path in
            let name = path.split(separator: "/").last.map(String.init) ?? ""
            return PlainText.cut(UntrustedText.writtenOut(name).replacing("\n", with: "\\n"), to: 60)
        }
        guard let attaches = try await reader.confirms("Attach \(names.joined(separator: ", "))?") else {
            throw CancellationError()
        }
        return attaches ? paths : nil
    }

    /// Reads files that were dropped on the terminal's window.
    func read(_ paths: [String]) async throws -> [ChappieInputMessage.Part] {
        var parts: [ChappieInputMessage.Part] = []
        for path in paths {
            if let image = try? await Attachment.image(path) {
                parts.append(image)
            } else {
                parts += try await Attachment.file(path, program.attachmentTransport, program.console)
            }
        }
        return parts
    }

    /// Returns the image or text on the clipboard.
    func pasted() async throws -> ChappieInputMessage.Part {
        try Attachment.pasted(try await program.clipboard.paste())
    }
}
