public import ChappieAuth
import FoundationEssentials

/// A passphrase that systemd hands to a service: the file `chappie-passphrase` in `$CREDENTIALS_DIRECTORY`.
///
/// ```ini
/// [Service]
/// LoadCredentialEncrypted=chappie-passphrase:/etc/credstore.encrypted/chappie-passphrase
/// ```
/// 4 KiB at most; one line break at the end does not count. See systemd.exec(5), "Credentials":
/// <https://www.freedesktop.org/software/systemd/man/latest/systemd.exec.html#Credentials>
public struct SystemdPassphrase: PassphraseSource {
    /// What systemd has to call it.
    public static let name = "chappie-passphrase"

    private let directory: String?

    /// - Parameter environment: Default `nil`: the process's. Not set up when `CREDENTIALS_DIRECTORY` is missing in it, or the folder has no such
    ///   file: a service may have other credentials.
    public init(environment: [String: String]? = nil) {
        let environment = environment ?? ProcessInfo.processInfo.environment
        directory = environment["CREDENTIALS_DIRECTORY"].flatMap { $0.hasPrefix("/") ? $0 : nil }
    }

    public func passphrase(for purpose: PassphrasePurpose) async throws(CredentialStoreError) -> Secret? {
        guard let directory else { return nil }
        return try await PassphraseReader.read(directory + "/" + Self.name, mayBeMissing: true) {
            status, path throws(CredentialStoreError) in
            try FileSafety.check(systemdCredential: status, path: path)
        }
    }
}
