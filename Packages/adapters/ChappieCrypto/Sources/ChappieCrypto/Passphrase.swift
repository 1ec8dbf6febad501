@_spi(ChappieInternals) public import ChappieAuth
import ChappieCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A source of the passphrase of an ``EncryptedFileCredentialStore``, such as a file, systemd or a terminal.
///
/// A complete fake:
/// ```swift
/// struct Spoken: PassphraseSource {
///     func passphrase(for purpose: PassphrasePurpose) -> Secret? { Secret("open sesame") }
/// }
/// ```
public protocol PassphraseSource: Sendable {
    /// Returns the passphrase, which has 1 byte or more, or `nil` if this source is not set up here, which is not an
    /// error. A source that waits must stop when the task is cancelled.
    ///
    /// - Parameter purpose: The purpose of the passphrase. A source that asks the user shows it, and asks twice for a
    ///   new passphrase.
    /// - Throws: ``CredentialStoreError/noPassphrase(_:)`` if the source is set up and has no passphrase, or if the
    ///   user refused. ``CredentialStoreError/unsafeFile(_:remedy:)`` if other users could have read it.
    func passphrase(for purpose: PassphrasePurpose) async throws(CredentialStoreError) -> Secret?
}

/// The reason for which a passphrase is needed. The associated value is the path of the file, which the program may
/// show to the user.
public enum PassphrasePurpose: Sendable, Hashable {
    /// Opening an existing file, which requires the passphrase that the file was created with.
    case opening(String)
    /// Creating a file with any passphrase, which the user should type twice.
    case creating(String)
}

/// A passphrase that the program already has.
public struct FixedPassphrase: PassphraseSource {
    private let secret: Secret

    /// Creates a source that returns `secret`.
    ///
    /// - Parameter secret: The passphrase, which has 1 byte or more.
    public init(_ secret: Secret) { self.secret = secret }

    /// Returns the secret for every purpose.
    public func passphrase(for purpose: PassphrasePurpose) -> Secret? { secret }
}

/// A source that asks several sources one after the other and uses the first that is set up.
public struct FirstPassphrase: PassphraseSource {
    private let sources: [any PassphraseSource]

    /// Creates a source that asks `sources`.
    ///
    /// - Parameter sources: The sources, in the order in which they are asked.
    public init(_ sources: [any PassphraseSource]) { self.sources = sources }

    /// Returns the passphrase of the first source that is set up, or `nil` if none is.
    ///
    /// - Throws: The error of the first source that throws. The sources after it are not asked, since the user must
    ///   learn that a configured source does not work.
    public func passphrase(for purpose: PassphrasePurpose) async throws(CredentialStoreError) -> Secret? {
        for source in sources {
            if let secret = try await source.passphrase(for: purpose) { return secret }
        }
        return nil
    }
}

/// A passphrase from a file of at most 4 KiB. One line break at the end does not count.
///
/// The file must belong to the user and be inaccessible to others. Alternatively, it may be a file that belongs to root
/// and that only root can change, as secrets of containers do, or a pipe that belongs to the user or root, which a
/// shell passes as `/dev/fd/63`.
public struct PassphraseFile: PassphraseSource {
    /// The environment variable that names the file.
    public static let variable = "CHAPPIE_PASSPHRASE_FILE"
    static let limit = 4096
    private static let worker = StoreWorker(label: "chappie.passphrase")

    private let path: String?

    /// Creates a source that reads the file at `path`.
    ///
    /// - Parameter path: An absolute path, or a path relative to the current folder. A symbolic link is followed, and
    ///   its target is checked.
    public init(path: String) { self.path = path }

    /// Creates a source that reads the file that `CHAPPIE_PASSPHRASE_FILE` names. The source is not set up if the
    /// variable is missing or empty.
    ///
    /// - Parameter environment: The environment. If it is `nil`, which is the default, the process's environment is
    ///   used.
    public init(environment: [String: String]? = nil) {
        let path = (environment ?? ProcessInfo.processInfo.environment)[Self.variable]
        self.path = path == "" ? nil : path
    }

