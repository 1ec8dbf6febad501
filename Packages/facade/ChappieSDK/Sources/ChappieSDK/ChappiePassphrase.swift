import ChappieAuth
public import ChappieCrypto

/// The source of the passphrase of an encrypted file.
public struct ChappiePassphrase: Sendable {
    /// The identity of a passphrase. Two passphrases with equal identities are the same.
    enum Identity: Hashable, Sendable {
        /// A hash, so that the text is not kept twice.
        case text(Int)
        case file(String)
        case environment
        case source(ObjectIdentifier)
    }

    let source: any PassphraseSource
    let identity: Identity

    private init(_ source: any PassphraseSource, _ identity: Identity) {
        self.source = source
        self.identity = identity
    }

    /// Creates a source for a passphrase that the program already has.
    public init(_ text: String) { self.init(FixedPassphrase(Secret(text)), .text(text.hashValue)) }

    /// Wraps any other source. Two values count as two sources, so give the session and the client the same value.
    public init(_ source: any PassphraseSource) {
        let held = SharedSource(source: source)
        self.init(held, .source(ObjectIdentifier(held)))
    }

    /// Reads the passphrase from the file at this path. The file must belong to the user, be closed to other users, and
    /// have at most 4 KiB. One line break at its end does not count.
    public static func file(_ path: String) -> ChappiePassphrase {
        ChappiePassphrase(PassphraseFile(path: path), .file(path))
    }

    /// The file that `CHAPPIE_PASSPHRASE_FILE` names, or the systemd credential `chappie-passphrase`, as in the program
    /// `chappie`.
    public static let environment = ChappiePassphrase(
        FirstPassphrase([PassphraseFile(), SystemdPassphrase()]), .environment)

    /// Asks the user, once in the life of a store.
    ///
    /// - Parameter ask: Returns the passphrase, or `nil` if the user gives none. If `isNew` is `true`, the file is
    ///   being created, so ask the user twice. Errors of this closure become `CredentialStoreError.noPassphrase(_:)`.
    public static func asking(
        _ ask: @escaping @Sendable (_ isNew: Bool) async throws -> String?
    ) -> ChappiePassphrase { ChappiePassphrase(Asked(ask: ask)) }

    private struct Asked: PassphraseSource {
        let ask: @Sendable (_ isNew: Bool) async throws -> String?

        func passphrase(for purpose: PassphrasePurpose) async throws(CredentialStoreError) -> Secret? {
            var isNew = false
            if case .creating = purpose { isNew = true }
            do {
                return try await ask(isNew).map { Secret($0) }
            } catch let error as CredentialStoreError {
                throw error
            } catch {
                throw .noPassphrase("the question for it failed")
            }
        }
    }

    private final class SharedSource: PassphraseSource {
        private let source: any PassphraseSource

        init(source: any PassphraseSource) { self.source = source }

        func passphrase(for purpose: PassphrasePurpose) async throws(CredentialStoreError) -> Secret? {
            try await source.passphrase(for: purpose)
        }
    }
}
