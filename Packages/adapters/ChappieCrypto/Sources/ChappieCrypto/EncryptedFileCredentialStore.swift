@_spi(ChappieInternals) public import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import Synchronization

/// A store that keeps credentials in encrypted files, for machines without a keyring. Each slot has one file, encrypted
/// with AES-256-GCM. scrypt derives the key from a passphrase.
///
/// ```swift
/// let store = try EncryptedFileCredentialStore(
///     passphrase: FirstPassphrase([PassphraseFile(), SystemdPassphrase()]))
/// try await store.save(Secret(json), in: CredentialSlot(account: "work"))
/// ```
///
/// A program must choose this store explicitly. No other store falls back to it. A slot without a file is empty,
/// whatever the passphrase. The store then asks for no passphrase and derives no key.
///
/// **It refuses** (`unsafeFile`) a folder or file that belongs to another user, that others may read or write, that is
/// a symbolic link or otherwise of the wrong kind, or that has a second name. **It distinguishes** a wrong passphrase
/// (`wrongPassphrase`) from a file that is damaged, changed, or moved from another slot (`corrupt`). A save replaces a
/// corrupt file, but does not replace a file that the passphrase does not open. **It survives** a kill, a full disk and
/// a power failure: either the earlier credential or the new one is there. It does not order the changes of two
/// processes. ``CredentialLock`` does.
///
/// All blocking work runs on the store's own thread. A call whose task is cancelled throws
/// ``CredentialStoreError/failed(_:)`` at once. `CredentialFile` describes the format of a file, byte by byte.
public final class EncryptedFileCredentialStore: SharedCredentialStore {
    /// The folder that contains the files, without a slash at its end.
    public let directory: String

    private let source: any PassphraseSource
    private let knownPassphrase = Mutex<(secret: Secret, origin: String?)?>(nil)
    private let keepsKeys: Bool
    /// Whether the passphrase has opened or created a file.
    private let isProven = Mutex(false)
    /// A lock that orders the calls that need the passphrase. The first call asks for it, and the others wait.
    private let line = AsyncLock()
    private let sealer: CredentialSealer
    private let worker = StoreWorker(label: "chappie.encrypted-files")
    private let deadline: Duration

    /// Creates a store.
    ///
    /// - Parameters:
    ///   - directory: An absolute path. The default is `$XDG_DATA_HOME/chappie/credentials`, or
    ///     `~/.local/share/chappie/credentials` without that variable. On Apple's platforms, it is `credentials` in the
    ///     program's own folder of Application Support. The first save makes the folder and the folders above it,
    ///     accessible only to this user.
    ///   - passphrase: The source that is asked when the passphrase is first needed. The store keeps the passphrase in
    ///     a ``Secret`` as long as the store exists. All slots of a store share it.
    ///   - parameters: The parameters for new files, and for files with weaker parameters at their next save. A file is
    ///     read with the parameters that it was written with.
    ///   - keepsKeys: Whether a derived key is kept for other processes. Linux keeps it in the session keyring of the
    ///     kernel until it was not used for 15 minutes. In the meantime, the user's other processes of the same login
    ///     session can read it there, and a user whose terminal is the source is not asked again. A file that contains
    ///     the passphrase is recognized as long as it does not change. Default `false`.
    ///   - deadline: The limit for each of the two steps of a call that access the disk. Must be positive. The default
    ///     is 30 seconds. The wait for the passphrase does not count, since the user may have to type it.
    /// - Throws: ``CredentialStoreError/failed(_:)`` if `directory` is not an absolute path.
    ///   ``CredentialStoreError/unusableFolder(_:remedy:)`` if `directory` is `nil` and no home directory is known.
    public init(
        directory: String? = nil, passphrase: any PassphraseSource, parameters: ScryptParameters = .default,
        keepsKeys: Bool = false, deadline: Duration = .seconds(30)
    ) throws(CredentialStoreError) {
        precondition(deadline > .zero, "An encrypted file store needs a deadline above zero.")
        let environment = ProcessInfo.processInfo.environment
        let folders = UserFolders.ofPlatform { environment[$0] }
        guard let directory = directory ?? folders.data.map({ $0 + "/credentials" }) else {
            throw CredentialStoreError(folders.problem ?? .homeless, for: "the encrypted credential files")
        }
        guard directory.hasPrefix("/"), !directory.utf8.contains(0) else {
            throw .failed("the folder of the encrypted credential files needs an absolute path")
        }
        // With a slash at the end, the system would follow a symbolic link.
        self.directory = "/" + directory.split(separator: "/").joined(separator: "/")
        source = passphrase
        sealer = CredentialSealer(parameters: parameters)
        self.keepsKeys = keepsKeys
        self.deadline = deadline
    }