    /// Reads the passphrase in the file. Returns `nil` if no file is named. The disk, or the writer of a pipe, must
    /// answer within a minute.
    public func passphrase(for purpose: PassphrasePurpose) async throws(CredentialStoreError) -> Secret? {
        guard let path else { return nil }
        return try await Self.read(path, as: .passphrase)
    }

    fileprivate static func read(
        _ path: String, as purpose: SafeFile.Purpose
    ) async throws(CredentialStoreError) -> Secret? {
        try await worker.perform(within: .seconds(60)) { _ throws(CredentialStoreError) in
            try SafeFile.passphrase(at: path, for: purpose, limit: limit)
        }
    }
}

/// A passphrase that systemd passes to a service in the file `chappie-passphrase` in `$CREDENTIALS_DIRECTORY`.
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

    /// Creates a source that reads the credential from the folder that `CREDENTIALS_DIRECTORY` names. The source is not
    /// set up if the variable is missing or the folder has no such file.
    ///
    /// - Parameter environment: The environment. If it is `nil`, which is the default, the process's environment is
    ///   used.
    public init(environment: [String: String]? = nil) {
        let directory = (environment ?? ProcessInfo.processInfo.environment)["CREDENTIALS_DIRECTORY"]
        self.directory = directory?.hasPrefix("/") == true ? directory : nil
    }

    /// Reads the passphrase in the credential's file. Returns `nil` if there is none.
    public func passphrase(for purpose: PassphrasePurpose) async throws(CredentialStoreError) -> Secret? {
        guard let directory else { return nil }
        return try await PassphraseFile.read(directory + "/" + Self.name, as: .systemdPassphrase)
    }
}

// MARK: Origins

/// A source whose passphrase can be recognized without being read again. Keys that were derived from it can be kept.
@_spi(ChappieInternals) public protocol TraceablePassphraseSource: PassphraseSource {
    /// Returns the origin of the passphrase.
    func origin() -> PassphraseOrigin
}

/// The origin of a passphrase.
@_spi(ChappieInternals) public enum PassphraseOrigin: Sendable, Hashable {
    /// The source is not set up.
    case missing
    /// The passphrase may differ the next time.
    case unknown
    /// The passphrase is the same as long as this text is.
    case known(String)
}

@_spi(ChappieInternals) extension FirstPassphrase: TraceablePassphraseSource {
    /// Returns the origin of the first source that is set up.
    public func origin() -> PassphraseOrigin {
        let origins = sources.lazy.map { ($0 as? any TraceablePassphraseSource)?.origin() ?? .unknown }
        return origins.first { $0 != .missing } ?? .missing
    }
}

@_spi(ChappieInternals) extension PassphraseFile: TraceablePassphraseSource {
    /// Returns the identity of the file and of its last change.
    public func origin() -> PassphraseOrigin {
        path.map { Self.origin(of: $0) } ?? .missing
    }

    fileprivate static func origin(of path: String) -> PassphraseOrigin {
        var status = stat()
        guard stat(path, &status) == 0 else { return .unknown }
        // A pipe delivers another passphrase each time.
        guard status.st_mode & S_IFMT == S_IFREG else { return .unknown }
        #if canImport(Darwin)
            let changed = status.st_ctimespec
        #else
            let changed = status.st_ctim
        #endif
        return .known(
            "\(status.st_dev) \(status.st_ino) \(status.st_size) \(changed.tv_sec).\(changed.tv_nsec)")
    }
}

@_spi(ChappieInternals) extension SystemdPassphrase: TraceablePassphraseSource {
    /// Returns the identity of the credential's file and of its last change.
    public func origin() -> PassphraseOrigin {
        guard let path = directory.map({ $0 + "/" + Self.name }), access(path, F_OK) == 0 else { return .missing }
        return PassphraseFile.origin(of: path)
    }
}
