@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieSDK
import FoundationEssentials
import Glibc
import HTTPTypes

/// Images, files, folders and addresses of the command line as parts of a message.
enum Attachment {
    /// Returns an image from a file, an address that begins with `https:`, `http:` or `data:`, or `-` for standard
    /// input.
    static func image(_ argument: String) async throws -> ChappieInputMessage.Part {
        if argument == "-" {
            var input = StandardInput()
            return .image(try ChappieImage(bytes: try await input.readBytes(), name: "standard input"))
        }
        if ["https:", "http:", "data:"].contains(where: argument.lowercased().hasPrefix) {
            guard let url = URL(string: argument) else {
                throw CommandLineError.usage("\(argument.prefix(200)) is not an address.")
            }
            return .image(try ChappieImage(url: url))
        }
        let path = place(of: argument)
        // Reading a named pipe waits for its writer.
        return try await onThread { .image(try ChappieImage(path: path)) }
    }

    /// Returns the parts for a file, a folder, an address, or `-` for standard input. Text becomes part of the message
    /// because every model can read it there, and any other file is attached. Pipes are also read. A folder gives the
    /// text files in it, and an address gives its current content.
    static func file(
        _ argument: String, _ transport: any HTTPTransport, _ console: Console
    ) async throws -> [ChappieInputMessage.Part] {
        if ["https:", "http:"].contains(where: argument.lowercased().hasPrefix) {
            guard let url = URL(string: argument), let host = url.host(), !host.isEmpty else {
                throw CommandLineError.usage("\(argument.prefix(200)) is not an address.")
            }
            let bytes = try await RemoteFile.read(url, transport)
            let name = RemoteFile.name(of: url)
            console.note("chappie: \(name): \((bytes.count + 1023) / 1024) KiB")
            return [try part(bytes, name: name)]
        }
        if argument == "-" {
            var input = StandardInput()
            return [try part(try await input.readBytes(), name: "input")]
        }
        let path = place(of: argument)
        var isFolder = false
        if FileManager.default.fileExists(atPath: path, isDirectory: &isFolder), isFolder {
            let found = try await onThread { try FolderText(path) }
            console.note("chappie: \(found.sentence)")
            return found.files.map { .text(document($0.text, name: $0.name)) }
        }
        // The name of an open file, which a shell makes of `<(command)`, is a number.
        let isOpen = ["/dev/fd/", "/proc/self/fd/"].contains(where: path.hasPrefix)
        let name = isOpen ? "input" : path.split(separator: "/").last.map(String.init) ?? path
        return [try part(try await onThread { try WholeFile.read(path) }, name: name)]
    }

    /// Returns the path of an argument, which may be a `file://` address or begin with a `~` that no shell has replaced.
    private static func place(of argument: String) -> String {
        WholeFile.exists(argument)
            ? argument : PathArgument.resolved(argument, ProgramEnvironment.process.folders.home)
    }

    /// Returns the content of the clipboard, which is an image, text or another file.
    static func pasted(_ bytes: [UInt8]) throws -> ChappieInputMessage.Part {
        if ChappieImage.Format(sniffing: bytes) != nil {
            return .image(try ChappieImage(bytes: bytes, name: "the clipboard"))
        }
        return try part(bytes, name: "clipboard")
    }

    /// Returns the part for a file's content.
    ///
    /// - Throws: ``CommandLineError`` for a file that is neither text nor of a type that the service accepts.
    static func part(_ bytes: [UInt8], name: String) throws -> ChappieInputMessage.Part {
        if let text = text(of: bytes) { return .text(document(text, name: name)) }
        let file = try ChappieFile(bytes: bytes, name: name)
        let unusable = ["application/octet-stream", "application/json", "text/"].map { "data:\($0)" }
        guard case .data(let address) = file.source, !unusable.contains(where: address.hasPrefix) else {
            let coding = bytes.starts(with: [0xFF, 0xFE]) || bytes.starts(with: [0xFE, 0xFF]) ? "UTF-16" : "LATIN1"
            throw CommandLineError.usage(
                "\(name) is neither text in UTF-8 nor a type of file that the service accepts.",
                suggestion: "Convert text: `iconv -f \(coding) -t UTF-8 FILE | chappie -f - …`. Unpack an archive.")
        }
        return .file(file)
    }

    fileprivate static func text(of bytes: [UInt8]) -> String? {
        String(validating: UserFile.unmarked(bytes), as: UTF8.self).flatMap { $0.contains("\0") ? nil : $0 }
    }

    /// Returns the text in a frame that its name and its content cannot leave.
    static func document(_ text: String, name: String) -> String {
        var tag = "document"
        var number = 1
        while text.contains("</\(tag)>") {
            number += 1
            tag = "document-\(number)"
        }
        let name = name.replacing("&", with: "&amp;").replacing("\"", with: "&quot;").replacing("<", with: "&lt;")
            .replacing(">", with: "&gt;").replacing("\n", with: "&#10;").replacing("\r", with: "&#13;")
        return "<\(tag) name=\"\(name)\">\n\(text)\(text.hasSuffix("\n") ? "" : "\n")</\(tag)>\n\n"
    }
}

/// The text files of a folder and its subfolders. Hidden files and links are left out.
struct FolderText {
    /// The maximum size of the text, in bytes, and the maximum number of files and folders that are examined.
    static let limit = 1 << 20
    private static let entryLimit = 10_000
    /// The maximum size, in bytes, of everything that is read to find out whether it is text.
    private static let readLimit = 64 << 20

