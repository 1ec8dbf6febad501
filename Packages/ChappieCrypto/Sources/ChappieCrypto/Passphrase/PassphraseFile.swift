public import ChappieAuth
import FoundationEssentials

/// A passphrase from a file: regular, the user's own, for nobody else, 4 KiB at most. One line break at the end does not
/// count.
public struct PassphraseFile: PassphraseSource {
    /// The variable that names the file.
    public static let variable = "CHAPPIE_PASSPHRASE_FILE"

    private let path: String?

    /// - Parameter path: Relative to the current folder, or absolute. A symbolic link is followed; what it leads to is
    ///   checked.
    public init(path: String) { self.path = path }

    /// The file that `CHAPPIE_PASSPHRASE_FILE` names; not set up when the variable is not set or empty.
    ///
    /// - Parameter environment: Default `nil`: the process's.
    public init(environment: [String: String]? = nil) {
        let environment = environment ?? ProcessInfo.processInfo.environment
        path = environment[Self.variable].flatMap { $0.isEmpty ? nil : $0 }
    }

    public func passphrase(for purpose: PassphrasePurpose) async throws(CredentialStoreError) -> Secret? {
        guard let path else { return nil }
        return try await PassphraseReader.read(path) { status, path throws(CredentialStoreError) in
            try FileSafety.check(passphraseFile: status, path: path)
        }
    }
}
