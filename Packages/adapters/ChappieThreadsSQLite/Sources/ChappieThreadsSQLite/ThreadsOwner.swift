import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieCrypto
@_spi(ChappieInternals) import ChappieFiles
import ChappieRuntime

/// The user of a host app who owns threads. The threads' folder and the slot of their key are derived from the user.
struct ThreadsOwner: Sendable, Hashable {
    /// The slot of the owner's credential.
    let slot: CredentialSlot
    /// A SHA-256 digest of the slot in hexadecimal, because an account may be an e-mail address.
    private let digest: String

    init(_ slot: CredentialSlot) throws(StoreError) {
        self.slot = slot
        do throws(CredentialStoreError) {
            digest = String(try slot.sha256Digest().prefix(32))
        } catch {
            throw .unavailable(error.errorDescription ?? "the crypto library failed")
        }
    }

    /// Returns `$XDG_STATE_HOME/chappie/threads/SERVICE/DIGEST`, or the same path in `~/.local/state`. On Apple's
    /// platforms, the folder is in the program's own Application Support, even if programs share the credential.
    func directory(in environment: [String: String]) throws(StoreError) -> String {
        guard let state = UserFolders.ofPlatform({ environment[$0] }).state else {
            throw .unavailable("there is no home directory for them (\(FolderProblem.homeless.remedy))")
        }
        return "\(state)/threads/\(folderOfService)/\(digest)"
    }

    /// The service's name, or `other` if the name cannot name a folder. Services can share a folder because the digest
    /// covers the service.
    private var folderOfService: String {
        let isName = slot.service.utf8.allSatisfy { $0.isASCIIAlphanumeric || "-_.".utf8.contains($0) }
        let isUsable = isName && (1...128).contains(slot.service.utf8.count) && !slot.service.hasPrefix(".")
        return isUsable ? slot.service : "other"
    }

    /// Returns the slot of the key of one database.
    func keySlot(of database: String) -> CredentialSlot {
        CredentialSlot(
            service: slot.service, account: "threads-\(digest)-\(database)", accessGroup: slot.accessGroup,
            issuer: slot.issuer)
    }
}

/// The place of a file thread store. It consists of a folder, and of the owner if the folder is derived from an owner.
struct ThreadPlace {
    let folder: Result<ThreadFolder, StoreError>
    let owner: ThreadsOwner?
    /// Whether the program chose the folder or the owner, and not its first runtime.
    let isNamed: Bool

    /// Creates the place of a named folder. Its keys are in a slot that all programs share.
    init(directory: String, on fileSystem: ThreadFileSystem? = nil) {
        owner = nil
        isNamed = true
        folder = Result { () throws(StoreError) in try ThreadFolder(directory, on: fileSystem) }
    }

    init(of slot: CredentialSlot, isNamed: Bool = true) {
        let owner = Result { () throws(StoreError) in try ThreadsOwner(slot) }
        self.owner = try? owner.get()
        self.isNamed = isNamed
        folder = Result { () throws(StoreError) in
            try ThreadFolder(owner.get().directory(in: ProcessInfo.processInfo.environment))
        }
    }

    init(failure: StoreError) {
        owner = nil
        isNamed = false
        folder = .failure(failure)
    }
}
