import ChappieAuth
public import ChappieCrypto

/// Where the passphrase of an encrypted file comes from.
public struct ChappiePassphrase: Sendable {
    /// What tells two of them apart.
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

    /// A passphrase that the program has already.
    public init(_ text: String) { self.init(FixedPassphrase(Secret(text)), .text(text.hashValue)) }

    /// Any other source. Two values count as two sources: give session and client the same.
    public init(_ source: any PassphraseSource) {
        let held = Held(source: source)
        self.init(held, .source(ObjectIdentifier(held)))
    }

    /// The file at this path: the user's own, closed to others, 4 KiB at most. One line break at its end does not count.
    public static func file(_ path: String) -> ChappiePassphrase {
        ChappiePassphrase(PassphraseFile(path: path), .file(path))
    }

    /// The file that `CHAPPIE_PASSPHRASE_FILE` names, or the systemd credential `chappie-passphrase`, as the `chappie`
    /// program has it.
    public static let environment = ChappiePassphrase(
        FirstPassphrase([PassphraseFile(), SystemdPassphrase()]), .environment)

    /// Asks the user, once in the life of a store.
    ///
    /// - Parameter ask: gives the passphrase; `nil` when the user has none to give. `isNew`: the file is being made, and a
    ///   person should be asked twice. What it throws ends in `CredentialStoreError.noPassphrase(_:)`.
    public static func asking(
        _ ask: @escaping @Sendable (_ isNew: Bool) async throws -> String?
    ) -> ChappiePassphrase { ChappiePassphrase(Asked(ask: ask)) }

    private struct Asked: PassphraseSource {
        let ask: @Sendable (_ isNew: Bool) async throws -> String?

        func passphrase(for purpose: PassphrasePurpose) async throws(CredentialStoreError) -> Secret? {
            var isNew = false
            if case .creating = purpose { isNew = true }
            do { return try await ask(isNew).map { Secret($0) } } catch let error as CredentialStoreError {
                throw error
            } catch {
                throw .noPassphrase("asking for it was given up")
            }
        }
    }

    private final class Held: PassphraseSource {
        private let source: any PassphraseSource

        init(source: any PassphraseSource) { self.source = source }

        func passphrase(for purpose: PassphrasePurpose) async throws(CredentialStoreError) -> Secret? {
            try await source.passphrase(for: purpose)
        }
    }
}
