public import ChappieAuth

/// Credentials in encrypted files, for machines without a keyring: one file for each slot, AES-256-GCM, the key made from
/// a passphrase by scrypt.
///
/// ```swift
/// let store = try EncryptedFileCredentialStore(
///     passphrase: FirstPassphrase([PassphraseFile(), SystemdPassphrase()]))
/// try await store.save(Secret(json), in: CredentialSlot(account: "work"))
/// ```
///
/// It is chosen, never fallen back to. Nothing is asked and nothing is derived while there is nothing to open: a slot
/// without a file is empty, whatever the passphrase.
///
/// **What it refuses** (``CredentialStoreError/unsafeFile(_:remedy:)``): a folder or file that belongs to another user,
/// that others may read or write, that is a symbolic link or otherwise not what it should be, or that has a second name.
///
/// **What it tells apart**: a wrong passphrase (``CredentialStoreError/wrongPassphrase(_:)``) from a damaged file, one
/// that was changed, and one that was moved from another slot (``CredentialStoreError/corrupt(_:)``). None of these
/// changes anything on the disk. A save replaces a corrupt file, and refuses to replace one that the passphrase does not
/// open; ``delete(_:)`` needs no passphrase.
///
/// **What it survives**: being killed, a full disk, a power cut. The earlier credential or the new one is there, never
/// neither; see ``save(_:in:)``. It does not order the changes of two processes: that is ``CredentialLock``'s part.
///
/// All blocking work is done on a thread of the store's own. A call whose task is cancelled throws at once.
///
/// The form of a file is described, byte by byte, at `CredentialFile`.
public final class EncryptedFileCredentialStore: CredentialStore {
    /// The folder that holds the files; without a slash at its end.
    public let directory: String

    private let memory: PassphraseMemory
    private let sealer: CredentialSealer
    private let lane: BlockingLane

    /// - Parameters:
    ///   - directory: An absolute path. Default ``defaultDirectory``. Made for this user alone, with those above it, at
    ///     the first save.
    ///   - passphrase: Asked when it is first needed; its answer is kept, in a ``Secret``, as long as the store. All
    ///     slots of a store share it.
    ///   - parameters: For new files, and for those with weaker ones at their next save. Files are read with the
    ///     parameters that they were written with.
    ///   - deadline: How long each of the two steps of a call may take that touch the disk. Must be positive. Default
    ///     30 seconds. Waiting for the passphrase does not count, since that may be a person.
    /// - Throws: ``CredentialStoreError/failed(_:)`` when `directory` is not an absolute path, or is not given and there
    ///   is no home directory.
    public init(
        directory: String? = nil, passphrase: any PassphraseSource, parameters: ScryptParameters = .default,
        deadline: Duration = .seconds(30)
    ) throws(CredentialStoreError) {
        precondition(deadline > .zero, "An encrypted file store needs a deadline above zero.")
        guard let directory = directory ?? Self.defaultDirectory else {
            throw .failed("there is no home directory for the encrypted credential files")
        }
        guard directory.hasPrefix("/"), !directory.utf8.contains(0) else {
            throw .failed("the folder of the encrypted credential files needs an absolute path")
        }
        self.directory = "/" + directory.split(separator: "/").joined(separator: "/")
        memory = PassphraseMemory(passphrase)
        sealer = CredentialSealer(parameters: parameters, ring: KeyRing())
        lane = BlockingLane(label: "chappie.encrypted-files", deadline: deadline)
    }

