@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieMCP
import ChappieSDK
import FoundationEssentials

/// The resources and prompts of tool servers. The user names them as `SERVER:ADDRESS` and `SERVER:NAME`.
struct ServerOffers: Sendable {
    let servers: [ChappieMCPServer]
    /// The command that signs in at each server, keyed by the server's name.
    let logins: [String: ToolSignInCommand]

    /// Returns the resource that an argument of `-f` names, as parts of a message. Returns `nil` for a file, a web
    /// address, and a name that does not belong to a server.
    ///
    /// - Throws: `ChappieMCPError`, or ``CommandLineError`` for an empty resource.
    func attachments(_ argument: String) async throws -> [ChappieInputMessage.Part]? {
        guard !["https:", "http:", "data:"].contains(where: argument.lowercased().hasPrefix),
            let (server, uri) = named(argument), !WholeFile.exists(argument)
        else { return nil }
        let contents = try await asking(server) { try await server.read(uri) }
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

    /// Returns the messages of the prompt `SERVER:NAME`.
    ///
    /// - Throws: `ChappieMCPError`, or ``CommandLineError`` if there is no such server.
    func prompt(_ argument: String, _ arguments: [String: String]) async throws -> [ChappieInputMessage] {
        guard let (server, name) = named(argument) else {
            let names = servers.map(\.name).joined(separator: ", ")
            throw CommandLineError.usage(
                "No tool server has the prompt \(argument.prefix(200)).",
                suggestion: servers.isEmpty
                    ? "Name a manifest with its server: --tools FILE." : "Write SERVER:NAME; there are: \(names).")
        }
        return try await asking(server) { try await server.prompt(name, arguments: arguments) }
    }

    /// Returns the prompt of a line `SERVER:NAME ARGUMENT=VALUE …`, in which quotes keep blanks.
    ///
    /// - Throws: the same errors as ``prompt(_:_:)``.
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

    /// Performs `work` and names the sign-in command in an error that a sign-in at the server resolves.
    private func asking<Answer>(_ server: ChappieMCPServer, _ work: () async throws -> Answer) async throws -> Answer {
        do {
            return try await work()
        } catch let error as ChappieMCPError {
            throw logins[server.name]?.naming(error) ?? error
        }
    }

    private func named(_ text: String) -> (ChappieMCPServer, String)? {
        guard let colon = text.firstIndex(of: ":"),
            let server = servers.first(where: { $0.name == text[..<colon] })
        else { return nil }
        return (server, String(text[colon...].dropFirst()))
    }

    // MARK: Lists

    /// The resources and prompts that servers offer to the user.
    enum Kind: String { case resources, prompts }

    /// The maximum number of entries of a server in a list.
    private static let limit = 100

    /// Returns a line for each resource or prompt, and a line about each server that fails.
    ///
    /// - Throws: `CancellationError`.
    func lines(_ kind: Kind) async throws -> [String] {
        var lines: [String] = []
        for server in servers {
            do {
                let all = try await entries(kind, of: server)
                lines += all.prefix(Self.limit).compactMap { entry in
                    let text = ([entry.name] + entry.words).filter { !$0.isEmpty }.joined(separator: " · ")
                    // The server wrote the entire text. Text that contains tokens or is too long for a line is cut.
                    return (UntrustedText.line(text, limit: 500) ?? UntrustedText.message(text, limit: 400))
                        .map { "\(server.name):\($0)" }
                }
                if all.count > Self.limit { lines.append("… and \(all.count - Self.limit) more of \(server.name)") }
            } catch let error as ChappieMCPError {
                lines.append(error.errorDescription ?? "The tool server \(server.name) fails.")
            }
        }
        return lines.isEmpty ? ["No tool server has \(kind.rawValue) here."] : lines
    }

    /// Returns the names for Tab. A server that fails has none.
    ///
    /// - Throws: `CancellationError` if a server takes too long. The next Tab asks again.
    func names(_ kind: Kind) async throws -> [String] {
        var names: [String] = []
        for server in servers {
            let all = (try? await entries(kind, of: server)) ?? []
            names += all.prefix(Self.limit).compactMap { entry in
                UntrustedText.line(entry.key, limit: 500).map { "\(server.name):\($0)" }
            }
        }
        try Task.checkCancellation()
        return names
    }

    /// Returns the entries of a server. Each has a key, which requests it, a name for the list, and a description.
    private func entries(
        _ kind: Kind, of server: ChappieMCPServer
    ) async throws -> [(key: String, name: String, words: [String])] {
        switch kind {
        case .resources:
            try await asking(server) { try await server.resources() }.map { resource in
                let name = resource.name == resource.uri ? "" : resource.name
                return (
                    resource.uri, resource.uri, [name, resource.description, resource.isTemplate ? "a pattern" : ""]
                )
            }
        case .prompts:
            try await asking(server) { try await server.prompts() }.map { prompt in
                let arguments = prompt.arguments.map { $0.isRequired ? " \($0.name)=…" : " [\($0.name)=…]" }
                return (prompt.name, prompt.name + arguments.joined(), [prompt.description])
            }
        }
    }
}
