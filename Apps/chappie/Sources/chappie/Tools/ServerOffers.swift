@_spi(ChappieInternals) import ChappieCore
import ChappieMCP
import ChappieSDK
import FoundationEssentials

/// Resources and prompts of tool servers, as a user names them: `SERVER:ADDRESS` and `SERVER:NAME`.
struct ServerOffers: Sendable {
    let servers: [ChappieMCPServer]

    /// The resource that an argument of `-f` names, as parts of a message; `nil` for a file, an address of the web, and a
    /// name that belongs to none of the servers.
    ///
    /// - Throws: `ChappieMCPError`; ``CommandLineError`` for a resource that is empty.
    func attachments(_ argument: String) async throws -> [ChappieInputMessage.Part]? {
        guard !["https:", "http:", "data:"].contains(where: argument.lowercased().hasPrefix),
            let (server, uri) = named(argument), !SmallFile.exists(argument)
        else { return nil }
        let contents = try await server.read(uri)
        guard !contents.isEmpty else { throw CommandLineError.usage("\(argument.prefix(200)) holds nothing.") }
        return try contents.map { content in
            switch content.body {
            case .text(let text): .text(Attachment.document(text, name: argument))
            case .bytes(let bytes) where ChappieImage.Format(sniffing: bytes) != nil:
                .image(try ChappieImage(bytes: bytes, name: argument))
            case .bytes(let bytes): try Attachment.part(bytes, name: argument)
            }
        }
    }

    /// The messages of the prompt `SERVER:NAME`.
    ///
    /// - Throws: `ChappieMCPError`; ``CommandLineError`` if there is no such server.
    func prompt(_ argument: String, _ arguments: [String: String]) async throws -> [ChappieInputMessage] {
        guard let (server, name) = named(argument) else {
            let names = servers.map(\.name).joined(separator: ", ")
            throw CommandLineError.usage(
                "No tool server has the prompt \(argument.prefix(200)).",
                suggestion: servers.isEmpty
                    ? "Name a manifest with its server: --tools FILE." : "Write SERVER:NAME; there are: \(names).")
        }
        return try await server.prompt(name, arguments: arguments)
    }

    /// The prompt of a line `SERVER:NAME ARGUMENT=VALUE …`, in which quotes keep blanks.
    ///
    /// - Throws: as ``prompt(_:_:)``.
    func prompt(inLine line: String) async throws -> [ChappieInputMessage] {
        let words = PathArgument.words(of: line)
        var arguments: [String: String] = [:]
        for word in words.dropFirst() {
            guard let sign = word.firstIndex(of: "="), sign != word.startIndex else {
                throw CommandLineError.usage(
                    "\"\(word.prefix(200))\" gives no argument of a prompt a value.",
                    suggestion: "Write: /prompt SERVER:NAME ARGUMENT=VALUE")
            }
            arguments[String(word[..<sign])] = String(word[sign...].dropFirst())
        }
        return try await prompt(words.first ?? "", arguments)
    }

    private func named(_ text: String) -> (ChappieMCPServer, String)? {
        guard let colon = text.firstIndex(of: ":"),
            let server = servers.first(where: { $0.name == text[..<colon] })
        else { return nil }
        return (server, String(text[colon...].dropFirst()))
    }

    // MARK: Lists

    /// How many of a server's things a list shows.
    private static let limit = 100

    /// A line for each resource; a server that fails has a line for that.
    func resourceLines() async throws -> [String] {
        try await lines("resources") { server in
            try await server.resources().map { resource in
                let name = resource.name == resource.uri ? "" : resource.name
                return (resource.uri, [name, resource.description, resource.isTemplate ? "a pattern" : ""])
            }
        }
    }

    /// A line for each prompt, with its arguments.
    func promptLines() async throws -> [String] {
        try await lines("prompts") { server in
            try await server.prompts().map { prompt in
                let arguments = prompt.arguments.map { $0.isRequired ? " \($0.name)=…" : " [\($0.name)=…]" }
                return (prompt.name + arguments.joined(), [prompt.description])
            }
        }
    }

    private func lines(
        _ what: String, _ list: (ChappieMCPServer) async throws -> [(name: String, words: [String])]
    ) async throws -> [String] {
        var lines: [String] = []
        for server in servers {
            do {
                let all = try await list(server)
                for (name, words) in all.prefix(Self.limit) {
                    let text = ([name] + words).filter { !$0.isEmpty }.joined(separator: " · ")
                    // The server wrote all of it.
                    if let line = UntrustedText.line("\(server.name):\(text)", limit: 500) ?? cut(text, server) {
                        lines.append(line)
                    }
                }
                if all.count > Self.limit { lines.append("… and \(all.count - Self.limit) more of \(server.name)") }
            } catch let error as ChappieMCPError {
                lines.append(error.errorDescription ?? "The tool server \(server.name) fails.")
            }
        }
        return lines.isEmpty ? ["No tool server has \(what) here."] : lines
    }

    /// A text that is too long for a line, or has what a terminal would obey.
    private func cut(_ text: String, _ server: ChappieMCPServer) -> String? {
        UntrustedText.message(text, limit: 400).map { "\(server.name):\($0)" }
    }
}
