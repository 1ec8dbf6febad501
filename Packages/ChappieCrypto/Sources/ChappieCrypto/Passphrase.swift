@_spi(ChappieInternals) public import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Where the passphrase of an ``EncryptedFileCredentialStore`` comes from: a file, systemd, a terminal.
///
/// A complete fake:
/// ```swift
/// struct Spoken: PassphraseSource {
///     func passphrase(for purpose: PassphrasePurpose) -> Secret? { Secret("open sesame") }
/// }
/// ```
public protocol PassphraseSource: Sendable {
    /// The passphrase, 1 byte or more; `nil` when this source is not set up here (which is not an error).
    ///
    /// - Parameter purpose: A source that asks a person says it, and asks twice for a new passphrase.
    /// - Throws: ``CredentialStoreError/noPassphrase(_:)`` when the source is set up and has none to give, or the user
    ///   refused; ``CredentialStoreError/unsafeFile(_:remedy:)`` when others could have read it.
    func passphrase(for purpose: PassphrasePurpose) async throws(CredentialStoreError) -> Secret?
}

/// The reason for which a passphrase is wanted. The text is the path of the file, which a person may be shown.
public enum PassphrasePurpose: Sendable, Hashable {
    /// To open an existing file: the passphrase that it was made with.
    case opening(String)
    /// To make a file: any passphrase, which a person should be asked for twice.
    case creating(String)
}

/// A passphrase that the program has already.
public struct FixedPassphrase: PassphraseSource {
    private let secret: Secret

    /// - Parameter secret: 1 byte or more.
    public init(_ secret: Secret) { self.secret = secret }

    /// The secret, whatever it is for.
    public func passphrase(for purpose: PassphrasePurpose) -> Secret? { secret }
}

/// Asks several sources, one after the other, and takes the first that is set up.
///
/// ```swift
/// let source = FirstPassphrase([PassphraseFile(), SystemdPassphrase()])
/// ```
public struct FirstPassphrase: PassphraseSource {
    private let sources: [any PassphraseSource]

    /// - Parameter sources: In the order in which they are asked.
    public init(_ sources: [any PassphraseSource]) { self.sources = sources }

    /// - Throws: The error of the first source that throws; those after it are not asked, since a person has to know
    ///   that a source which is set up does not work.
    public func passphrase(for purpose: PassphrasePurpose) async throws(CredentialStoreError) -> Secret? {
        for source in sources {
            if let secret = try await source.passphrase(for: purpose) { return secret }
        }
        return nil
    }
}

/// A passphrase from a file: regular, the user's own, closed to others, 4 KiB at most. One line break at the end does
/// not count.
public struct PassphraseFile: PassphraseSource {
    /// The variable that names the file.
    public static let variable = "CHAPPIE_PASSPHRASE_FILE"
    static let limit = 4096
    private static let worker = StoreWorker(label: "chappie.passphrase")

    private let path: String?

    /// - Parameter path: Relative to the current folder, or absolute. A symbolic link is followed; its target is
    ///   checked.
    public init(path: String) { self.path = path }

    /// The file that `CHAPPIE_PASSPHRASE_FILE` names; not set up when the variable is not set or empty.
    ///
    /// - Parameter environment: Default `nil`: the process's.
    public init(environment: [String: String]? = nil) {
        let environment = environment ?? ProcessInfo.processInfo.environment
        path = environment[Self.variable].flatMap { $0.isEmpty ? nil : $0 }
    }

    /// The passphrase in the file; `nil` when no file is named. The disk has 10 seconds to answer.
    public func passphrase(for purpose: PassphrasePurpose) async throws(CredentialStoreError) -> Secret? {
        guard let path else { return nil }
        return try await Self.read(path, as: .passphrase)
    }