    /// Returns the secret in `slot`, or `nil` if its file is missing. A missing file requires no passphrase.
    ///
    /// - Throws: `wrongPassphrase`, `noPassphrase`, `corrupt`, `tooNew`, `unsafeFile`, `timedOut` or `failed`.
    public func load(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret? {
        let place = try CredentialPlace(slot, in: directory)
        guard let file = try await onDisk({ _ throws(CredentialStoreError) in try place.read() }) else { return nil }
        let opener = try await opener(of: file) { () throws(CredentialStoreError) in .opening(place.path) }
        return try await proving { [sealer] _ throws(CredentialStoreError) in
            try sealer.open(file, at: place, with: opener)
        }
    }

    /// Replaces the secret in `slot`. A secret has at most 1 MiB.
    ///
    /// The secret is encrypted with a new nonce and read back before it replaces the earlier one. The file keeps its
    /// key unless the key's parameters are weaker than the current ones. In that case the store derives a new key with
    /// a new salt. A new file gets the key of another file with this passphrase, if there is one.
    ///
    /// - Throws: `wrongPassphrase`, `noPassphrase`, `tooNew`, `unsafeFile`, `notVerified`, `timedOut` or `failed`. The
    ///   earlier secret is then still there. After `timedOut`, or after a late cancellation, the new secret may be there
    ///   instead.
    public func save(_ secret: Secret, in slot: CredentialSlot) async throws(CredentialStoreError) {
        let place = try CredentialPlace(slot, in: directory)
        let opener = try await openerToSave(at: place)
        try await proving { [sealer] call throws(CredentialStoreError) in
            let earlier = try place.readUnlessCorrupt()
            let file = try sealer.seal(
                secret, for: place, replacing: earlier, nextTo: earlier == nil ? place.neighbour() : nil,
                with: opener)
            try place.write(file, isWanted: { !call.isOver }) { file throws(CredentialStoreError) in
                try sealer.open(file, at: place, with: opener) == secret
            }
        }
    }

    /// Checks that a save can succeed: the folder is there, is safe and accepts a file, and the passphrase opens an
    /// existing file. Asks for the passphrase if it is not known yet.
    ///
    /// - Throws: `wrongPassphrase`, `noPassphrase`, `tooNew`, `unsafeFile`, `timedOut` or `failed`.
    public func prepareToSave(in slot: CredentialSlot) async throws(CredentialStoreError) {
        let place = try CredentialPlace(slot, in: directory)
        try await onDisk { _ throws(CredentialStoreError) in try place.prepare() }
        let opener = try await openerToSave(at: place)
        try await proving { [sealer] _ throws(CredentialStoreError) in
            do throws(CredentialStoreError) {
                if let earlier = try place.read() { _ = try sealer.open(earlier, at: place, with: opener) }
            } catch .corrupt {}
        }
    }

    /// Removes the file of `slot`, whatever its content, and the files that killed writers left. No passphrase is
    /// needed. If a symbolic link has the file's name, the link is removed and not followed.
    ///
    /// - Throws: `unsafeFile` if the folder is unsafe, `timedOut` or `failed`.
    public func delete(_ slot: CredentialSlot) async throws(CredentialStoreError) {
        let place = try CredentialPlace(slot, in: directory)
        try await onDisk { _ throws(CredentialStoreError) in try place.remove() }
    }

    /// Forgets the passphrase and the key derived from it. The next call that needs them asks again. Call this after a
    /// wrong passphrase, or when the user locks the screen.
    public func forgetPassphrase() {
        knownPassphrase.withLock { $0 = nil }
        isProven.withLock { $0 = false }
        sealer.forgetKey()
    }

    /// Drops the keys that are kept in this login session, of all stores. The next command derives its key again.
    ///
    /// - Returns: Whether there were any.
    @discardableResult
    public static func dropKeptKeys() -> Bool { KeptKeys.dropAll() }

    /// The lock for this store's credentials. Its files are in the same folder, so that all processes that share a
    /// credential share the lock, whatever else differs in their environments.
    public var lock: any CredentialLock { FileCredentialLock(directory: directory) }

    /// The notes on the credentials, stored in files in the same folder.
    public var notes: any CredentialNotes { FileCredentialLock(directory: directory) }

    /// Returns the path of the file for `slot`, which need not exist. The file's name does not reveal the account.
    ///
    /// - Throws: ``CredentialStoreError/failed(_:)`` if the crypto library fails.
    public func path(of slot: CredentialSlot) throws(CredentialStoreError) -> String {
        try CredentialPlace(slot, in: directory).path
    }

    private func onDisk<Output: Sendable>(
        _ work: @escaping @Sendable (StoreCall) throws(CredentialStoreError) -> Output
    ) async throws(CredentialStoreError) -> Output {
        try await worker.perform(within: deadline, work)
    }

    /// Runs work that needs the passphrase. The store keeps a passphrase after it has opened or created a file. If the
    /// passphrase is wrong before that, the next call asks again, because the user may have mistyped it.
    private func proving<Output: Sendable>(
        _ work: @escaping @Sendable (StoreCall) throws(CredentialStoreError) -> Output
    ) async throws(CredentialStoreError) -> Output {
        do throws(CredentialStoreError) {
            let output = try await onDisk(work)
            isProven.withLock { $0 = true }
            if keepsKeys, let origin = knownPassphrase.withLock({ $0?.origin }) { sealer.keepKey(from: origin) }
            return output
        } catch {
            if case .wrongPassphrase = error, !isProven.withLock(\.self) { forgetPassphrase() }
            throw error
        }
    }

    /// Returns the kept key of a file, or else the passphrase.
    private func opener(
        of file: CredentialFile?, _ purpose: () async throws(CredentialStoreError) -> PassphrasePurpose
    ) async throws(CredentialStoreError) -> CredentialSealer.Opener {
        if let file, let origin, let key = sealer.keptKey(of: file, from: origin) { return .key(key) }
        return .passphrase(try await passphrase(purpose))
    }

    /// Returns what a save needs, which may create the file.
    private func openerToSave(at place: CredentialPlace) async throws(CredentialStoreError) -> CredentialSealer.Opener {
        let (earlier, neighbour) = try await onDisk { _ throws(CredentialStoreError) in
            let earlier = try place.readUnlessCorrupt()
            return (earlier, earlier == nil ? place.neighbour() : nil)
        }
        return try await opener(of: earlier ?? neighbour) { () throws(CredentialStoreError) in
            earlier == nil ? .creating(place.path) : .opening(place.path)
        }
    }

    /// The origin of the passphrase, or `nil` if no key is kept for it.
    private var origin: String? {
        guard keepsKeys, case .known(let origin)? = (source as? any TraceablePassphraseSource)?.origin() else {
            return nil
        }
        return origin
    }

    /// Returns the passphrase. Asks the source unless the passphrase is known. Other calls wait in the meantime and
    /// don't ask again. A failure is not remembered.
    ///
    /// - Throws: The errors of the source and of `purpose`, `noPassphrase` if there is none, and `failed` if the task
    ///   is cancelled.
    private func passphrase(
        _ purpose: () async throws(CredentialStoreError) -> PassphrasePurpose
    ) async throws(CredentialStoreError) -> Secret {
        let ticket = line.reserve()
        defer { line.leave(ticket) }
        guard (try? await line.enter(ticket)) != nil else { throw .cancelled }
        if let known = knownPassphrase.withLock({ $0?.secret }) { return known }
        // A file that changes after this is recognized as another one.
        let origin = origin
        do throws(CredentialStoreError) {
            guard let secret = try await source.passphrase(for: purpose()) else {
                throw .noPassphrase("no source for it is set up")
            }
            guard !secret.isEmpty else { throw .noPassphrase("the passphrase is empty") }
            knownPassphrase.withLock { $0 = (secret, origin) }
            return secret
        } catch {
            throw Task.isCancelled ? .cancelled : error
        }
    }
}