    /// The secret in `slot`; `nil` when there is no file, which needs no passphrase.
    ///
    /// - Throws: `wrongPassphrase`, `noPassphrase`, `corrupt`, `unsafeFile`, `timedOut` or `failed`; `failed` also when
    ///   the task is cancelled.
    public func load(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret? {
        let place = try CredentialPlace(slot, in: directory)
        let file = try await lane.perform { _ throws(CredentialStoreError) in try place.read() }
        guard let file else { return nil }
        let passphrase = try await memory.passphrase(for: .opening(place.path))
        return try await lane.perform { [sealer] _ throws(CredentialStoreError) in
            try sealer.open(file, passphrase: passphrase, slot: place.digest, path: place.path)
        }
    }

    /// Replaces the secret in `slot`, 1 MiB at most.
    ///
    /// It is encrypted with a new nonce, written to a file beside the earlier one, brought to the disk, read back,
    /// decrypted and compared, and only then takes the earlier one's place, by one rename. The folder is brought to the
    /// disk before this returns. The key stays the file's own, unless its parameters are weaker than today's: then it is
    /// made anew, with a new salt. Files that writers left who were killed are removed.
    ///
    /// - Throws: `wrongPassphrase`, `noPassphrase`, `unsafeFile`, `notVerified`, `timedOut` or `failed`; `failed` also
    ///   when the task is cancelled and when the disk is full. What was there is then still there; after `timedOut` and a
    ///   cancellation that come too late to stop it, the new secret may be.
    public func save(_ secret: Secret, in slot: CredentialSlot) async throws(CredentialStoreError) {
        let place = try CredentialPlace(slot, in: directory)
        let purpose = try await purpose(at: place)
        let passphrase = try await memory.passphrase(for: purpose)
        try await lane.perform { [sealer] isWanted throws(CredentialStoreError) in
            let earlier = try place.readUnlessCorrupt()
            let file = try sealer.seal(
                secret, passphrase: passphrase, slot: place.digest, replacing: earlier, path: place.path)
            try place.write(file, isWanted: isWanted) { file throws(CredentialStoreError) in
                try sealer.open(file, passphrase: passphrase, slot: place.digest, path: place.path) == secret
            }
        }
    }

    /// Makes sure that a save can succeed, before anything is done that must not be lost: the folder is there and safe, and
    /// the passphrase is at hand and opens what is there. The passphrase is asked for here, if it has to be; the file
    /// stays as it is.
    ///
    /// - Throws: `wrongPassphrase`, `noPassphrase`, `unsafeFile`, `timedOut` or `failed`; `failed` also when the task is
    ///   cancelled. Not an error: a corrupt file, which a save replaces.
    public func prepareToSave(in slot: CredentialSlot) async throws(CredentialStoreError) {
        let place = try CredentialPlace(slot, in: directory)
        try await lane.perform { _ throws(CredentialStoreError) in try place.prepare() }
        let passphrase = try await memory.passphrase(for: try await purpose(at: place))
        try await lane.perform { [sealer] _ throws(CredentialStoreError) in
            guard let earlier = try place.readUnlessCorrupt() else { return }
            do throws(CredentialStoreError) {
                _ = try sealer.open(earlier, passphrase: passphrase, slot: place.digest, path: place.path)
            } catch .corrupt {}
        }
    }

    /// Removes the file of `slot`, whatever is in it, and what killed writers have left; needs no passphrase. A symbolic
    /// link in its place is removed, not followed.
    ///
    /// - Throws: `unsafeFile` when the folder is; `timedOut` or `failed`; `failed` also when the task is cancelled.
    public func delete(_ slot: CredentialSlot) async throws(CredentialStoreError) {
        let place = try CredentialPlace(slot, in: directory)
        try await lane.perform { _ throws(CredentialStoreError) in try place.remove() }
    }

    /// Encrypts what `slot` holds with another passphrase and a new salt. The store goes on with the new one.
    ///
    /// The other slots of the store keep the old one: for several, change them one after the other with a store for each.
    ///
    /// - Parameter source: Asked with ``PassphrasePurpose/creating(_:)``, after the old one has opened the file.
    /// - Returns: Whether there was anything to encrypt.
    /// - Throws: what ``load(_:)`` and ``save(_:in:)`` throw; what was there is then still there.
    @discardableResult
    public func changePassphrase(
        of slot: CredentialSlot, to source: any PassphraseSource
    ) async throws(CredentialStoreError) -> Bool {
        let place = try CredentialPlace(slot, in: directory)
        guard let secret = try await load(slot) else { return false }
        let passphrase = try await PassphraseMemory(source).passphrase(for: .creating(place.path))
        try await lane.perform { [sealer] isWanted throws(CredentialStoreError) in
            let file = try sealer.sealAnew(secret, passphrase: passphrase, slot: place.digest)
            try place.write(file, isWanted: isWanted) { file throws(CredentialStoreError) in
                try sealer.open(file, passphrase: passphrase, slot: place.digest, path: place.path) == secret
            }
        }
        memory.replace(with: passphrase)
        return true
    }

    /// Forgets the passphrase and every key made from it: the next call that needs it asks for it again. For a
    /// passphrase that turned out wrong, or a screen that is being locked.
    public func forgetPassphrase() {
        memory.forget()
        sealer.ring.forgetAll()
    }

    /// Where the credential of `slot` lies, or would; a name that tells nothing of the account.
    ///
    /// - Throws: ``CredentialStoreError/failed(_:)`` when libcrypto can't be used.
    public func path(of slot: CredentialSlot) throws(CredentialStoreError) -> String {
        try CredentialPlace(slot, in: directory).path
    }

    /// Whether the passphrase will open something or make something new. Known already, it makes no difference.
    private func purpose(at place: CredentialPlace) async throws(CredentialStoreError) -> PassphrasePurpose {
        if memory.isKnown { return .opening(place.path) }
        let earlier = try await lane.perform { _ throws(CredentialStoreError) in try place.readUnlessCorrupt() }
        return earlier == nil ? .creating(place.path) : .opening(place.path)
    }
}
