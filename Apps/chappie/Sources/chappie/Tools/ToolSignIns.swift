import ChappieAuth
import ChappieCore
import ChappieMCP
import ChappieProgramTools
import ChappieSDK

/// The user's sign-ins at remote tool servers. Each server has a separate place in the store.
struct ToolSignIns: Sendable {
    let account: String
    let store: any SharedCredentialStore
    let transport: any HTTPTransport
    /// The manifests that the settings name. A command does not need to name them.
    let usualManifests: [String]
    /// The account, if the command line has named it.
    let namedAccount: String?

    /// Returns the sign-in at `server`, or `nil` for a program and for a server whose manifest has a token.
    func authorization(at server: ChappieToolManifest.Server) -> ChappieMCPAuthorization? {
        guard let url = server.url, !server.headers.keys.contains(where: { $0.lowercased() == "authorization" }) else {
            return nil
        }
        return ChappieMCPAuthorization(
            server: url, name: server.name, account: account, clientID: server.clientID, scopes: server.scopes,
            store: store, transport: transport)
    }

    /// Returns the command that signs in at the server with that name in `manifest`.
    func command(signingInAt server: String, in manifest: String) -> ToolSignInCommand {
        var words = ["chappie", "tools", "login", server]
        if !usualManifests.contains(manifest) { words += ["--tools", manifest] }
        if let namedAccount { words += ["--account", namedAccount] }
        return ToolSignInCommand(text: words.map(\.quotedForShell).joined(separator: " "))
    }
}

/// The command that signs in at a tool server.
struct ToolSignInCommand: Sendable {
    let text: String

    /// Returns the same error. If a sign-in resolves it, the error names the command.
    func naming(_ error: ChappieMCPError) -> ChappieMCPError {
        let advice: String
        switch error.code {
        case .signInNeeded: advice = "run `\(text)`"
        case .permissionNeeded: advice = "run `\(text) --scope …` with their names"
        default: return error
        }
        return ChappieMCPError(
            error.code, server: error.server, reason: "\(error.reason); \(advice)", lastWords: error.lastWords)
    }
}

extension String {
    /// The text as one argument of a shell command.
    fileprivate var quotedForShell: String {
        let isPlain = !isEmpty && allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "/._-".contains($0)) }
        return isPlain ? self : "'\(replacing("'", with: "'\\''"))'"
    }
}