    private(set) var files: [(name: String, text: String)] = []
    let sentence: String

    /// - Throws: ``CommandLineError`` for a folder that exceeds a limit, has nothing to read, or cannot be read.
    init(_ folder: String) throws {
        var waiting = [folder.last == "/" ? String(folder.dropLast()) : folder]
        var (entries, read, size, others) = (0, 0, 0, 0)
        let root = waiting[0]
        while let path = waiting.popLast() {
            try Task.checkCancellation()
            entries += 1
            guard entries <= Self.entryLimit else { throw Self.tooLarge(folder, "\(Self.entryLimit) files") }
            var status = stat()
            // The folder itself may be a link, because the user named it.
            guard (path == root ? stat(path, &status) : lstat(path, &status)) == 0 else { continue }
            switch status.st_mode & S_IFMT {
            case S_IFDIR:
                guard let names = try? FileManager.default.contentsOfDirectory(atPath: path) else {
                    guard path == root else { continue }
                    throw CommandLineError.usage("\(folder) can't be read.", suggestion: "Check the path.")
                }
                // The loop takes the last element, so the names are sorted in descending order.
                waiting += names.filter { $0.first != "." }.sorted(by: >).map { "\(path)/\($0)" }
            case S_IFREG:
                let length = Int(status.st_size)
                if length <= Self.limit { read += length }
                guard read <= Self.readLimit else { throw Self.tooLarge(folder, "\(Self.readLimit >> 20) MiB") }
                guard length <= Self.limit, let text = (try? WholeFile.read(path)).flatMap(Attachment.text) else {
                    others += 1
                    continue
                }
                size += text.utf8.count
                guard size <= Self.limit else { throw Self.tooLarge(folder, "\(Self.limit >> 20) MiB of text") }
                files.append((String(path.dropFirst(root.count + 1)), text))
            default: others += 1
            }
        }
        guard !files.isEmpty else {
            throw CommandLineError.usage("\(folder) has no text files.", suggestion: "Name its files with -f.")
        }
        let rest = others == 0 ? "" : "; left out, because they are not text or too large: \(others)"
        let count = files.count == 1 ? "1 text file" : "\(files.count) text files"
        sentence = "\(folder): \(count), \((size + 1023) / 1024) KiB\(rest)"
    }

    private static func tooLarge(_ folder: String, _ amount: String) -> CommandLineError {
        .usage("\(folder) has more than \(amount).", suggestion: "Name the files or folders that matter.")
    }
}

/// The content of an address that the user named. The request does not carry a credential, so redirects to other hosts
/// are followed.
private enum RemoteFile {
    private static let redirects = 5

    /// Returns the address for messages and for the model. Its query is removed because it may contain a key, as in
    /// signed addresses.
    static func name(of url: URL) -> String {
        var parts = URLComponents(url: url, resolvingAgainstBaseURL: true)
        parts?.user = nil
        parts?.password = nil
        parts?.query = nil
        parts?.fragment = nil
        return parts?.string ?? url.host() ?? "the address"
    }

    /// Fetches the content of an address.
    ///
    /// - Throws: ``CommandLineError`` for a status other than success, too many redirects, or more than
    ///   ``ChappieFiles/WholeFile/limit``. Also errors of the network.
    static func read(_ address: URL, _ transport: any HTTPTransport) async throws -> [UInt8] {
        var url = address
        for _ in 0...redirects {
            let response = try await transport.send(
                HTTPExchangeRequest(
                    url: url,
                    headerFields: [.userAgent: "chappie/\(ChappieVersion.current)", .acceptEncoding: "identity"]))
            defer { response.body.cancel() }
            if response.status.kind == .redirection, let place = response.headerFields[.location],
                let next = URL(string: place, relativeTo: url)?.absoluteURL
            {
                // A remote page does not lead to a server here.
                guard next.scheme?.lowercased() == "https" || url.scheme?.lowercased() == "http" else {
                    throw unavailable(address, "its redirect leads from https to \(next.scheme ?? "nowhere")")
                }
                url = next
                continue
            }
            guard response.status.kind == .successful else {
                throw unavailable(address, "its server answers with status \(response.status.code)")
            }
            if let coding = response.headerFields[.contentEncoding], coding.lowercased() != "identity" {
                let words = UntrustedText.message(coding, limit: 20) ?? "another coding"
                throw unavailable(
                    address, "its server sends it compressed (\(words)), although that was not asked for",
                    suggestion: "Fetch it: `curl --compressed ADDRESS | chappie -f - …`.")
            }
            var bytes: [UInt8] = []
            for try await piece in response.body {
                bytes += piece
                guard bytes.count <= WholeFile.limit else {
                    throw CommandLineError.usage("\(name(of: address)) is larger than \(WholeFile.limit >> 20) MiB.")
                }
            }
            return bytes
        }
        throw unavailable(address, "it leads from address to address", suggestion: "Name the last one.")
    }

    private static func unavailable(
        _ address: URL, _ reason: String, suggestion: String = "Check the address."
    ) -> CommandLineError {
        CommandLineError(
            .unavailable, code: "address_unavailable", "\(name(of: address)) can't be read: \(reason).",
            suggestion: suggestion)
    }
}
