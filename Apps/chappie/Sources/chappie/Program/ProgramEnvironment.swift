import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import FoundationEssentials
import Glibc

/// The environment variables with which the program was started.
struct ProgramEnvironment: Sendable {
    /// The name of the variable for an access token that is used instead of the stored sign-in.
    static let accessTokenVariable = "CHAPPIE_ACCESS_TOKEN"

    /// The access token from ``accessTokenVariable``. No other part of the program finds it in the environment.
    let accessToken: String?
    private let lookUp: @Sendable (String) -> String?

    init(accessToken: String? = nil, _ lookUp: @escaping @Sendable (String) -> String?) {
        self.accessToken = accessToken.flatMap { $0.trimmed.isEmpty ? nil : $0 }
        self.lookUp = lookUp
    }

    /// The environment of the process. The access token is removed, so that programs that this one starts do not
    /// receive it.
    static let process: ProgramEnvironment = {
        let accessToken = getenv(accessTokenVariable).map { String(cString: $0) }
        unsetenv(accessTokenVariable)
        return ProgramEnvironment(accessToken: accessToken) { name in getenv(name).map { String(cString: $0) } }
    }()

    /// The value of a variable. An empty value counts as unset. The values of this program's own variables are returned
    /// without surrounding white space, which settings files and `echo` add.
    subscript(name: String) -> String? {
        let value = name.hasPrefix("CHAPPIE_") ? lookUp(name)?.trimmed : lookUp(name)
        return value.flatMap { $0.isEmpty ? nil : $0 }
    }

    /// Whether the terminal has no cursor to move, as far as is known.
    var isTerminalPlain: Bool { ["dumb", "unknown"].contains(self["TERM"] ?? "dumb") }

    /// The folders of this user.
    var folders: UserFolders { UserFolders(xdg: { self[$0] }) }

    /// The folder of the kept threads of all accounts.
    var threadsFolder: ThreadsFolder { ThreadsFolder(path: folders.state.map { $0 + "/threads" }) }

    /// Returns one of the folders.
    ///
    /// - Parameter purpose: the purpose for the message.
    /// - Throws: ``CommandLineError`` if there is none.
    func folder(_ folder: KeyPath<UserFolders, String?>, for purpose: String) throws -> String {
        let folders = folders
        if let path = folders[keyPath: folder] { return path }
        let problem = folders.problem ?? .homeless
        throw CommandLineError.usage(
            "There is no folder for \(purpose): \(problem.reason).", suggestion: problem.remedy)
    }

    /// Returns the path or the command in a variable.
    ///
    /// - Throws: ``CommandLineError`` if it is not UTF-8.
    func path(_ name: String) throws -> String? {
        guard let path = self[name], path.isRepaired else { return self[name] }
        throw CommandLineError.usage("\(name) is not UTF-8.", suggestion: "Set \(name) to a path in UTF-8.")
    }
}

extension ProgramEnvironment {
    /// The lock that lets one process of this user at a time change the kept data.
    var lock: any CredentialLock & CredentialNotes { FileCredentialLock.userDefault { self[$0] } }
}
