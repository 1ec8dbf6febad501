@_spi(ChappieInternals) public import ChappieAuth
import ChappieCore

/// A source of the passphrase of an ``EncryptedFileCredentialStore``: a file, systemd, a terminal.
///
/// A complete fake:
/// ```swift
/// struct Spoken: PassphraseSource {
///     func passphrase(for purpose: PassphrasePurpose) -> Secret? { Secret("open sesame") }
/// }
/// ```
public protocol PassphraseSource: Sendable {
    /// The passphrase, 1 byte or more; `nil` if this source is not set up here (which is not an error). A source that
    /// waits stops when the task is cancelled.
    ///
    /// - Parameter purpose: A source that asks the user shows it, and asks twice for a new passphrase.
    /// - Throws: ``CredentialStoreError/noPassphrase(_:)`` if the source is set up and has no passphrase, or the user
    ///   refused; ``CredentialStoreError/unsafeFile(_:remedy:)`` if other users could have read it.
    func passphrase(for purpose: PassphrasePurpose) async throws(CredentialStoreError) -> Secret?
}

/// The reason for which a passphrase is needed. The text is the path of the file, which the program may show to the
/// user.
public enum PassphrasePurpose: Sendable, Hashable {
    /// To open an existing file: the passphrase that it was made with.
    case opening(String)
    /// To make a file: any passphrase, which the user should type twice.
    case creating(String)
}

/// A passphrase that the program has already.
public struct FixedPassphrase: PassphraseSource {
    private let secret: Secret

    /// - Parameter secret: 1 byte or more.
    public init(_ secret: Secret) { self.secret = secret }

    /// The secret, for every purpose.
    public func passphrase(for purpose: PassphrasePurpose) -> Secret? { secret }
}

/// Asks several sources, one after the other, and takes the first that is set up.
public struct FirstPassphrase: PassphraseSource {
    private let sources: [any PassphraseSource]

    /// - Parameter sources: In the order in which they are asked.
    public init(_ sources: [any PassphraseSource]) { self.sources = sources }

    /// - Throws: The error of the first source that throws. The sources after it are not asked, since the user has to
    ///   know that a configured source does not work.
    public func passphrase(for purpose: PassphrasePurpose) async throws(CredentialStoreError) -> Secret? {
        for source in sources {
            if let secret = try await source.passphrase(for: purpose) { return secret }
        }
        return nil
    }
}

/// A passphrase from a file, 4 KiB at most. One line break at the end does not count.
///
/// The file is the user's own and closed to others. Or it is root's, and only root can change it: secrets of containers
/// are such files. Or it is a pipe of the user's or of root's, which a shell hands over as `/dev/fd/63`.
public struct PassphraseFile: PassphraseSource {
    /// The variable that names the file.
    public static let variable = "CHAPPIE_PASSPHRASE_FILE"
    static let limit = 4096
    private static let worker = StoreWorker(label: "chappie.passphrase")

    private let path: String?

    /// - Parameter path: Relative to the current folder, or absolute. A symbolic link is followed, and its target is
    ///   checked.
    public init(path: String) { self.path = path }

    /// The file that `CHAPPIE_PASSPHRASE_FILE` names. The source is not set up if the variable is missing or empty.
    ///
    /// - Parameter environment: Default `nil`: the process's.
    public init(environment: [String: String]? = nil) {
        let path = (environment ?? ProcessInfo.processInfo.environment)[Self.variable]
        self.path = path == "" ? nil : path
    }

    /// The passphrase in the file; `nil` if no file is named. The disk, or the writer of a pipe, has a minute to answer.
    public func passphrase(for purpose: PassphrasePurpose) async throws(CredentialStoreError) -> Secret? {
        guard let path else { return nil }
        return try await Self.read(path, as: .passphrase)
    }

    fileprivate static func read(
        _ path: String, as purpose: OpenFile.Purpose
    ) async throws(CredentialStoreError) -> Secret? {
        try await worker.perform(within: .seconds(60)) { _ throws(CredentialStoreError) in
            try OpenFile.passphrase(at: path, for: purpose, limit: limit)
        }
    }
}

/// A passphrase that systemd hands to a service: the file `chappie-passphrase` in `$CREDENTIALS_DIRECTORY`.
///
/// ```ini
/// [Service]
/// LoadCredentialEncrypted=chappie-passphrase:/etc/credstore.encrypted/chappie-passphrase
/// ```
/// As in ``PassphraseFile``, one line break at the end does not count. See systemd.exec(5), "Credentials":
/// <https://www.freedesktop.org/software/systemd/man/latest/systemd.exec.html#Credentials>
public struct SystemdPassphrase: PassphraseSource {
    /// The name that the credential must have.
    public static let name = "chappie-passphrase"

    private let directory: String?

    /// - Parameter environment: Default `nil`: the process's. The source is not set up if `CREDENTIALS_DIRECTORY` is
    ///   missing there, or the folder has no such file.
    public init(environment: [String: String]? = nil) {
        let directory = (environment ?? ProcessInfo.processInfo.environment)["CREDENTIALS_DIRECTORY"]
        self.directory = directory?.hasPrefix("/") == true ? directory : nil
    }

    /// The passphrase in the credential's file; `nil` if there is none.
    public func passphrase(for purpose: PassphrasePurpose) async throws(CredentialStoreError) -> Secret? {
        guard let directory else { return nil }
        return try await PassphraseFile.read(directory + "/" + Self.name, as: .systemdPassphrase)
    }
}