    fileprivate static func read(
        _ path: String, as purpose: FileSafety.Purpose
    ) async throws(CredentialStoreError) -> Secret? {
        try await worker.perform(within: .seconds(10)) { _ throws(CredentialStoreError) in
            guard !path.utf8.contains(0) else { throw .noPassphrase("the path of its file has a NUL character") }
            guard let file = OpenFile(path, flags: O_RDONLY | O_NONBLOCK | O_NOCTTY) else {
                // A service of systemd's may have other credentials.
                if purpose == .systemdPassphrase, errno == ENOENT { return nil }
                throw .noPassphrase("\(path) can't be opened: \(String(cString: strerror(errno)))")
            }
            try FileSafety.check(file.status(), for: purpose, path: path)
            var bytes = try file.readAll(limit: limit)
            defer { Libcrypto.wipe(&bytes) }
            guard bytes.count <= limit else { throw .noPassphrase("\(path) holds more than \(limit) bytes") }
            // Editors and `echo` leave a line break at the end.
            var line = bytes[...]
            if line.last == UInt8(ascii: "\n") {
                line.removeLast()
                if line.last == UInt8(ascii: "\r") { line.removeLast() }
            }
            guard !line.isEmpty else { throw .noPassphrase("\(path) is empty") }
            return Secret(Array(line))
        }
    }
}

/// A passphrase that systemd hands to a service: the file `chappie-passphrase` in `$CREDENTIALS_DIRECTORY`.
///
/// ```ini
/// [Service]
/// LoadCredentialEncrypted=chappie-passphrase:/etc/credstore.encrypted/chappie-passphrase
/// ```
/// 4 KiB at most; one line break at the end does not count. See systemd.exec(5), "Credentials":
/// <https://www.freedesktop.org/software/systemd/man/latest/systemd.exec.html#Credentials>
public struct SystemdPassphrase: PassphraseSource {
    /// The name that the credential has to have.
    public static let name = "chappie-passphrase"

    private let directory: String?

    /// - Parameter environment: Default `nil`: the process's. Not set up when `CREDENTIALS_DIRECTORY` is missing in it,
    ///   or the folder has no such file.
    public init(environment: [String: String]? = nil) {
        let environment = environment ?? ProcessInfo.processInfo.environment
        directory = environment["CREDENTIALS_DIRECTORY"].flatMap { $0.hasPrefix("/") ? $0 : nil }
    }

    /// The passphrase in the credential's file; `nil` when there is none.
    public func passphrase(for purpose: PassphrasePurpose) async throws(CredentialStoreError) -> Secret? {
        guard let directory else { return nil }
        return try await PassphraseFile.read(directory + "/" + Self.name, as: .systemdPassphrase)
    }
}

/// Asks a source once, for all that wait at the same time and all that come later, and keeps the answer.
final class PassphraseMemory: Sendable {
    private struct State {
        var answer: Promise<Secret>?
        var asking: Task<Void, Never>?
        var waiting = 0
    }

    private let source: any PassphraseSource
    private let state = Mutex(State())

    init(_ source: any PassphraseSource) { self.source = source }

    var isKnown: Bool { state.withLock { $0.answer?.isFulfilled == true } }

    /// The passphrase. A failure is not remembered; a question that nothing waits for any more is cancelled.
    ///
    /// - Throws: The source's errors; `noPassphrase` when it has none; `failed` when the task is cancelled.
    func passphrase(for purpose: PassphrasePurpose) async throws(CredentialStoreError) -> Secret {
        let answer = join(purpose)
        defer { leave(answer) }
        do { return try await answer.value() } catch { throw error as? CredentialStoreError ?? .cancelled }
    }

    /// The next call that needs it asks again.
    func forget() { state.withLock { $0 = State() } }

    private func join(_ purpose: PassphrasePurpose) -> Promise<Secret> {
        state.withLock { state in
            state.waiting += 1
            if let answer = state.answer { return answer }
            let answer = Promise<Secret>()
            state.answer = answer
            state.asking = Task { await ask(purpose, answer) }
            return answer
        }
    }

    private func ask(_ purpose: PassphrasePurpose, _ answer: Promise<Secret>) async {
        do throws(CredentialStoreError) {
            guard let secret = try await source.passphrase(for: purpose) else {
                throw .noPassphrase("no source of one is set up")
            }
            guard !secret.isEmpty else { throw .noPassphrase("the given one is empty") }
            answer.fulfil(.success(secret))
        } catch {
            state.withLock { if $0.answer === answer { $0 = State() } }
            answer.fulfil(.failure(error))
        }
    }

    private func leave(_ answer: Promise<Secret>) {
        state.withLock { state in
            guard state.answer === answer else { return }
            state.waiting -= 1
            guard state.waiting == 0, !answer.isFulfilled else { return }
            state.asking?.cancel()
            state = State()
        }
    }
}
